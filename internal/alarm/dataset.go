package alarm

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"time"

	"sluice/internal/api"
	"sluice/internal/dataset"
	"sluice/internal/hours"
	"sluice/internal/humanize"
)

// The edges of the alarms of datasets.
const (
	rejectedLeast = 5                  // events; of fewer a share says little. Arbitrary
	silentFrom    = 24 * time.Hour     // for a dataset whose usual gap is not known: it may have nothing to send at night
	silentUntil   = 7 * 24 * time.Hour // then its campaign is over
	usualHours    = 24                 // hours with events from which on the usual gap of a dataset is known. Arbitrary
	gapFactor     = 1.5                // times its longest gap of a week a dataset may be silent, and an hour. Arbitrary
	dropHours     = 6                  // that are compared with the same ones a week ago. Arbitrary: a shift
	dropLeast     = 100                // events a week ago; of fewer a share says little. Arbitrary
	dropShare     = 0.3                // of them, below which it is a drop. Arbitrary
	keyEnding     = 24 * time.Hour
	KeyInUse      = time.Hour
)

// DatasetPath and DiagnosisPath are the pages of the console to which the alarms of a dataset point.
func DatasetPath(id string) string   { return "/dataset?" + url.Values{"id": {id}}.Encode() }
func DiagnosisPath(id string) string { return "/diagnosis?" + url.Values{"dataset": {id}}.Encode() }

// finding is an alarm of one dataset: the sentence, and where to look.
type finding struct {
	dataset, say, path string
	weight             int64 // the largest come first
}

// findings are those of all datasets.
type findings struct {
	failing, rejected, silent, dropped, keys, ended, consent []finding

	known        bool                       // somebody has looked
	unread       map[string][]UnreadCode    // by dataset, behind consent
	counted      map[string]countedRequests // by dataset, behind failing
	failingSince map[string]time.Time       // by dataset
}

// findDatasets looks for datasets that need somebody; s.found is what it found before. It visits all of them, so Run
// calls it every ten seconds and pages read what it found.
func findDatasets(view hours.View, s *State) *findings {
	out, now := &findings{
		known: true, unread: map[string][]UnreadCode{}, counted: map[string]countedRequests{},
		failingSince: map[string]time.Time{},
	}, s.Now
	own := map[string]*api.DatasetStats{}
	for i := range s.API.Datasets {
		own[s.API.Datasets[i].DatasetID] = &s.API.Datasets[i]
	}
	recent, day := hours.NewWindow(time.Hour, 2, now), hours.NewWindow(time.Hour, 24, now)
	for _, d := range s.Datasets {
		for i := range d.Keys {
			k := &d.Keys[i]
			out.endingKey(d, k, s.Used[k.ID].Accepted, now)
			out.endedKey(d, k, s.Used[k.ID].Rejected, now)
		}
		if d.Disabled {
			continue
		}
		numbers := view.Dataset(d.ID)
		out.failingRequests(d.ID, numbers, own[d.ID], s)
		out.mostlyRejected(d.ID, numbers, recent, day)
		if !out.silentDataset(d.ID, numbers, now) {
			out.droppedEvents(d.ID, numbers, now)
		}
		out.unreadConsent(d.ID, numbers, day, s.found.unread[d.ID])
	}
	for _, list := range [][]finding{
		out.failing, out.rejected, out.silent, out.dropped, out.keys, out.ended, out.consent,
	} {
		slices.SortFunc(list, func(a, b finding) int {
			return cmp.Or(cmp.Compare(b.weight, a.weight), cmp.Compare(a.say, b.say))
		})
	}
	return out
}

// mostlyRejected judges by the running hour and the one before, or by the day where they have too few events.
func (f *findings) mostlyRejected(id string, numbers *hours.Dataset, recent, day hours.Window) {
	w, say := recent, "in this hour and the one before"
	sum := numbers.Totals(w)
	if sum.Received() < rejectedLeast {
		w, say = day, "in the last 24 hours"
		sum = numbers.Totals(w)
	}
	if sum.Received() < rejectedLeast || humanize.Share(sum.Rejected, sum.Received()) <= rejectedShare {
		return
	}
	why := ""
	if reasons := numbers.Reasons(w); len(reasons) > 0 {
		why = ", most with " + reasons[0].Code
		if reasons[0].Field != "" {
			why += " at " + reasons[0].Field
		}
	}
	say = fmt.Sprintf("Dataset %s: %s of its events %s were rejected (%s of %s)%s.", id,
		humanize.Percent(humanize.Share(sum.Rejected, sum.Received())), say, humanize.Count(sum.Rejected),
		humanize.Count(sum.Received()), why)
	f.rejected = append(f.rejected, finding{id, say, DiagnosisPath(id), sum.Rejected})
}

