package parquetfile

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/parquet-go/parquet-go"
)

// The Parquet library makes the schema of a file with the names and ids of the columns, in their order.
func TestSchema(t *testing.T) {
	fields := sampleSchema.parquet().Fields()
	if len(fields) != len(sampleColumns) {
		t.Fatalf("got %d columns, want %d", len(fields), len(sampleColumns))
	}
	for i, f := range fields {
		want := sampleColumns[i].Field
		if f.Name() != want.Name || f.ID() != want.ID || f.Required() == want.Optional {
			t.Errorf("got %s, id %d, required %v, want %+v", f.Name(), f.ID(), f.Required(), want)
		}
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
			made := makeFile(t, FreshPage, func(w *Writer[sample]) (err error) {
				for i := range rows {
					err = errors.Join(err, w.Add(t.Context(), &rows[i]))
				}
				return err
			})
			notes := readColumn(t, made.data, "note")
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
