package iceberg

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"sluice/internal/watermark"
)

// Iceberg has the names and ids of the columns, in their order.
func TestSchema(t *testing.T) {
	fields := sampleSchema.schema.Fields()
	if len(fields) != len(sampleSchema.Columns) {
		t.Fatalf("got %d columns, want %d", len(fields), len(sampleSchema.Columns))
	}
	for i, f := range fields {
		want := sampleSchema.Columns[i].Field
		if f.Name != want.Name || f.ID != want.ID || f.Required == want.Optional || f.Type == nil {
			t.Errorf("got %v, want %+v", f, want)
		}
	}
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
		if err := table.Append(t.Context(), rows, watermark.Origin{Spans: []watermark.Span{{From: i, To: i + 1}}}, nil); err != nil {
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
		found := func(f Finding) { t.Errorf("got %+v, want nothing wrong", f) }
		checked, err := table.Check(t.Context(), found, func(int, int) {})
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
