package console

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"sluice/event"
	"sluice/internal/alarm"
	"sluice/internal/api"
	"sluice/internal/hours"
	"sluice/internal/humanize"
)

type diagnosisPage struct {
	DatasetID, Sum string
	First          bool
	Windows        []link
	Cases          []diagnosisCase
	Unread         []alarm.Unread // consent that is not read
}

// diagnosisCase is one reason for rejections: a code at a field.
type diagnosisCase struct {
	Code, Field, Meaning, Remedy, Example, Win, First, Last string
	Events, Problems                                        int64
	Requests                                                int64 // rejected whole; then there are no events
	Trend                                                   []int64
	Datasets                                                []caseDataset
	MoreDatasets                                            string
	Listed                                                  string // the window of Datasets, where it is another one
	Said                                                    []caseSaid
}

// caseDataset is a dataset with a reason.
type caseDataset struct {
	ID, Path string
	Events   int64  // or requests
	Of       string // which of the two
	Share    float64
	Since    string // when it began
	Copy     string // what to send to the sender
	since    int64
}

// caseSaid is a message of the API, more precise than the meaning of the code.
type caseSaid struct{ Message, Hint, When string }

// Bounds of what a case lists. Arbitrary: what a person reads.
const (
	caseDatasets = 5
	caseMessages = 4
)

func (c *Console) diagnosis(w http.ResponseWriter, r *http.Request) {
	s := c.look()
	win, offered := c.pickWindow(r, "day", "week", "month", "year")
	p := diagnosisPage{DatasetID: r.URL.Query().Get("dataset"), First: len(s.Datasets) == 0, Windows: offered}
	p.Unread = slices.DeleteFunc(s.Unread(), func(u alarm.Unread) bool {
		return p.DatasetID != "" && u.Dataset != p.DatasetID
	})
	numbers, err := c.s.Hours.History(r.Context(), p.DatasetID, s.Now)
	sum := numbers.Totals(win.Window)
	k := c.newCases(p.DatasetID, numbers, win, s.Now)
	requests := numbers.Requests(win.Window)
	for i := range requests.ByCode {
		if g := &requests.ByCode[i]; codeInfo(g.Name).Kind == event.RequestKind { // the others are among the reasons
			p.Cases = append(p.Cases, k.ofRequests(g, requests))
		}
	}
	for _, reason := range numbers.Reasons(win.Window) {
		if reason.Events == 0 && codeInfo(reason.Code).Kind == event.RequestKind {
			continue // counted as requests
		}
		p.Cases = append(p.Cases, k.ofEvents(&reason, sum))
		if len(p.Cases) == 100 {
			break
		}
	}
	p.Sum = unreadDays(err) + fmt.Sprintf("%s events rejected of %s received %s: %s. Each is counted once, at its first "+
		"problem; the counts below add up to that. %s of %s rejected whole.", humanize.Count(sum.Rejected),
		humanize.Count(sum.Received()), win.say, humanize.Percent(humanize.Share(sum.Rejected, sum.Received())),
		humanize.Count(requests.Rejected),
		humanize.Plural(requests.Accepted+requests.Rejected, "request was", "requests were"))
	c.show(w, http.StatusOK, "diagnosis", "Diagnosis", "/diagnosis", refreshEvery, p)
}

// caseKey is a reason.
type caseKey struct{ code, field string }

// cases makes the cases of a page.
type cases struct {
	c        *Console
	window   window
	now      time.Time
	datasets map[caseKey][]caseDataset // with each reason, those of the most events first
	listed   window                    // of the numbers of datasets
}

// newCases looks for the datasets with each reason. Of all datasets memory has the reasons of the last 24 hours.
func (c *Console) newCases(id string, numbers *hours.Dataset, w window, now time.Time) *cases {
	k := &cases{c: c, window: w, now: now, datasets: map[caseKey][]caseDataset{}, listed: w}
	if id != "" {
		k.add(id, numbers)
		return k
	}
	k.listed = newWindow("day", now)
	view := c.s.Hours.View()
	defer view.Close()
	for id, d := range view.Datasets() {
		if d.Totals(k.listed.Window).Rejected > 0 || d.Requests(k.listed.Window).Rejected > 0 {
			k.add(id, d)
		}
	}
	for _, list := range k.datasets {
		slices.SortFunc(list, func(a, b caseDataset) int {
			return cmp.Or(cmp.Compare(b.Events, a.Events), strings.Compare(a.ID, b.ID))
		})
	}
	return k
}

// add adds a dataset to its reasons.
func (k *cases) add(id string, d *hours.Dataset) {
	w := k.listed.Window
	put := func(key caseKey, count, whole int64, of string, since int64) {
		k.datasets[key] = append(k.datasets[key], caseDataset{
			ID: id, Path: alarm.DatasetPath(id) + k.listed.query(), Events: count, Of: of,
			Share: humanize.Share(count, whole), since: since,
		})
	}
	received := d.Totals(w).Received()
	for _, r := range d.Reasons(w) {
		if r.Events > 0 {
			put(caseKey{r.Code, r.Field}, r.Events, received, "events", d.Onset(r.Code, r.Field))
		}
	}
	requests := d.Requests(w)
	for _, g := range requests.ByCode {
		if codeInfo(g.Name).Kind == event.RequestKind {
			_, since := d.RejectedRequests(g.Name, w)
			put(caseKey{code: g.Name}, g.Count, requests.Accepted+requests.Rejected, "requests", since)
		}
	}
}

