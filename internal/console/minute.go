package console

import (
	"sync"
	"time"
)

// minutesKept is how far back the numbers by the minute go. They are this node's own and begin anew when it does.
const minutesKept = 24 * 60

// minutes is a ring of totals by the minute, filled from counters that only grow.
type minutes struct {
	mu    sync.Mutex
	ring  [minutesKept]totals
	at    [minutesKept]int64 // which minute a place holds
	last  totals             // the counters at the last look
	known bool
}

// look takes the counters as they are now and books what was added since the last look to this minute.
func (m *minutes) look(now time.Time, counters totals) {
	m.mu.Lock()
	defer m.mu.Unlock()
	minute := now.Unix() / 60
	i := minute % minutesKept
	if m.at[i] != minute {
		m.at[i], m.ring[i] = minute, totals{}
	}
	if m.known {
		m.ring[i].add(totals{
			counters.Accepted - m.last.Accepted, counters.Rejected - m.last.Rejected, counters.Late - m.last.Late,
			counters.Restricted - m.last.Restricted, counters.Suppressed - m.last.Suppressed,
		})
	}
	m.last, m.known = counters, true
}

// begin books what was counted before the first look: a console that opens after the first request misses nothing.
func (m *minutes) begin() { m.known = true }

// over are the minutes of a window by the minute.
func (m *minutes) over(w window) []totals {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]totals, w.steps)
	for k := range out {
		minute := (w.from + int64(k)*w.step) / 60
		if i := minute % minutesKept; m.at[i] == minute {
			out[k] = m.ring[i]
		}
	}
	return out
}

// lately is the sum of the last sixty seconds, as near as whole minutes come: the running minute and, weighted
// by how much of it still counts, the one before.
func (m *minutes) lately(now time.Time) totals {
	m.mu.Lock()
	defer m.mu.Unlock()
	get := func(minute int64) totals {
		if i := minute % minutesKept; m.at[i] == minute {
			return m.ring[i]
		}
		return totals{}
	}
	minute := now.Unix() / 60
	sum, before := get(minute), get(minute-1)
	rest := 60 - now.Unix()%60
	share := func(n int64) int64 { return n * rest / 60 }
	sum.add(totals{share(before.Accepted), share(before.Rejected), share(before.Late), share(before.Restricted), share(before.Suppressed)})
	return sum
}
