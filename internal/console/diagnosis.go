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
	Unread         []unreadLine
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

type caseDataset struct {
	ID, Path string
	Events   int64  // or requests
	Of       string // which of the two
	Share    float64
	Since    string // when it began
	Copy     string // what to send to the sender
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
	win := c.pickWindow(r, "day", "week", "month", "year")
	p := diagnosisPage{
		DatasetID: r.URL.Query().Get("dataset"), First: len(s.Datasets) == 0,
		Windows: windows(r.URL, win.name, "day", "week", "month", "year"),
	}
	p.Unread = unreadLines(s, p.DatasetID)
	numbers, err := c.s.Hours.History(r.Context(), p.DatasetID, s.Now)
	sum := numbers.Totals(win.Window)
	affected, listed := c.affected(p.DatasetID, numbers, win, s.Now)
	requests := numbers.Requests(win.Window)
	for i := range requests.ByCode {
		if g := &requests.ByCode[i]; codeInfo(g.Name).Kind == event.RequestKind { // the others are among the reasons
			p.Cases = append(p.Cases, c.diagnoseRequests(g, win, requests, affected[caseKey{code: g.Name}], listed, s.Now))
		}
	}
	for _, reason := range numbers.Reasons(win.Window) {
		if reason.Events == 0 && codeInfo(reason.Code).Kind == event.RequestKind {
			continue // counted as requests
		}
		p.Cases = append(p.Cases, c.diagnose(reason, win, sum, affected[caseKey{reason.Code, reason.Field}], listed, s.Now))
		if len(p.Cases) == 100 {
			break
		}
	}
	p.Sum = unreadDays(err) +
		fmt.Sprintf("%s events rejected of %s received %s: %s. Each is counted once, at its first problem; the counts below "+
			"add up to that.",
			humanize.Count(sum.Rejected), humanize.Count(sum.Received()), win.say,
			humanize.Percent(humanize.Share(sum.Rejected, sum.Received())))
	p.Sum += fmt.Sprintf(" %s of %s rejected whole.", humanize.Count(requests.Rejected),
		humanize.Plural(requests.Accepted+requests.Rejected, "request was", "requests were"))
	c.show(w, http.StatusOK, "diagnosis", "Diagnosis", "/diagnosis", refreshEvery, p)
}

// caseKey is a reason.
type caseKey struct{ code, field string }

// affectedSet is a dataset with a reason.
type affectedSet struct {
	caseDataset
	since int64
}

// affected are the datasets with each reason, those of the most events first, and the window that their numbers are of.
// Of all datasets memory has the reasons of the last 24 hours.
func (c *Console) affected(id string, numbers *hours.Dataset, w window, now time.Time) (map[caseKey][]affectedSet,
	window,
) {
	out := map[caseKey][]affectedSet{}
	add := func(id string, d *hours.Dataset, w window) {
		received := d.Totals(w.Window).Received()
		for _, r := range d.Reasons(w.Window) {
			if r.Events > 0 {
				set := caseDataset{
					ID: id, Path: alarm.DatasetPath(id) + w.query(), Events: r.Events, Of: "events",
					Share: humanize.Share(r.Events, received),
				}
				key := caseKey{r.Code, r.Field}
				out[key] = append(out[key], affectedSet{set, d.Onset(r.Code, r.Field)})
			}
		}
		requests := d.Requests(w.Window)
		for _, g := range requests.ByCode {
			if codeInfo(g.Name).Kind != event.RequestKind {
				continue
			}
			_, onset := d.RejectedRequests(g.Name, w.Window)
			set := caseDataset{ID: id, Path: alarm.DatasetPath(id) + w.query(), Events: g.Count, Of: "requests"}
			set.Share = humanize.Share(g.Count, requests.Accepted+requests.Rejected)
			out[caseKey{code: g.Name}] = append(out[caseKey{code: g.Name}], affectedSet{set, onset})
		}
	}
	if id != "" {
		add(id, numbers, w)
		return out, w
	}
	day := newWindow("day", now)
	view := c.s.Hours.View()
	defer view.Close()
	for id, d := range view.Datasets() {
		if d.Totals(day.Window).Rejected > 0 || d.Requests(day.Window).Rejected > 0 {
			add(id, d, day)
		}
	}
	for _, list := range out {
		slices.SortFunc(list, func(a, b affectedSet) int {
			return cmp.Or(cmp.Compare(b.Events, a.Events), strings.Compare(a.ID, b.ID))
		})
	}
	return out, day
}

