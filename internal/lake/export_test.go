package lake

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"

	"github.com/parquet-go/parquet-go"

	"sluice/event"
)

// The table and an export name the same columns.
func TestOneListOfColumns(t *testing.T) {
	var object map[string]any
	if err := json.Unmarshal(event.AppendJSON(nil, &event.Row{}), &object); err != nil || len(object) != len(eventSchema.Columns) {
		t.Errorf("got %d members in JSON, %v, want %d", len(object), err, len(eventSchema.Columns))
	}
	for _, c := range eventSchema.Columns {
		if _, ok := object[c.Name]; !ok {
			t.Errorf("got no member %s in JSON", c.Name)
		}
	}
}

func TestWriteParquet(t *testing.T) {
	l := openLake(t, Options{})
	rows := newSampler(5, 2, 9).rows(2500, noon)
	commit(t, l, rows)
	want := collect(t, l, Query{Dataset: "shop-1"})

	var out bytes.Buffer
	if n, err := l.WriteParquet(t.Context(), Query{Dataset: "shop-1"}, &out); err != nil || int(n) != len(want) {
		t.Fatalf("got %d rows, %v, want %d", n, err, len(want))
	}
	type some struct {
		EventID event.ID `parquet:"event_id,uuid"`
		PageURL *string  `parquet:"page_url,optional"`
		Value   *float64 `parquet:"value,optional"`
	}
	got, err := parquet.Read[some](bytes.NewReader(out.Bytes()), int64(out.Len()))
	if err != nil || len(got) != len(want) {
		t.Fatalf("got %d rows, %v, want %d", len(got), err, len(want))
	}
	slices.SortFunc(got, func(a, b some) int { return bytes.Compare(a.EventID[:], b.EventID[:]) })
	for i, w := range byID(want) {
		if g := got[i]; g.EventID != w.EventID || (g.PageURL == nil) != (w.PageURL == "") || g.PageURL != nil && *g.PageURL != w.PageURL ||
			(g.Value != nil) != w.HasValue || g.Value != nil && *g.Value != w.Value {
			t.Fatalf("row %d: got another row than was stored", i)
		}
	}
}