// ofEvents is the case of a reason.
func (k *cases) ofEvents(f *hours.Reason, sum hours.Totals) diagnosisCase {
	d := diagnosisCase{
		Code: f.Code, Field: f.Field, Events: f.Events, Problems: f.Problems,
		Win:     humanize.Percent(humanize.Share(f.Events, sum.Received())) + " of received",
		Example: api.ValidExample(event.Code(f.Code), f.Field), Trend: ended(k.window.steps(f.AddTo)),
		First: hourOf(f.First, k.now), Last: lastHour(k.now, f.Last),
	}
	if f.Events == 0 { // nothing to add up: the events had another problem first
		d.Win = "beside another problem"
	}
	return k.list(d)
}

// ofRequests is the case of a code with which requests are rejected before their events are looked at.
func (k *cases) ofRequests(g *hours.Group, sum hours.Requests) diagnosisCase {
	share := humanize.Percent(humanize.Share(g.Count, sum.Accepted+sum.Rejected))
	return k.list(diagnosisCase{
		Code: g.Name, Requests: g.Count, Win: "requests, " + share + " of all", Trend: ended(k.window.steps(g.AddTo)),
	})
}

// list adds to a case what its code means, the datasets, and what their senders were told.
func (k *cases) list(d diagnosisCase) diagnosisCase {
	info := codeInfo(d.Code)
	d.Meaning, d.Remedy = info.Meaning, info.Remedy
	d.Datasets = slices.Clone(k.datasets[caseKey{d.Code, d.Field}])
	if more := len(d.Datasets) - caseDatasets; more > 0 {
		d.MoreDatasets, d.Datasets = humanize.Count(more), d.Datasets[:caseDatasets]
	}
	if len(d.Datasets) > 0 && k.listed.name != k.window.name {
		d.Listed = k.listed.say
	}
	for i := range d.Datasets {
		set := &d.Datasets[i]
		set.Since = since(set.since, k.listed, k.now)
		said := k.c.said(set.ID, &d, k.now)
		set.Copy = k.c.letter(&d, set, said, k.listed)
		for _, m := range said {
			known := func(o caseSaid) bool { return o.Message == m.Message && o.Hint == m.Hint }
			if len(d.Said) < caseMessages && !slices.ContainsFunc(d.Said, known) {
				d.Said = append(d.Said, m)
			}
		}
	}
	return d
}

// said are the messages that the senders of a dataset got for a reason. One that says no more than the code does is
// left out.
func (c *Console) said(dataset string, d *diagnosisCase, now time.Time) (out []caseSaid) {
	for _, m := range c.s.API.Journal.Said(dataset, event.Code(d.Code), d.Field, now) {
		said := caseSaid{Message: m.Message, When: humanize.Plural(m.Requests, "answer", "answers") + ", the last one " +
			humanize.Ago(now, m.Last)}
		if m.Hint != d.Remedy {
			said.Hint = m.Hint
		}
		out = append(out, said)
	}
	return out
}

// letter is what an operator sends to the sender: this dataset alone, and nothing of another one.
func (c *Console) letter(d *diagnosisCase, set *caseDataset, said []caseSaid, w window) string {
	var b strings.Builder
	at := d.Code
	if d.Field != "" {
		at += " at " + d.Field
	}
	of := humanize.Plural(set.Events, "event was", "events were")
	if set.Of == "requests" {
		of = humanize.Plural(set.Events, "request was", "requests were")
	}
	fmt.Fprintf(&b, "Dataset %s: %s rejected %s with %s. That is %s of the %s received.\n", set.ID, of, w.say, at,
		humanize.Percent(set.Share), set.Of)
	fmt.Fprintf(&b, "It began: %s UTC.\n\n%s\n", set.Since, d.Meaning)
	for _, m := range said {
		fmt.Fprintf(&b, "The API answered: %s %s\n", m.Message, m.Hint)
	}
	fmt.Fprintf(&b, "\nWhat to do: %s\n", d.Remedy)
	if d.Example != "" {
		fmt.Fprintf(&b, "Example of a valid value: %s\n", d.Example)
	}
	fmt.Fprintf(&b, "\nTo try events without storing them: POST %s/v1/events/validate\nAbout this error: %s/docs#%s\n",
		c.o.APIURL, c.o.APIURL, d.Code)
	return b.String()
}

// since writes when something began; in a list of all datasets what began before its window is not known.
func since(at int64, listed window, now time.Time) string {
	if listed.name == "day" && at <= listed.From {
		return "before " + hourOf(listed.From, now)
	}
	return hourOf(at, now)
}

// hourOf writes an hour; one of more than a week ago is known by the day alone.
func hourOf(at int64, now time.Time) string {
	if now.Unix()-at > 8*86400 {
		return time.Unix(at, 0).UTC().Format("2 Jan 2006")
	}
	return time.Unix(at, 0).UTC().Format("2 Jan 2006, 15:00")
}

// codeInfo is what the one table of codes has about a code.
func codeInfo[T ~string](code T) event.CodeInfo {
	info, _ := event.LookupCode(event.Code(code))
	return info
}