// silentDataset finds a dataset that sends nothing for longer than it usually does.
func (f *findings) silentDataset(id string, numbers *hours.Dataset, now time.Time) bool {
	if numbers.Last() == 0 {
		return false
	}
	since := now.Sub(time.Unix(numbers.Last()+3600, 0)) // hours are what the tables know
	gap, known := usualGap(numbers, now)
	from, usual := silentFrom, ""
	if known {
		from = time.Duration(gapFactor*float64(gap)) + time.Hour
		usual = fmt.Sprintf(" Its longest pause of the week before was %s.", humanize.Span(max(gap, time.Hour)))
	}
	if since < from || since > silentUntil ||
		numbers.Totals(hours.NewWindow(time.Hour, int(since/time.Hour)+1, now)).Received() > 0 {
		return false
	}
	say := fmt.Sprintf("Dataset %s: no event for %s.%s", id, humanize.Span(since), usual)
	f.silent = append(f.silent, finding{id, say, DatasetPath(id), int64(since)})
	return true
}

// usualGap is the longest time without an accepted event in the week before the last one, in whole hours. It is known
// only of a dataset that had events in many hours.
func usualGap(numbers *hours.Dataset, now time.Time) (gap time.Duration, known bool) {
	by := numbers.AcceptedBy(hours.NewWindow(time.Hour, 7*24, now))
	last, active, longest := -1, 0, 0
	for i, n := range by {
		if n == 0 {
			continue
		}
		if last >= 0 {
			longest = max(longest, i-last-1)
		}
		last = i
		active++
	}
	return time.Duration(longest) * time.Hour, active >= usualHours
}

// droppedEvents finds a dataset that has far fewer events than in the same hours of last week.
func (f *findings) droppedEvents(id string, numbers *hours.Dataset, now time.Time) {
	recent := hours.NewWindow(time.Hour, dropHours, now.Add(-time.Hour)) // whole hours
	before := recent
	before.From -= 7 * 86400
	then, is := numbers.Totals(before).Accepted, numbers.Totals(recent).Accepted
	if then < dropLeast || float64(is) >= dropShare*float64(then) {
		return
	}
	say := fmt.Sprintf("Dataset %s: %s accepted in the last %d whole hours, and %s in the same hours of last week.", id,
		humanize.Plural(is, "event was", "events were"), dropHours, humanize.Count(then))
	f.dropped = append(f.dropped, finding{id, say, DatasetPath(id), then - is})
}

// endingKey finds a key that is in use and ends soon.
func (f *findings) endingKey(d *dataset.Dataset, k *dataset.KeyInfo, used, now time.Time) {
	left := k.Expires.Sub(now)
	if d.Disabled || !k.Live(now) || k.Expires.IsZero() || left > keyEnding || now.Sub(used) > KeyInUse {
		return
	}
	say := fmt.Sprintf("Dataset %s: key %s is in use and ends in %s.", d.ID, k.ID, humanize.Span(left))
	f.keys = append(f.keys, finding{d.ID, say, DatasetPath(d.ID), -int64(left)})
}

// endedKey finds a key that is presented though it was revoked or has expired.
func (f *findings) endedKey(d *dataset.Dataset, k *dataset.KeyInfo, rejected, now time.Time) {
	since := now.Sub(rejected)
	if k.Live(now) || since > KeyInUse {
		return
	}
	state := "expired"
	if !k.Revoked.IsZero() {
		state = "revoked"
	}
	say := fmt.Sprintf("Dataset %s: key %s is %s and still in use, last %s.", d.ID, k.ID, state,
		humanize.Ago(now, rejected))
	f.ended = append(f.ended, finding{d.ID, say, DatasetPath(d.ID), -int64(since)})
}

// Words are the alarms of datasets, each in a word and a class; of several the worst.
func (s *State) Words() map[string][2]string {
	f, out := &s.found, map[string][2]string{}
	for _, kind := range []struct {
		list        []finding
		word, class string
	}{
		{f.consent, "consent not read", "warn"},
		{f.dropped, "far fewer events", "warn"},
		{f.silent, "silent", "warn"},
		{f.ended, "ended key in use", "warn"},
		{f.keys, "key ends soon", "warn"},
		{f.rejected, "mostly rejected", "bad"},
		{f.failing, "every request fails", "bad"},
	} {
		for _, one := range kind.list {
			out[one.dataset] = [2]string{kind.word, kind.class}
		}
	}
	return out
}
