package hours

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"sluice/internal/lake"
)

// A start without a saved index takes what its rows take, and not more for each day: every file is read once, a dataset is packed
// once, and names are made once for a file.
func TestCostOfAStart(t *testing.T) {
	w := newWorld(t, 1, halfPastNoon)
	count := func(days int) (rows int, opened, allocations int64) {
		for day := range days {
			var some []lake.Hour
			at := w.now.AddDate(0, 0, -day).Truncate(24 * time.Hour)
			for hour := range 4 {
				for d := range 100 {
					for _, name := range []string{"page_view", "purchase", "search"} {
						for _, field := range []string{FieldAccepted, FieldLate, FieldEligible} {
							some = append(some, lake.Hour{
								Hour: at.Add(time.Duration(3*hour) * time.Hour).Unix(), DatasetID: fmt.Sprint("shop-", d), Kind: KindEvents, Name: name, Field: field, Count: 3,
							})
						}
					}
				}
			}
			w.commit(some)
			rows += len(some)
		}
		w.open()
		w.opened.Store(0)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		w.read()
		runtime.ReadMemStats(&after)
		if !w.index.Complete() {
			t.Error("not complete")
		}
		return rows, w.opened.Load(), int64(after.Mallocs - before.Mallocs)
	}
	first, opened, allocations := count(1)
	t.Logf("%d rows of a day: %d objects, %d allocations", first, opened, allocations)
	w = newWorld(t, 1, halfPastNoon)
	rows, openedAll, all := count(8)
	t.Logf("%d rows of 8 days: %d objects, %d allocations", rows, openedAll, all)
	if openedAll > opened+7 {
		t.Errorf("got %d objects opened for 8 days, and %d for one", openedAll, opened)
	}
	if most := allocations + allocations/2 + 7*500; all > most { // the columns of a file
		t.Errorf("got %d allocations for 8 days, want %d at the most: a day takes %d", all, most, allocations)
	}
}
