// Package arrival knows when the oldest request that is under way was received.
package arrival

import (
	"sync"
	"time"
)

// Desk stamps requests with the time at which they are received. The zero value is ready; its methods may be called
// by many goroutines.
type Desk struct {
	mu       sync.Mutex
	under    map[int64]int // requests under way, by the second at which they were received
	promised int64         // no request is received before, Unix seconds
}

// Enter stamps a request, which is under way until Leave. Its time is now, or what Oldest has promised if the clock
// was set back meanwhile.
func (d *Desk) Enter(now func() time.Time) time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	at := now()
	if at.Unix() < d.promised {
		at = time.Unix(d.promised, 0)
	}
	if d.under == nil {
		d.under = map[int64]int{}
	}
	d.under[at.Unix()]++
	return at
}

// Leave ends a request.
func (d *Desk) Leave(at time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.under[at.Unix()]--; d.under[at.Unix()] <= 0 {
		delete(d.under, at.Unix())
	}
}

// Doubt is how long a request may still be stored after its sender was told that it may not be. Arbitrary: longer
// than the engine keeps a message on its way.
const Doubt = time.Minute

// LeaveInDoubt ends a request of which nobody knows whether it is stored.
func (d *Desk) LeaveInDoubt(at time.Time) { time.AfterFunc(Doubt, func() { d.Leave(at) }) }

// Oldest is a time, in Unix seconds, before which no request was received that is under way or still to come.
func (d *Desk) Oldest(now func() time.Time) int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	oldest := max(d.promised, now().Unix())
	d.promised = oldest
	for at := range d.under {
		oldest = min(oldest, at)
	}
	return oldest
}

// Raise lets no request be received before a time, in Unix seconds.
func (d *Desk) Raise(at int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.promised = max(d.promised, at)
}
