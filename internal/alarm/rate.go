package alarm

import (
	"slices"
	"sync"

	"sluice/internal/histogram"
)

// ratesKept is how many minutes of counters are kept: the longest window of an alarm is an hour.
const ratesKept = 61

// counters are numbers that only grow, as they were once a minute.
type counters struct {
	minute         int64
	requests, errs uint64 // answers, and those with a 5xx
	lost           uint64
	latency        histogram.Buckets
}

// rates remembers counters, so that alarms can be about the last minutes and not about everything since the start.
type rates struct {
	mu  sync.Mutex
	all []counters // oldest first
}

func (r *rates) look(s *State) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := s.growing()
	if n := len(r.all); n > 0 && r.all[n-1].minute == now.minute {
		return
	}
	if r.all = append(r.all, now); len(r.all) > ratesKept {
		r.all = slices.Delete(r.all, 0, 1)
	}
}

// since is what was added in the last minutes, or since the start where that is shorter.
func (r *rates) since(s *State, minutes int64) counters {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := s.growing()
	for _, c := range r.all {
		if now.minute-c.minute <= minutes {
			now.requests, now.errs, now.lost = now.requests-c.requests, now.errs-c.errs, now.lost-c.lost
			for i := range now.latency {
				now.latency[i] -= c.latency[i]
			}
			return now
		}
	}
	return counters{minute: now.minute}
}

func (s *State) growing() counters {
	c := counters{minute: s.Now.Unix() / 60, lost: s.API.RejectionsLost, latency: s.Stream.Latency}
	for i := range s.API.Routes {
		for _, st := range s.API.Routes[i].Statuses {
			if c.requests += st.Count; st.Status >= 500 {
				c.errs += st.Count
			}
		}
	}
	return c
}
