package parquetfile

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

// Rows that were taken apart into columns come back from the file as they were, in the order that was asked for.
func TestRowsAreTakenApart(t *testing.T) {
	long := func(i int) string { return fmt.Sprintf("a note that no other row has: %d, and some more text", i) }
	for _, c := range []struct {
		name   string
		rows   int
		change func(i int, row *sample)
	}{
		{"one row", 1, func(int, *sample) {}},
		{"a few pages", 20_000, func(int, *sample) {}},
		{"times far apart", 5000, func(i int, row *sample) { row.At += int64(i%2) * 86400 }},
		{"nothing optional", 3000, func(_ int, row *sample) { *row = sample{At: row.At, Set: row.Set, Large: row.Large} }},
		{"everything", 3000, func(i int, row *sample) {
			row.Note, row.Numbers, row.Has = long(i%7), []int32{int32(i), 7, int32(-i)}, true
			row.Hash = fmt.Sprintf("%064x", i+1)
		}},
		{"a dictionary that is given up", 9000, func(i int, row *sample) { row.Note = long(i) }},
		{"an empty text where there must be one", 500, func(i int, row *sample) {
			if i%3 == 0 {
				row.Set = ""
			}
		}},
		{"extreme numbers", 500, func(i int, row *sample) {
			row.Small, row.Has = []int32{-1 << 31, 1<<31 - 1, 0}[i%3], true
			row.Amount = []float64{-1e308, 1e-308, 0}[i%3]
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := randomSamples(rand.New(rand.NewPCG(5, uint64(c.rows))), c.rows)
			for i := range want {
				c.change(i, &want[i])
			}
			rows := sampleSchema.NewRows()
			rows.Add(want)
			made := makeFile(t, FreshPage, func(w *Writer[sample]) error {
				return w.WriteRows(t.Context(), rows, sortedPlaces(want))
			})
			got := rowsOf(t, made)
			if !slices.IsSortedFunc(got, func(a, b sample) int { return compareSamples(&a, &b) }) {
				t.Error("got a file whose rows are not in order")
			}
			checkValues(t, made)
			byNumber := func(a, b sample) int { return cmp.Compare(a.Large, b.Large) }
			slices.SortFunc(got, byNumber)
			slices.SortFunc(want, byNumber)
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got %d rows, want the %d that were added", len(got), len(want))
			}
		})
	}
}

// A collection can be used again, also after it had long values.
func TestRowsAreReset(t *testing.T) {
	rows := sampleSchema.NewRows()
	for round := range 3 {
		list := randomSamples(rand.New(rand.NewPCG(6, uint64(round))), 300)
		for i := range list {
			list[i].Note = fmt.Sprint(round, " ", i)
		}
		rows.Add(list)
		if got := rows.Len(); got != len(list) {
			t.Fatalf("got %d rows, want %d", got, len(list))
		}
		if got := rows.columns[3].values.len(); got != len(list) {
			t.Fatalf("got %d notes, want the %d of this round", got, len(list))
		}
		rows.Reset()
	}
}
