package lake

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"sluice/event"
)

// Collected events are sorted as rows are compared.
func TestOrderOfEventRows(t *testing.T) {
	for _, c := range []struct {
		name           string
		n              int
		datasets, span int
	}{
		{"none", 0, 1, 1},
		{"one", 1, 1, 1},
		{"one dataset, one second", 2000, 1, 1},
		{"one dataset, a month", 2000, 1, 30 * 24 * 3600},
		{"many datasets", 5000, 3000, 600},
		{"times of centuries", 3000, 10, 1 << 35},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, uint64(c.n)))
			rows := make([]event.Row, c.n)
			for i := range rows {
				rows[i].DatasetID = fmt.Sprint("shop-", r.IntN(c.datasets))
				rows[i].EventTime = noon.Unix() - int64(r.IntN(c.span))
				for k := range rows[i].EventID {
					rows[i].EventID[k] = byte(r.Uint32())
				}
			}
			e := NewEventRows()
			for part := range slices.Chunk(rows, 700) {
				e.Add(part)
			}
			order, err := e.sort(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			got := make([]event.ID, 0, c.n)
			for _, i := range order {
				got = append(got, rows[i].EventID)
			}
			slices.SortFunc(rows, func(a, b event.Row) int { return compareEvents(&a, &b) })
			for i := range rows {
				if got[i] != rows[i].EventID {
					t.Fatalf("row %d: got another event than the order of rows has", i)
				}
			}
			if len(got) != c.n || e.Len() != c.n {
				t.Fatalf("got %d of %d events, want %d", len(got), e.Len(), c.n)
			}
		})
	}
}
