package lake

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	"github.com/parquet-go/parquet-go"

	"sluice/event"
)

// The columns that Parquet writes, that readers set, that Iceberg lists and that an export names are the same.
func TestOneListOfColumns(t *testing.T) {
	names := func(schema *parquet.Schema) (out []string) {
		for _, f := range schema.Fields() {
			out = append(out, f.Name())
		}
		return out
	}
	for _, c := range []struct {
		layout  *layout
		parquet *parquet.Schema
		columns []string
	}{
		{&eventsLayout, parquet.SchemaOf(eventRow{}), columnNames(eventColumns)},
		{&rejectionsLayout, parquet.SchemaOf(rejectionRow{}), columnNames(rejectionColumns)},
		{&hoursLayout, parquet.SchemaOf(hourRow{}), columnNames(hourColumns)},
	} {
		var want []string
		for _, f := range c.layout.schema.Fields() {
			want = append(want, f.Name)
		}
		if got := names(c.parquet); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got Parquet columns %v, want %v", c.layout.name, got, want)
		}
		if !reflect.DeepEqual(c.columns, want) {
			t.Errorf("%s: got read columns %v, want %v", c.layout.name, c.columns, want)
		}
		for _, f := range c.parquet.Fields() {
			field, _ := c.layout.schema.FindFieldByName(f.Name())
			if f.ID() != field.ID || f.Required() != field.Required {
				t.Errorf("%s.%s: got id %d, required %v, want %d, %v", c.layout.name, f.Name(), f.ID(), f.Required(), field.ID, field.Required)
			}
		}
	}
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
	stored, err := parquet.Read[eventRow](bytes.NewReader(out.Bytes()), int64(out.Len()))
	if err != nil {
		t.Fatal(err)
	}
	var got []event.Row
	for i := range stored {
		var r event.Row
		stored[i].event(&r)
		if len(r.GPPSID) == 0 {
			r.GPPSID = nil
		}
		got = append(got, r)
	}
	same(t, got, want)
}
