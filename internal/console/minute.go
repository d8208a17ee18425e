package console

import (
	"sync"
	"time"

	"sluice/internal/hours"
)

// minutesKept is how far back the numbers by the minute go. They are this node's own and begin anew when it does.
const minutesKept = 24 * 60

// minutes is a ring of hours.Totals by the minute, filled from counters that only grow.
type minutes struct {
	mu    sync.Mutex
	ring  [minutesKept]hours.Totals
	at    [minutesKept]int64 // which minute a place holds
	last  hours.Totals       // the counters at the last look
	known bool
}

// look takes the counters as they are now and counts what was added since the last look to this minute.
func (m *minutes) look(now time.Time, counters hours.Totals) {
	m.mu.Lock()
	defer m.mu.Unlock()
	minute := now.Unix() / 60
	i := minute % minutesKept
	if m.at[i] != minute {
		m.at[i], m.ring[i] = minute, hours.Totals{}
	}
	if m.known {
		m.ring[i].Add(hours.Totals{
			Accepted: counters.Accepted - m.last.Accepted, Rejected: counters.Rejected - m.last.Rejected,
			Late:       counters.Late - m.last.Late,
			Restricted: counters.Restricted - m.last.Restricted, Suppressed: counters.Suppressed - m.last.Suppressed,
		})
	}
	m.last, m.known = counters, true
}

// begin counts what came before the first look: a console that opens after the first request misses nothing.
func (m *minutes) begin() { m.known = true }

// over are the minutes of a window by the minute.
func (m *minutes) over(w window) []hours.Totals {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]hours.Totals, w.Steps)
	for k := range out {
		minute := (w.From + int64(k)*w.Step) / 60
		if i := minute % minutesKept; m.at[i] == minute {
			out[k] = m.ring[i]
		}
	}
	return out
}

// lately is the sum of the last sixty seconds, as near as whole minutes come: the running minute and, weighted
// by how much of it still counts, the one before.
func (m *minutes) lately(now time.Time) hours.Totals {
	m.mu.Lock()
	defer m.mu.Unlock()
	get := func(minute int64) hours.Totals {
		if i := minute % minutesKept; m.at[i] == minute {
			return m.ring[i]
		}
		return hours.Totals{}
	}
	minute := now.Unix() / 60
	sum, before := get(minute), get(minute-1)
	rest := 60 - now.Unix()%60
	share := func(n int64) int64 { return n * rest / 60 }
	sum.Add(hours.Totals{
		Accepted: share(before.Accepted), Rejected: share(before.Rejected), Late: share(before.Late),
		Restricted: share(before.Restricted), Suppressed: share(before.Suppressed),
	})
	return sum
}
