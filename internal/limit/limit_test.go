package limit

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

var noon = time.Date(2026, 7, 30, 12, 0, 0, 0, time.UTC)

func TestBucket(t *testing.T) {
	type take struct {
		after time.Duration
		n     float64
		want  time.Duration
	}
	for name, c := range map[string]struct {
		rate  float64
		takes []take
	}{
		"unlimited":       {0, []take{{0, 1e9, 0}}},
		"burst of one":    {1, []take{{0, 1, 0}, {0, 1, time.Second}, {time.Second, 1, 0}}},
		"two a second":    {2, []take{{0, 1, 0}, {0, 1, 0}, {0, 1, 500 * time.Millisecond}, {500 * time.Millisecond, 1, 0}}},
		"less than one":   {0.1, []take{{0, 1, 0}, {0, 1, 10 * time.Second}, {10 * time.Second, 1, 0}}},
		"idle is no gain": {2, []take{{time.Hour, 2, 0}, {0, 1, 500 * time.Millisecond}}},
		"more than the burst, from a full bucket": {10, []take{
			{0, 35, 0}, {0, 1, 2600 * time.Millisecond}, {2600 * time.Millisecond, 1, 0}, {0, 35, time.Second},
		}},
		"clock steps back": {1, []take{{time.Hour, 1, 0}, {-time.Hour, 1, time.Second}, {time.Second, 1, 0}}},
	} {
		t.Run(name, func(t *testing.T) {
			var b Bucket
			now := noon
			for i, k := range c.takes {
				now = now.Add(k.after)
				if got := b.Take(now, Rate{c.rate, 1}, k.n).Round(time.Microsecond); got != k.want {
					t.Fatalf("take %d of %v: got a wait of %v, want %v", i, k.n, got, k.want)
				}
			}
		})
	}
}

// A rate that the operator changes counts from then on.
func TestBucketChanges(t *testing.T) {
	var b Bucket
	if b.Take(noon, Rate{1, 1}, 1) != 0 || b.Take(noon, Rate{1, 1}, 1) == 0 {
		t.Error("the first rate is not held")
	}
	for i := range 5 {
		if b.Take(noon, Rate{5, 1}, 1) != 0 {
			t.Errorf("request %d of 5 is rejected at the new rate", i)
		}
	}
	if b.Take(noon, Rate{5, 1}, 1) == 0 || b.Take(noon, Rate{0, 1}, 1) != 0 {
		t.Error("the new rates are not held")
	}
	// When another node ends, this one gets more of the limit, but no second burst.
	if b.Take(noon, Rate{5, 0.5}, 1) == 0 || b.Take(noon, Rate{5, 1}, 1) == 0 {
		t.Error("a new share brings new tokens at once")
	}
	if b.Take(noon.Add(200*time.Millisecond), Rate{5, 0.5}, 1) == 0 || b.Take(noon.Add(400*time.Millisecond), Rate{5, 0.5}, 1) != 0 {
		t.Error("half of 5/s does not bring one token in 400 ms")
	}
}

// Places go round the datasets: one that comes late waits for one request, not for everyone before it.
func TestFairSemaphore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 2
		var sem Fair
		var flood, late Waiters
		var order []string
		var mu sync.Mutex
		var wg sync.WaitGroup
		work := func(name string, w *Waiters, n int64) {
			wg.Go(func() {
				sem.Acquire(w, n, limit)
				mu.Lock()
				order = append(order, name)
				mu.Unlock()
				time.Sleep(time.Second)
				sem.Release(n, limit)
			})
			synctest.Wait()
		}
		for range 20 {
			work("flood", &flood, 1)
		}
		work("late", &late, 5) // more than the limit
		mu.Lock()
		if len(order) != limit {
			t.Errorf("%d work at one time, want %d", len(order), limit)
		}
		mu.Unlock()
		wg.Wait()
		// The first two that waited are let in at the same moment, in either order.
		if !slices.Contains(order[limit:limit+2], "late") || !slices.Contains(order[limit:limit+2], "flood") {
			t.Errorf("got %v, want late among the first two that waited", order)
		}
		if sem.used != 0 || len(sem.ring) != 0 || len(order) != 21 {
			t.Errorf("%d are in use, %d datasets wait, %d worked", sem.used, len(sem.ring), len(order))
		}
	})
}
