package parquetfile

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// withoutIndex is a file as programs write it that make no index of pages.
func withoutIndex(t *testing.T, data []byte) []byte {
	t.Helper()
	f, err := open(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	meta := *f.Metadata()
	meta.CreatedBy, meta.KeyValueMetadata = "another program", nil
	pages := indexOffset(&meta)
	for _, g := range meta.RowGroups {
		for i := range g.Columns {
			g.Columns[i] = format.ColumnChunk{MetaData: g.Columns[i].MetaData}
		}
	}
	footer, err := thrift.Marshal(new(thrift.CompactProtocol), &meta)
	if err != nil {
		t.Fatal(err)
	}
	out := append(slices.Clone(data[:pages]), footer...)
	return append(binary.LittleEndian.AppendUint32(out, uint32(len(footer))), "PAR1"...)
}

// Rows that a condition chooses are read from every page, with an index of pages and without one.
func TestChosenRows(t *testing.T) {
	const n = 9000
	all := randomSamples(rand.New(rand.NewPCG(7, 7)), n)
	rows := sampleSchema.NewRows()
	rows.Add(all)
	places := make([]int32, n)
	for i := range places {
		places[i] = int32(i)
	}
	made := makeFile(t, 512, func(w *Writer[sample]) error { return w.WriteRows(t.Context(), rows, places) })
	for name, data := range map[string][]byte{"index": made.data, "no index": withoutIndex(t, made.data)} {
		for _, every := range []int32{1, 3, 1000, 4001} {
			match := func(r *sample) bool { return r.Small%every == every-1 }
			sel := &Selection[sample]{
				Stages: []Stage[sample]{{Columns: Named(sampleColumns, []string{"small"}), Match: match}},
				Rest:   slices.DeleteFunc(slices.Clone(sampleColumns), func(c Column[sample]) bool { return c.Name == "small" }),
			}
			var got, want []sample
			for _, s := range all {
				if match(&s) {
					want = append(want, s)
				}
			}
			damaged := func(err error) { t.Errorf("%s, one row of %d: %v", name, every, err) }
			err := ReadRows(t.Context(), bytes.NewReader(data), int64(len(data)), sel, damaged, func(some []sample) error {
				got = append(got, slices.Clone(some)...)
				return nil
			})
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s, one row of %d: got %d rows, %v, want %d", name, every, len(got), err, len(want))
			}
		}
	}
}
