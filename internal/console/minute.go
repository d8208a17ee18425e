package console

import (
	"sync"
	"time"

	"sluice/internal/lake"
)

// minutesKept is how far back the numbers by the minute go. They are this node's own and begin anew when it does.
const minutesKept = 24 * 60

// minutes is a ring of lake.Totals by the minute, filled from counters that only grow.
type minutes struct {
	mu    sync.Mutex
	ring  [minutesKept]lake.Totals
	at    [minutesKept]int64 // which minute a place holds
	last  lake.Totals        // the counters at the last look
	known bool
}

// look takes the counters as they are now and counts what was added since the last look to this minute.
func (m *minutes) look(now time.Time, counters lake.Totals) {
	m.mu.Lock()
	defer m.mu.Unlock()
	minute := now.Unix() / 60
	i := minute % minutesKept
	if m.at[i] != minute {
		m.at[i], m.ring[i] = minute, lake.Totals{}
	}
	if m.known {
		m.ring[i].Add(lake.Totals{
			Accepted: counters.Accepted - m.last.Accepted, Rejected: counters.Rejected - m.last.Rejected, Late: counters.Late - m.last.Late,
			Restricted: counters.Restricted - m.last.Restricted, Suppressed: counters.Suppressed - m.last.Suppressed,
		})
	}
	m.last, m.known = counters, true
}

// begin counts what came before the first look: a console that opens after the first request misses nothing.
func (m *minutes) begin() { m.known = true }

// over are the minutes of a window by the minute.
func (m *minutes) over(w window) []lake.Totals {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]lake.Totals, w.Steps)
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
func (m *minutes) lately(now time.Time) lake.Totals {
	m.mu.Lock()
	defer m.mu.Unlock()
	get := func(minute int64) lake.Totals {
		if i := minute % minutesKept; m.at[i] == minute {
			return m.ring[i]
		}
		return lake.Totals{}
	}
	minute := now.Unix() / 60
	sum, before := get(minute), get(minute-1)
	rest := 60 - now.Unix()%60
	share := func(n int64) int64 { return n * rest / 60 }
	sum.Add(lake.Totals{
		Accepted: share(before.Accepted), Rejected: share(before.Rejected), Late: share(before.Late),
		Restricted: share(before.Restricted), Suppressed: share(before.Suppressed),
	})
	return sum
}
