package alarm

import (
	"fmt"
	"time"

	"sluice/internal/api"
	"sluice/internal/hours"
	"sluice/internal/humanize"
)

// failingWithin is how old the first of the last requests may be for the alarm about them to begin.
const failingWithin = 24 * time.Hour

// countedRequests is what the tables said of the accepted requests of a dataset when they were last looked at.
type countedRequests struct {
	hour  int64    // start of the hour that was running
	by    [2]int64 // in the hour before, and in the running one
	grown time.Time
}

// next is what the tables say now. It notes when there were more accepted requests than before.
func (c countedRequests) next(numbers *hours.Dataset, now time.Time) countedRequests {
	w := hours.NewWindow(time.Hour, 2, now)
	accepted, _ := numbers.RequestsBy(w)
	out := countedRequests{hour: w.From + w.Step, by: [2]int64{accepted[0], accepted[1]}, grown: c.grown}
	before := c.by
	switch {
	case c.hour == 0: // the first look: nothing to compare with
		return out
	case out.hour > c.hour:
		before = [2]int64{c.by[1], 0}
		if out.hour > c.hour+w.Step {
			before[0] = 0
		}
	}
	if out.by[0] > before[0] || out.by[1] > before[1] {
		out.grown = now
	}
	return out
}

// failingRequests finds a dataset whose every request fails: the last ones that this node saw were rejected, and no
// node has accepted one since the first of them. An alarm that has begun lasts until one is accepted.
func (f *findings) failingRequests(id string, numbers *hours.Dataset, own *api.DatasetStats, s *State) {
	counted := s.found.counted[id].next(numbers, s.Now)
	f.counted[id] = counted
	since, lasts := s.found.failingSince[id]
	if own == nil {
		own = &api.DatasetStats{}
	}
	st := own.Failing
	// It lasted when this node was restarted, and nobody has accepted one since.
	if st.Requests == 0 && lasts && own.Accepted == 0 && !acceptedSince(numbers, since, s.Now) {
		f.failingSince[id] = since
		say := fmt.Sprintf("Dataset %s: every request failed, and none has come since this node was restarted.", id)
		f.failing = append(f.failing, finding{id, say, DiagnosisPath(id), api.FailingLeast})
		return
	}
	begins := st.Requests >= api.FailingLeast && s.Now.Sub(st.First) <= failingWithin
	if st.Requests == 0 || !begins && !lasts {
		return
	}
	if len(s.Nodes()) > 1 && counted.grown.After(st.First) { // another node accepted one
		return
	}
	f.failingSince[id] = st.First
	requests := numbers.Requests(hours.NewWindow(time.Hour, 24, s.Now))
	say := fmt.Sprintf("Dataset %s: every request fails, the last one %s with %s.", id, humanize.Ago(s.Now, st.Last),
		st.Code)
	if requests.Rejected > 0 {
		say += fmt.Sprintf(" In the last 24 hours %s were rejected.",
			humanize.Plural(requests.Rejected, "request", "requests"))
	}
	f.failing = append(f.failing, finding{id, say, DiagnosisPath(id), max(requests.Rejected, int64(st.Requests))})
}

// acceptedSince says whether a request of a dataset was accepted in a later hour than that of a time, by any node.
func acceptedSince(numbers *hours.Dataset, since, now time.Time) bool {
	steps := now.Unix()/3600 - since.Unix()/3600
	return steps > 0 && numbers.Requests(hours.NewWindow(time.Hour, int(min(steps, 7*24)), now)).Accepted > 0
}
