package console

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"sluice/event"
	"sluice/internal/api"
	"sluice/internal/lake"
)

type diagnosisPage struct {
	DatasetID, Sum string
	First          bool
	Windows        []link
	Cases          []diagnosisCase
}

// diagnosisCase is one reason for rejections: a code at a field.
type diagnosisCase struct {
	Code, Field, Meaning, Remedy, Example, Win, First, Last string
	Events, Problems                                        int64
	Trend                                                   []int64
	Datasets                                                []caseDataset
	MoreDatasets                                            string
	Said                                                    []caseSaid
}

type caseDataset struct {
	ID, Path string
	Events   int64
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
		DatasetID: r.URL.Query().Get("dataset"), First: len(s.datasets) == 0,
		Windows: windows(r.URL, win.name, "day", "week", "month", "year"),
	}
	view := c.s.Hours.View()
	defer view.Close()
	hours := view.Dataset(p.DatasetID)
	sum := hours.Totals(win.Window)
	for _, reason := range hours.Reasons(win.Window) {
		p.Cases = append(p.Cases, c.diagnose(view, reason, win, sum, p.DatasetID, s.now))
		if len(p.Cases) == 100 {
			break
		}
	}
	p.Sum = fmt.Sprintf("%s events rejected of %s received %s: %s. Each is counted once, at its first problem; the counts below add up to that.",
		num(sum.Rejected), num(sum.Received()), win.say, pct(share(sum.Rejected, sum.Received())))
	c.show(w, r, http.StatusOK, "diagnosis", "Diagnosis", "/diagnosis", refreshEvery, p)
}

func (c *Console) diagnose(view lake.HourView, f lake.Reason, w window, sum lake.Totals, datasetID string, now time.Time) diagnosisCase {
	d := diagnosisCase{
		Code: f.Code, Field: f.Field, Events: f.Events, Problems: f.Problems,
		Win: pct(share(f.Events, sum.Received())) + " of received", Example: api.ValidExample(event.Code(f.Code), f.Field),
	}
	if f.Events == 0 { // nothing to add up: such a request was rejected before its events were read, or they had another problem first
		d.Win = "beside another problem"
		if kindOf(f.Code) == event.RequestKind {
			d.Win = "requests rejected whole"
		}
	}
	by := make([]int64, w.Steps)
	f.AddTo(by, w.Window)
	d.Trend = ended(by)
	d.First, d.Last = hourOf(f.First, now), lastHour(now, f.Last)
	d.Meaning, d.Remedy = explain(f.Code)
	for id, set := range view.Datasets() {
		if datasetID != "" && id != datasetID {
			continue
		}
		if n, _ := set.Rejected(f.Code, f.Field, w.Window); n > 0 {
			d.Datasets = append(d.Datasets, caseDataset{ID: id, Path: datasetPath(id) + w.query(), Events: n})
		}
	}
	slices.SortFunc(d.Datasets, func(a, b caseDataset) int {
		return cmp.Or(cmp.Compare(b.Events, a.Events), strings.Compare(a.ID, b.ID))
	})
	if len(d.Datasets) > caseDatasets {
		d.MoreDatasets = num(len(d.Datasets) - caseDatasets)
		d.Datasets = d.Datasets[:caseDatasets]
	}
	for i := range d.Datasets {
		set := &d.Datasets[i]
		hours := view.Dataset(set.ID)
		set.Share = share(set.Events, hours.Totals(w.Window).Received())
		set.Since = hourOf(hours.Onset(f.Code, f.Field), now)
		said := c.said(set.ID, f, now)
		set.Copy = c.letter(&d, set, said, w)
		for _, m := range said {
			if len(d.Said) < caseMessages && !slices.ContainsFunc(d.Said, func(o caseSaid) bool { return o.Message == m.Message && o.Hint == m.Hint }) {
				d.Said = append(d.Said, m)
			}
		}
	}
	return d
}

// said are the messages that the senders of a dataset got for a reason. One that says no more than the code does is left out.
func (c *Console) said(dataset string, f lake.Reason, now time.Time) (out []caseSaid) {
	_, remedy := explain(f.Code)
	for _, m := range c.s.API.Said(dataset, event.Code(f.Code), f.Field) {
		said := caseSaid{Message: m.Message, When: plural(m.Requests, "answer", "answers") + ", the last one " + ago(now, m.Last)}
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
	fmt.Fprintf(&b, "Dataset %s: %s rejected %s with %s. That is %s of the events received.\n", set.ID, plural(set.Events, "event was", "events were"), w.say, at, pct(set.Share))
	fmt.Fprintf(&b, "It began: %s UTC.\n\n%s\n", set.Since, d.Meaning)
	for _, m := range said {
		fmt.Fprintf(&b, "The API answered: %s %s\n", m.Message, m.Hint)
	}
	fmt.Fprintf(&b, "\nWhat to do: %s\n", d.Remedy)
	if d.Example != "" {
		fmt.Fprintf(&b, "Example of a valid value: %s\n", d.Example)
	}
	fmt.Fprintf(&b, "\nTo try events without storing them: POST %s/v1/events/validate\nAbout this error: %s/docs#%s\n", c.o.APIURL, c.o.APIURL, d.Code)
	return b.String()
}

// hourOf writes an hour; one of more than a week ago is known by the day alone.
func hourOf(at int64, now time.Time) string {
	if now.Unix()-at > 8*86400 {
		return time.Unix(at, 0).UTC().Format("2 Jan 2006")
	}
	return time.Unix(at, 0).UTC().Format("2 Jan 2006, 15:00")
}

func kindOf(code string) event.Kind {
	info, _ := event.LookupCode(event.Code(code))
	return info.Kind
}

// explain gives a code's meaning and remedy, from the one table of codes.
func explain(code string) (meaning, remedy string) {
	info, _ := event.LookupCode(event.Code(code))
	return info.Meaning, info.Remedy
}
