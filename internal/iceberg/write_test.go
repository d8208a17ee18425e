package iceberg

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/parquet-go/parquet-go"
)

// Parquet and Iceberg name the same columns, with the same ids, in the same order.
func TestOneSchema(t *testing.T) {
	var got []string
	for _, f := range sampleSchema.parquet().Fields() {
		got = append(got, f.Name())
		field, _ := sampleSchema.schema.FindFieldByName(f.Name())
		if f.ID() != field.ID || f.Required() != field.Required {
			t.Errorf("%s: got id %d, required %v, want %d, %v", f.Name(), f.ID(), f.Required(), field.ID, field.Required)
		}
	}
	if want := sampleSchema.ColumnNames(); !slices.Equal(got, want) {
		t.Errorf("got columns %v, want %v", got, want)
	}
}

// Whatever is absent in the rows is null in the file, at every place of every word of 64 rows: the levels are read back
// without our own reader.
func TestNullsAreWhereTheyWere(t *testing.T) {
	for n := 1; n <= 200; n++ {
		for _, at := range []int{0, 1, n / 3, n / 2, n - 1} {
			rows := randomSamples(rand.New(rand.NewPCG(uint64(n), uint64(at))), n)
			for i := range rows { // a run of at values that begins at row at: what parquet-go's own row writer gets wrong
				rows[i].Note = ""
				if i >= at && i < 2*at || i == at {
					rows[i].Note = "present"
				}
			}
			var out bytes.Buffer
			w := newParquetWriter(sampleSchema, &out, freshPage, nil)
			for i := range rows {
				if err := w.add(t.Context(), &rows[i]); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := w.finish(t.Context()); err != nil {
				t.Fatal(err)
			}
			notes := readColumn(t, out.Bytes(), "note")
			for i, v := range notes {
				if v.IsNull() != (rows[i].Note == "") {
					t.Fatalf("%d rows, values from %d on: row %d is null: %v, want %v", n, at, i, v.IsNull(), rows[i].Note == "")
				}
			}
			if len(notes) != n {
				t.Fatalf("got %d notes, want %d", len(notes), n)
			}
		}
	}
}

func readColumn(t *testing.T, file []byte, name string) (out []parquet.Value) {
	t.Helper()
	f, err := parquet.OpenFile(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	leaf, _ := f.Schema().Lookup(name)
	for _, g := range f.RowGroups() {
		pages := g.ColumnChunks()[leaf.ColumnIndex].Pages()
		defer pages.Close()
		for {
			page, err := pages.ReadPage()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			values := make([]parquet.Value, page.NumValues())
			if _, err := page.Values().ReadValues(values); err != nil && !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
			for _, v := range values {
				out = append(out, v.Clone())
			}
		}
	}
	return out
}

// Rows come back as they were, through commits, compaction and a look at every file.
func TestRowsComeBack(t *testing.T) {
	table := openSamples(t, t.TempDir())
	r := rand.New(rand.NewPCG(1, 2))
	var want []sample
	for i := range uint64(20) {
		rows := randomSamples(r, 1+r.IntN(300))
		for k := range rows {
			rows[k].Large = int64(len(want) + k)
		}
		want = append(want, rows...)
		if err := table.Append(t.Context(), rows, Origin{Spans: []Span{{From: i, To: i + 1}}}, nil); err != nil {
			t.Fatal(err)
		}
	}
	look := func() {
		t.Helper()
		var got []sample
		err := table.Scan(t.Context(), Query[sample]{}, func(rows []sample) error { got = append(got, rows...); return nil })
		if err != nil {
			t.Fatal(err)
		}
		slices.SortFunc(got, func(a, b sample) int { return int(a.Large - b.Large) })
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("got %d rows, want the %d that were written", len(got), len(want))
		}
		checked, err := table.Check(t.Context(), func(f Finding) { t.Errorf("got %+v, want nothing wrong", f) }, func(int, int) {})
		if err != nil || checked.Files == 0 {
			t.Fatalf("got %+v, %v, want files that were checked", checked, err)
		}
	}
	look()
	for {
		more, err := table.Compact(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if !more {
			break
		}
	}
	look()
	if n := table.Stats().Files; n > 16 {
		t.Errorf("got %d files after compaction, want at most 16", n)
	}
}
