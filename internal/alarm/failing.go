package alarm

import (
	"fmt"
	"time"

	"sluice/internal/api"
	"sluice/internal/dataset"
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
func (f *findings) failingRequests(d *dataset.Dataset, numbers *hours.Dataset, st api.Failing, s *State) {
	counted := s.found.counted[d.ID].next(numbers, s.Now)
	f.counted[d.ID] = counted
	since, lasts := s.found.failingSince[d.ID]
	if st.Requests == 0 && lasts && !s.acceptedSince(d.ID, numbers, since) { // it lasted when this node was restarted
		f.failingSince[d.ID] = since
		f.failing = append(f.failing, finding{
			d.ID,
			fmt.Sprintf("Dataset %s: every request failed, and none has come since this node was restarted.", d.ID),
			DiagnosisPath(d.ID), api.FailingLeast,
		})
		return
	}
	begins := st.Requests >= api.FailingLeast && s.Now.Sub(st.First) <= failingWithin
	if st.Requests == 0 || !begins && !lasts {
		return
	}
	if len(s.Nodes()) > 1 && counted.grown.After(st.First) { // another node accepted one
		return
	}
	f.failingSince[d.ID] = st.First
	requests := numbers.Requests(hours.NewWindow(time.Hour, 24, s.Now))
	say := fmt.Sprintf("Dataset %s: every request fails, the last one %s with %s.", d.ID, humanize.Ago(s.Now, st.Last),
		st.Code)
	if requests.Rejected > 0 {
		say += fmt.Sprintf(" In the last 24 hours %s were rejected.",
			humanize.Plural(requests.Rejected, "request", "requests"))
	}
	f.failing = append(f.failing, finding{d.ID, say, DiagnosisPath(d.ID), max(requests.Rejected, int64(st.Requests))})
}

// acceptedSince says whether a request of a dataset was accepted after a time: by this node since its start, or by any
// in a later hour.
func (s *State) acceptedSince(id string, numbers *hours.Dataset, since time.Time) bool {
	for i := range s.API.Datasets {
		if d := &s.API.Datasets[i]; d.DatasetID == id && d.Accepted > 0 {
			return true
		}
	}
	steps := (s.Now.Unix()/3600 - since.Unix()/3600)
	return steps > 0 && numbers.Requests(hours.NewWindow(time.Hour, int(min(steps, 7*24)), s.Now)).Accepted > 0
}

// failing is what this node knows of the last requests of each dataset.
func (s *State) failing() map[string]api.Failing {
	out := map[string]api.Failing{}
	for i := range s.API.Datasets {
		if f := s.API.Datasets[i].Failing; f.Requests > 0 {
			out[s.API.Datasets[i].DatasetID] = f
		}
	}
	return out
}
