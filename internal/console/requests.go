package console

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"

	"sluice/event"
	"sluice/internal/humanize"
	"sluice/internal/journal"
)

// requestsMost is how many requests the page lists. Arbitrary: what a browser scrolls well.
const requestsMost = 500

type requestsPage struct {
	Say                                 string
	Datasets, Outcomes, Codes, Statuses []option
	Rows                                []requestRow
}

type requestRow struct {
	*requestPage
	Time, Link string // when, and where to see all of it
	Field, Why string
}

// requests lists the requests that this node rejected, whole or in part, and a sample of the others, newest first.
func (c *Console) requests(w http.ResponseWriter, r *http.Request) {
	s := c.look()
	q := r.URL.Query()
	dataset, chosen, code, status := q.Get("dataset"), q.Get("outcome"), q.Get("code"), q.Get("status")
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
		return (chosen == "" || chosen == outcome) && (dataset == "" || one.DatasetID == dataset) &&
			(code == "" || first == event.Code(code)) && (status == "" || strconv.Itoa(one.Status) == status)
	})
	p := requestsPage{
		Datasets: s.options(dataset), Codes: options(codes, code), Statuses: options(statuses, status),
		Outcomes: []option{{"rejected", chosen == "rejected"}, {"accepted", chosen == "accepted"}},
	}
	for i := range all {
		p.Rows = append(p.Rows, newRequestRow(&all[i]))
	}
	p.Say = fmt.Sprintf("%s of the last 24 hours, since this node started: ",
		humanize.Plural(len(p.Rows), "request", "requests"))
	if len(p.Rows) == requestsMost {
		p.Say = fmt.Sprintf("The latest %d requests of this node: ", requestsMost)
	}
	p.Say += "all that it rejected, whole or in part, and one accepted request of each dataset in a second."
	c.show(w, http.StatusOK, "requests", "Requests", "/requests", refreshEvery, p)
}

func newRequestRow(r *journal.Request) requestRow {
	why := firstReason(r)
	row := requestRow{newRequestPage(*r), humanize.Time(r.At), lookupPath(r.RequestID), why.Field, why.Message}
	switch {
	case why.Code == "":
		row.Answer, row.Class, row.Link = strconv.Itoa(r.Status), "ok", lookupPath(r.SubmissionID)
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
	for _, name := range slices.Sorted(maps.Keys(seen)) {
		out = append(out, option{name, name == chosen})
	}
	return out
}