// diagnose makes the case of a reason. listed is the window of the numbers of the datasets.
func (c *Console) diagnose(f hours.Reason, w window, sum hours.Totals, sets []affectedSet, listed window,
	now time.Time,
) diagnosisCase {
	d := diagnosisCase{
		Code: f.Code, Field: f.Field, Events: f.Events, Problems: f.Problems,
		Win:     humanize.Percent(humanize.Share(f.Events, sum.Received())) + " of received",
		Example: api.ValidExample(event.Code(f.Code), f.Field),
	}
	if f.Events == 0 { // nothing to add up: the events had another problem first
		d.Win = "beside another problem"
	}
	by := make([]int64, w.Steps)
	f.AddTo(by, w.Window)
	d.Trend = ended(by)
	d.First, d.Last = hourOf(f.First, now), lastHour(now, f.Last)
	c.list(&d, f, sets, w, listed, now)
	return d
}

// diagnoseRequests is the case of a code with which requests are rejected before their events are looked at.
func (c *Console) diagnoseRequests(
	g *hours.Group, w window, sum hours.Requests, sets []affectedSet, listed window, now time.Time,
) diagnosisCase {
	d := diagnosisCase{Code: g.Name, Requests: g.Count, Win: "requests, " +
		humanize.Percent(humanize.Share(g.Count, sum.Accepted+sum.Rejected)) + " of all"}
	by := make([]int64, w.Steps)
	g.AddTo(by, w.Window)
	d.Trend = ended(by)
	c.list(&d, hours.Reason{Code: g.Name}, sets, w, listed, now)
	return d
}

// list adds to a case what its code means, the datasets, and what their senders were told. listed is the window of the
// numbers of the datasets.
func (c *Console) list(d *diagnosisCase, f hours.Reason, sets []affectedSet, w, listed window, now time.Time) {
	info := codeInfo(f.Code)
	d.Meaning, d.Remedy = info.Meaning, info.Remedy
	if len(sets) > caseDatasets {
		d.MoreDatasets = humanize.Count(len(sets) - caseDatasets)
		sets = sets[:caseDatasets]
	}
	if len(sets) > 0 && listed.name != w.name {
		d.Listed = listed.say
	}
	for _, one := range sets {
		d.Datasets = append(d.Datasets, one.caseDataset)
		set := &d.Datasets[len(d.Datasets)-1]
		set.Since = since(one.since, listed, now)
		said := c.said(set.ID, f, now)
		set.Copy = c.letter(d, set, said, listed)
		for _, m := range said {
			known := func(o caseSaid) bool { return o.Message == m.Message && o.Hint == m.Hint }
			if len(d.Said) < caseMessages && !slices.ContainsFunc(d.Said, known) {
				d.Said = append(d.Said, m)
			}
		}
	}
}

// said are the messages that the senders of a dataset got for a reason. One that says no more than the code does is
// left out.
func (c *Console) said(dataset string, f hours.Reason, now time.Time) (out []caseSaid) {
	remedy := codeInfo(f.Code).Remedy
	for _, m := range c.s.API.Journal.Said(dataset, event.Code(f.Code), f.Field, now) {
		said := caseSaid{Message: m.Message, When: humanize.Plural(m.Requests, "answer", "answers") + ", the last one " +
			humanize.Ago(now, m.Last)}
		if m.Hint != remedy {
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

// unreadLine is what the page says about consent of one dataset that is not read.
type unreadLine struct {
	Say     string
	Reasons []event.CodeInfo
}

// unreadLines are those of one dataset, or of all.
func unreadLines(s *state, datasetID string) (out []unreadLine) {
	for _, u := range s.Unread() {
		if datasetID != "" && u.Dataset != datasetID {
			continue
		}
		line := unreadLine{Say: u.Say}
		for _, c := range u.Codes {
			line.Reasons = append(line.Reasons, codeInfo(c.Code))
		}
		out = append(out, line)
	}
	return out
}
