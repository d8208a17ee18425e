package lake

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	"github.com/parquet-go/parquet-go"

	"sluice/event"
)

// Parquet, Iceberg and an export name the same columns, with the same ids.
func TestOneListOfColumns(t *testing.T) {
	holdColumns(t, eventSchema)
	holdColumns(t, rejectionSchema)
	holdColumns(t, hourSchema)
	var object map[string]any
	if err := json.Unmarshal(event.AppendJSON(nil, &event.Row{}), &object); err != nil || len(object) != len(eventColumns) {
		t.Errorf("got %d members in JSON, %v, want %d", len(object), err, len(eventColumns))
	}
	for _, c := range eventColumns {
		if _, ok := object[c.name]; !ok {
			t.Errorf("got no member %s in JSON", c.name)
		}
	}
}

func holdColumns[T any](t *testing.T, s *schema[T]) {
	t.Helper()
	want := columnNames(s.columns)
	var got []string
	for _, f := range s.parquet().Fields() {
		got = append(got, f.Name())
		field, _ := s.schema.FindFieldByName(f.Name())
		if f.ID() != field.ID || f.Required() != field.Required {
			t.Errorf("%s.%s: got id %d, required %v, want %d, %v", s.name, f.Name(), f.ID(), f.Required(), field.ID, field.Required)
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: got Parquet columns %v, want %v", s.name, got, want)
	}
}

func columnNames[T any](columns []column[T]) (out []string) {
	for _, c := range columns {
		out = append(out, c.name)
	}
	return out
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
	file, err := parquet.OpenFile(bytes.NewReader(out.Bytes()), int64(out.Len()))
	if err != nil {
		t.Fatal(err)
	}
	r := &rowReader[event.Row]{
		sel: &selection[event.Row]{rest: eventColumns}, rows: make([]event.Row, readRows),
		values: make([]parquet.Value, readRows), keep: make([]int, readRows),
	}
	var got []event.Row
	for _, g := range file.RowGroups() {
		err := r.group(g, func(rows []event.Row) error { got = append(got, rows...); return nil })
		if err != nil {
			t.Fatal(err)
		}
	}
	same(t, got, want)
}
