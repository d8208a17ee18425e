package console

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"sluice/internal/dataset"
	"sluice/internal/histogram"
	"sluice/internal/lake"
)

// The edges of the alarms of datasets.
const (
	rejectedLeast = 5                  // events; of fewer a share says little. Arbitrary
	silentFrom    = 24 * time.Hour     // a dataset may have nothing to send at night
	silentUntil   = 7 * 24 * time.Hour // then its campaign is over
	keyEnding     = 24 * time.Hour
	keyInUse      = time.Hour
	namedMost     = 5 // datasets that an alarm names; the others are counted. Arbitrary: what a person reads
)

// finding is an alarm of one dataset: the sentence, and where to look.
type finding struct {
	dataset, say, path string
	weight             int64 // the largest come first
}

// findings are those of all datasets.
type findings struct{ rejected, silent, keys, ended []finding }

// findDatasets looks for datasets that need somebody. It visits all of them, so Run calls it every ten seconds and pages read
// what it found.
func findDatasets(view lake.HourView, s *state) *findings {
	out, now := &findings{}, s.now
	recent, day := lake.NewWindow(time.Hour, 2, now), lake.NewWindow(time.Hour, 24, now)
	for _, d := range s.datasets {
		for i := range d.Keys {
			k := &d.Keys[i]
			if f, found := endingKey(d, k, s.used[k.ID].Accepted, now); found {
				out.keys = append(out.keys, f)
			}
			if f, found := endedKey(d, k, s.used[k.ID].Rejected, now); found {
				out.ended = append(out.ended, f)
			}
		}
		if d.Disabled {
			continue
		}
		hours := view.Dataset(d.ID)
		if f, found := mostlyRejected(d.ID, hours, recent, day); found {
			out.rejected = append(out.rejected, f)
		}
		if f, found := silent(d.ID, hours, day, now); found {
			out.silent = append(out.silent, f)
		}
	}
	for _, list := range [][]finding{out.rejected, out.silent, out.keys, out.ended} {
		slices.SortFunc(list, func(a, b finding) int { return cmp.Or(cmp.Compare(b.weight, a.weight), cmp.Compare(a.say, b.say)) })
	}
	return out
}

// mostlyRejected judges by the running hour and the one before, or by the day where they have too few events.
func mostlyRejected(id string, hours *lake.DatasetHours, recent, day lake.Window) (finding, bool) {
	w, say := recent, "in this hour and the one before"
	sum := hours.Totals(w)
	if sum.Received() < rejectedLeast {
		w, say = day, "in the last 24 hours"
		sum = hours.Totals(w)
	}
	if sum.Received() < rejectedLeast || share(sum.Rejected, sum.Received()) <= rejectedShare {
		return finding{}, false
	}
	why := ""
	if reasons := hours.Reasons(w); len(reasons) > 0 {
		why = ", most with " + reasons[0].Code
		if reasons[0].Field != "" {
			why += " at " + reasons[0].Field
		}
	}
	return finding{
		id, fmt.Sprintf("Dataset %s: %s of its events %s were rejected (%s of %s)%s.", id, pct(share(sum.Rejected, sum.Received())), say, num(sum.Rejected), num(sum.Received()), why),
		diagnosisPath(id), sum.Rejected,
	}, true
}

func silent(id string, hours *lake.DatasetHours, day lake.Window, now time.Time) (finding, bool) {
	if hours.Last() == 0 || hours.Totals(day).Received() > 0 {
		return finding{}, false
	}
	since := now.Sub(time.Unix(hours.Last()+3600, 0)) // hours are what the tables know
	if since < silentFrom || since > silentUntil {
		return finding{}, false
	}
	return finding{id, fmt.Sprintf("Dataset %s: no event for %s.", id, span(since)), datasetPath(id), int64(since)}, true
}

func endingKey(d *dataset.Dataset, k *dataset.KeyInfo, used, now time.Time) (finding, bool) {
	left := k.Expires.Sub(now)
	if d.Disabled || !k.Live(now) || k.Expires.IsZero() || left > keyEnding || now.Sub(used) > keyInUse {
		return finding{}, false
	}
	return finding{d.ID, fmt.Sprintf("Dataset %s: key %s is in use and ends in %s.", d.ID, k.ID, span(left)), datasetPath(d.ID), -int64(left)}, true
}

// endedKey finds a key that is presented though it was revoked or has expired.
func endedKey(d *dataset.Dataset, k *dataset.KeyInfo, rejected, now time.Time) (finding, bool) {
	since := now.Sub(rejected)
	if k.Live(now) || since > keyInUse {
		return finding{}, false
	}
	state := "expired"
	if !k.Revoked.IsZero() {
		state = "revoked"
	}
	return finding{d.ID, fmt.Sprintf("Dataset %s: key %s is %s and still in use, last %s.", d.ID, k.ID, state, ago(now, rejected)), datasetPath(d.ID), -int64(since)}, true
}

// raise names the first findings, and counts the others.
func (a *Alarm) raise(list []finding) (out []raised) {
	for i, f := range list {
		if i == namedMost {
			return append(out, raised{Name: a.Name, Subject: "others", Say: fmt.Sprintf("And %s.", plural(len(list)-i, "other dataset", "other datasets")), Do: "The page Datasets shows the state of each.", Path: "/datasets"})
		}
		out = append(out, raised{Name: a.Name, Subject: f.dataset, Say: f.say, Do: a.Do, Path: f.path})
	}
	return out
}

// ratesKept is how many minutes of counters are kept: the longest window of an alarm is an hour.
const ratesKept = 61

// counters are numbers that only grow, as they were once a minute.
type counters struct {
	minute         int64
	requests, errs uint64 // answers, and those with a 5xx
	lost           uint64
	latency        histogram.Buckets
}

// synced is how many frames the latencies are of.
func (c *counters) synced() (n uint64) {
	for _, one := range c.latency {
		n += one
	}
	return n
}

// rates remembers counters, so that alarms can be about the last minutes and not about everything since the start.
type rates struct {
	mu  sync.Mutex
	all []counters // oldest first
}

func (r *rates) look(s *state) {
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
func (r *rates) since(s *state, minutes int64) counters {
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

func (s *state) growing() counters {
	c := counters{minute: s.now.Unix() / 60, lost: s.api.RejectionsLost, latency: s.stream.Latency}
	for i := range s.api.Routes {
		for _, st := range s.api.Routes[i].Statuses {
			if c.requests += st.Count; st.Status >= 500 {
				c.errs += st.Count
			}
		}
	}
	return c
}
