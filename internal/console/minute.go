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
	mu   sync.Mutex
	ring [minutesKept]hours.Totals
	at   [minutesKept]int64 // which minute a place holds
	last hours.Totals       // the counters at the last look
}

// look takes the counters as they are now and counts what was added since the last look to this minute. The first look
// counts what came before it: a console that opens after the first request misses nothing.
func (m *minutes) look(now time.Time, counters hours.Totals) {
	m.mu.Lock()
	defer m.mu.Unlock()
	minute := now.Unix() / 60
	i := minute % minutesKept
	if m.at[i] != minute {
		m.at[i], m.ring[i] = minute, hours.Totals{}
	}
	m.ring[i].Add(counters)
	m.ring[i].Add(each(m.last, func(n int64) int64 { return -n }))
	m.last = counters
}

// get is what is known of a minute. The lock is held.
func (m *minutes) get(minute int64) hours.Totals {
	if i := minute % minutesKept; m.at[i] == minute {
		return m.ring[i]
	}
	return hours.Totals{}
}

// each changes every number of totals alike.
func each(t hours.Totals, change func(int64) int64) hours.Totals {
	return hours.Totals{
		Accepted: change(t.Accepted), Rejected: change(t.Rejected), Late: change(t.Late),
		Restricted: change(t.Restricted), Suppressed: change(t.Suppressed),
	}
}

// over are the minutes of a window by the minute.
func (m *minutes) over(w window) []hours.Totals {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]hours.Totals, w.Steps)
	for k := range out {
		out[k] = m.get((w.From + int64(k)*w.Step) / 60)
	}
	return out
}

// lately is the sum of the last sixty seconds, as near as whole minutes come: the running minute and, weighted
// by how much of it still counts, the one before.
func (m *minutes) lately(now time.Time) hours.Totals {
	m.mu.Lock()
	defer m.mu.Unlock()
	minute, rest := now.Unix()/60, 60-now.Unix()%60
	sum := m.get(minute)
	sum.Add(each(m.get(minute-1), func(n int64) int64 { return n * rest / 60 }))
	return sum
}
