package console

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"sluice/event"
	"sluice/internal/alarm"
	"sluice/internal/humanize"
	"sluice/internal/journal"
)

// requestsMost is how many requests the page lists. Arbitrary: what a browser scrolls well.
const requestsMost = 500

type requestsPage struct {
	Say                       string
	Outcomes                  []string
	Outcome                   string
	Datasets, Codes, Statuses []option
	Rows                      []requestRow
}

type requestRow struct {
	Time, ID, Path            string // when, its request id, and where to see all of it
	Dataset, DatasetPath      string
	Answer, Class, Field, Why string
	Accepted, Rejected        int
}

// requests lists the requests that this node rejected, whole or in part, and a sample of the others, newest first.
func (c *Console) requests(w http.ResponseWriter, r *http.Request) {
	s := c.look()
	q := r.URL.Query()
	dataset, code, status := q.Get("dataset"), q.Get("code"), q.Get("status")
	p := requestsPage{Outcomes: []string{"rejected", "accepted"}, Outcome: q.Get("outcome")}
	codes, statuses := map[string]bool{}, map[string]bool{}
	there := shown(s.Datasets)
	all := c.s.API.Journal.Recent(s.Now, requestsMost, func(one *journal.Request) bool {
		if !there[one.DatasetID] {
			return false
		}
		first, outcome := firstReason(one).Code, "rejected"
		if first == "" {
			outcome = "accepted"
		} else {
			codes[string(first)] = true
		}
		statuses[strconv.Itoa(one.Status)] = true
		if p.Outcome != "" && p.Outcome != outcome {
			return false
		}
		return (dataset == "" || one.DatasetID == dataset) && (code == "" || first == event.Code(code)) &&
			(status == "" || strconv.Itoa(one.Status) == status)
	})
	for i := range all {
		p.Rows = append(p.Rows, newRequestRow(&all[i]))
	}
	for _, d := range s.Datasets {
		p.Datasets = append(p.Datasets, option{d.ID, d.ID == dataset})
	}
	p.Codes, p.Statuses = options(codes, code), options(statuses, status)
	p.Say = fmt.Sprintf("%s of the last 24 hours, since this node started: ",
		humanize.Plural(len(p.Rows), "request", "requests"))
	if len(p.Rows) == requestsMost {
		p.Say = fmt.Sprintf("The latest %d requests of this node: ", requestsMost)
	}
	p.Say += "all that it rejected, whole or in part, and one accepted request of each dataset in a second."
	c.show(w, http.StatusOK, "requests", "Requests", "/requests", refreshEvery, p)
}

func newRequestRow(r *journal.Request) requestRow {
	about, why := newRequestPage(*r), firstReason(r)
	row := requestRow{
		Time: humanize.Time(r.At), ID: r.RequestID, Path: lookupPath(r.RequestID), Dataset: r.DatasetID, Answer: about.Answer,
		Class: about.Class,
		Field: why.Field, Why: why.Message, Accepted: r.Accepted, Rejected: r.Rejected,
	}
	if r.DatasetID != "" {
		row.DatasetPath = alarm.DatasetPath(r.DatasetID)
	}
	switch {
	case why.Code == "":
		row.Answer, row.Class, row.Path = strconv.Itoa(r.Status), "ok", lookupPath(r.SubmissionID)
	case r.Code == "":
		row.Answer = strconv.Itoa(r.Status) + " " + string(why.Code) + ", in part"
	}
	return row
}

// firstReason is what the answer said first.
func firstReason(r *journal.Request) journal.Reason {
	if len(r.Reasons) == 0 {
		return journal.Reason{Code: r.Code}
	}
	return r.Reasons[0]
}

// options are the choices of a filter. What is chosen stays among them.
func options(seen map[string]bool, chosen string) (out []option) {
	if chosen != "" {
		seen[chosen] = true
	}
	for name := range seen {
		out = append(out, option{name, name == chosen})
	}
	slices.SortFunc(out, func(a, b option) int { return strings.Compare(a.ID, b.ID) })
	return out
}
