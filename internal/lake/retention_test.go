package lake

import (
	"context"
	"testing"
	"time"

	"sluice/event"
	"sluice/internal/objectstore"
)

// Keep is a Retention for Options that never changes, and that nobody confirms.
func Keep(d time.Duration) func(context.Context) (Retention, error) {
	return func(context.Context) (Retention, error) { return Retention{Keep: d}, nil }
}

const day = 24 * time.Hour

// retained is a lake with a clock, in which each day from a first one on has 10 rows.
type retained struct {
	*testing.T
	lake   *Lake
	s      *sampler
	store  objectstore.Store
	now    time.Time
	policy Retention
}

func newRetained(t *testing.T, keep time.Duration) *retained {
	r := &retained{T: t, s: newSampler(3, 2, 9), store: at(t, t.TempDir()), now: noon, policy: Retention{Keep: keep}}
	r.open()
	return r
}

// open is another process on the same tables.
func (r *retained) open() {
	r.lake = openLake(r.T, Options{
		Store: r.store, Now: func() time.Time { return r.now },
		Retention: func(context.Context) (Retention, error) { return r.policy, nil },
	})
}

// receive lets days pass, each with rows.
func (r *retained) receive(days int) {
	var rows []event.Row
	for range days {
		r.now = r.now.Add(day)
		rows = append(rows, r.s.rows(10, r.now)...)
	}
	commit(r.T, r.lake, rows)
}

// gone runs retention, and compares how many days it dropped, and how many it holds back.
func (r *retained) gone(when string, days, held int) {
	r.Helper()
	n, err := r.lake.Retain(r.Context())
	if got := eventsOf(r.lake).Held; err != nil || n != int64(10*days) || got.Days != held || got.Rows != int64(10*held) {
		r.Errorf("%s: got %d rows gone, %+v held, %v, want %d days gone and %d held", when, n, got, err, days, held)
	}
}

func TestRetention(t *testing.T) {
	r := newRetained(t, 3*day)
	r.gone("fresh", 0, 0)
	r.receive(4)
	r.gone("the first day is as old as may be", 0, 0)
	r.receive(1)
	r.gone("it is too old", 1, 0)
	r.gone("again", 0, 0)
	r.receive(1)
	r.open()
	r.gone("another process", 1, 0)
}

// Days count from the newest receipt, or from the clock if that is earlier.
func TestRetentionCountsFromTheEarlier(t *testing.T) {
	r := newRetained(t, 30*day)
	r.receive(20)
	r.gone("all are young", 0, 0)
	r.now = r.now.AddDate(2, 0, 0)
	r.gone("nothing was received since", 0, 0)
	r.now = r.now.AddDate(-2, 0, -15)
	r.policy.Keep = 3 * day
	r.gone("the clock is behind the receipts: by it 20 days are 5, of which 1 is too old", 1, 0)
}

// A run drops at most the days that have passed since the last one, and two.
func TestRetentionHeld(t *testing.T) {
	for name, c := range map[string]struct {
		change func(r *retained)
		gone   int
		held   int
	}{
		"two more days":           {func(r *retained) { r.policy.Keep = 18 * day }, 2, 0},
		"three more days":         {func(r *retained) { r.policy.Keep = 17 * day }, 0, 3},
		"another flag":            {func(r *retained) { r.policy.Keep = day }, 0, 19},
		"a month without service": {func(r *retained) { r.now = r.now.Add(25 * day); r.receive(1) }, 21, 0},
		"a month, another flag":   {func(r *retained) { r.now = r.now.Add(9 * day); r.receive(1); r.policy.Keep = 12 * day }, 0, 18},
		"silence, then an event": {func(r *retained) {
			r.now = r.now.Add(25 * day)
			r.gone("silence", 0, 0)
			r.receive(1)
		}, 21, 0},
		"confirmed":         {func(r *retained) { r.policy = Retention{Keep: day, Confirmed: r.now} }, 19, 0},
		"confirmed earlier": {func(r *retained) { r.policy = Retention{Keep: day, Confirmed: r.now.Add(-3 * day)} }, 0, 19},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRetained(t, 20*day)
			r.receive(21)
			r.gone("before", 0, 0)
			c.change(r)
			r.open()
			r.gone("changed", c.gone, c.held)
		})
	}
}

// What is held back stays so, in another process, at another place and however long nobody looks. It goes when somebody
// confirms it, and is no longer held when the setting is corrected.
func TestHeldUntilConfirmed(t *testing.T) {
	for name, c := range map[string]struct {
		end        func(r *retained) error
		gone, next int
	}{
		"corrected": {func(r *retained) error { r.policy.Keep = 400 * day; return nil }, 0, 0},
		"confirmed": {func(r *retained) error { r.policy.Confirmed = r.now; return nil }, 14, 1},
		"released": {func(r *retained) error {
			n, err := r.lake.Release(r.Context())
			if n != 140 {
				r.Errorf("got %d rows, want 140", n)
			}
			return err
		}, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRetained(t, 400*day)
			r.receive(10)
			r.gone("before", 0, 0)
			r.policy.Keep = 5 * day
			r.gone("changed", 0, 4)
			r.now = r.now.Add(90 * day)
			r.gone("silence", 0, 4)
			copied := at(t, t.TempDir())
			if err := r.lake.CopyTo(t.Context(), copied, func(int, int) {}); err != nil {
				t.Fatal(err)
			}
			r.store = copied
			r.open()
			r.receive(10)
			r.gone("days later", 0, 14)
			if err := c.end(r); err != nil {
				t.Fatal(err)
			}
			r.gone("in the end", c.gone, 0)
			r.receive(1)
			r.gone("the day after", c.next, 0)
		})
	}
}
