package console

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"sluice/event"
)

type diagnosisPage struct {
	DatasetID, Sum string
	First          bool
	Windows        []link
	Cases          []diagnosisCase
}

// diagnosisCase is one reason for refusals: a code at a field.
type diagnosisCase struct {
	Code, Field, Meaning, Remedy, Example, Win, First, Last string
	Events, Problems                                        int64
	Trend                                                   []int64
	Datasets                                                []caseDataset
	MoreDatasets                                            string
}

type caseDataset struct {
	ID, Path string
	Events   int64
	Share    float64
}

// refusal is a code at a field with the events whose first problem it was, and how often it was found at all.
type refusal struct {
	code, field      string
	events, problems int64
	refused, problem *tape
}

// refusals are the reasons of a window, with what mending would win at the top: an event comes back when its
// first problem goes, unless it has another, so events of the first problem come before mere mentions.
func (s *shelf) refusals(w window) []refusal {
	by := map[line]*refusal{}
	at := func(l line) *refusal {
		k := line{"", l.name, l.field}
		if by[k] == nil {
			by[k] = &refusal{code: l.name, field: l.field}
		}
		return by[k]
	}
	for l, t := range s.lines {
		switch l.kind {
		case kindRefused:
			if n := t.sum(w); n > 0 {
				r := at(l)
				r.events, r.refused = n, t
			}
		case kindProblem:
			if n := t.sum(w); n > 0 {
				r := at(l)
				r.problems, r.problem = n, t
			}
		}
	}
	out := make([]refusal, 0, len(by))
	for _, r := range by {
		out = append(out, *r)
	}
	slices.SortFunc(out, func(a, b refusal) int {
		return cmp.Or(cmp.Compare(b.events, a.events), cmp.Compare(b.problems, a.problems), strings.Compare(a.code, b.code), strings.Compare(a.field, b.field))
	})
	return out
}

func (c *Console) diagnosis(w http.ResponseWriter, r *http.Request) {
	s := c.look()
	win := c.pickWindow(r, "day", "week", "month", "year")
	p := diagnosisPage{
		DatasetID: r.URL.Query().Get("dataset"), First: len(s.datasets) == 0,
		Windows: windows(r.URL, win.name, "day", "week", "month", "year"),
	}
	c.book.mu.RLock()
	defer c.book.mu.RUnlock()
	shelf := c.book.shelf(p.DatasetID)
	sum := shelf.totals(win)
	for _, f := range shelf.refusals(win) {
		p.Cases = append(p.Cases, c.diagnose(f, win, sum, p.DatasetID, s.now))
		if len(p.Cases) == 100 {
			break
		}
	}
	p.Sum = fmt.Sprintf("%s events refused of %s received %s: %s. Each is counted once, at its first problem; the counts below add up to that.",
		num(sum.Rejected), num(sum.received()), win.say, pct(share(sum.Rejected, sum.received())))
	c.show(w, r, http.StatusOK, "diagnosis", "Diagnosis", "/diagnosis", refreshEvery, p)
}

func (c *Console) diagnose(f refusal, w window, sum totals, datasetID string, now time.Time) diagnosisCase {
	d := diagnosisCase{
		Code: f.code, Field: f.field, Events: f.events, Problems: f.problems, Trend: make([]int64, w.steps),
		Win: pct(share(f.events, sum.received())) + " of received", Example: example(f.code, f.field),
	}
	if f.events == 0 { // nothing to add up: such a request was refused before it had events, or they had another problem first
		d.Win = "beside another problem"
		if kindOf(f.code) == event.RequestKind {
			d.Win = "requests refused whole"
		}
	}
	tape := f.refused
	if tape == nil {
		tape = f.problem
	}
	tape.spread(w, d.Trend)
	d.First, d.Last = time.Unix(tape.first, 0).UTC().Format("2 Jan 2006, 15:00"), lastHour(now, tape.last)
	d.Meaning, d.Remedy = explain(f.code)
	for id, set := range c.book.sets {
		if datasetID != "" && id != datasetID {
			continue
		}
		t := set.lines[line{kindRefused, f.code, f.field}]
		if t == nil {
			continue
		}
		if n := t.sum(w); n > 0 {
			d.Datasets = append(d.Datasets, caseDataset{id, datasetPath(id), n, share(n, set.totals(w).received())})
		}
	}
	slices.SortFunc(d.Datasets, func(a, b caseDataset) int {
		return cmp.Or(cmp.Compare(b.Events, a.Events), strings.Compare(a.ID, b.ID))
	})
	if len(d.Datasets) > 5 {
		d.MoreDatasets = num(len(d.Datasets) - 5)
		d.Datasets = d.Datasets[:5]
	}
	return d
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

// example is a right value of the field, from the one table of fields, for the sender to copy.
func example(code, field string) string {
	if code == string(event.MissingIdentifier) && field == "" {
		field = "/identifiers"
	}
	f, known := event.LookupField(field)
	if !known {
		return ""
	}
	return `"` + f.Name() + `": ` + f.Example
}
