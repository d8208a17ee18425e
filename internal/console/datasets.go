package console

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/internal/alarm"
	"sluice/internal/dataset"
	"sluice/internal/hours"
	"sluice/internal/humanize"
)

// How many datasets a page lists. Arbitrary: what a person reads.
const (
	listRows     = 50
	overviewRows = 10
)

type datasetsPage struct {
	Say     string
	First   bool
	Windows []link
	Caption string
	Columns []column
	List    listing
}

type column struct {
	Name, Path, Class string
	Current           bool
}

// listing is one page of the list of datasets.
type listing struct {
	Query, Window, By string // as the search keeps them
	Rows              []*datasetRow
	Say               string // which of how many; empty if these are all
	Before, After     string // the pages next to it
	found             int
	sum               hours.Totals
}

type datasetRow struct {
	ID, Name, Path, Diagnosis, Seen, State, Class string
	Trend, RejectedTrend                          []int64
	hours.Totals
	Code, Field string // what most rejected events and requests of the last 24 hours had
	Requests    int64  // that were rejected in the last 24 hours
	seen        int64
	rank        int // the worst are the first
}

// orders are the ways to sort the list, by the name in the query.
var orders = map[string]func(a, b *datasetRow) int{
	"id": func(a, b *datasetRow) int { return 0 },
	"worst": func(a, b *datasetRow) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(b.Rejected+b.Requests, a.Rejected+a.Requests))
	},
	"accepted":   func(a, b *datasetRow) int { return cmp.Compare(b.Accepted, a.Accepted) },
	"rejected":   func(a, b *datasetRow) int { return cmp.Compare(b.Rejected, a.Rejected) },
	"late":       byShare(func(r *datasetRow) int64 { return r.Late }),
	"restricted": byShare(func(r *datasetRow) int64 { return r.Restricted }),
	"suppressed": byShare(func(r *datasetRow) int64 { return r.Suppressed }),
	"seen":       func(a, b *datasetRow) int { return cmp.Compare(b.seen, a.seen) },
}

// byShare sorts by a part of the accepted events.
func byShare(part func(*datasetRow) int64) func(a, b *datasetRow) int {
	return func(a, b *datasetRow) int {
		return cmp.Compare(humanize.Share(part(b), b.Accepted), humanize.Share(part(a), a.Accepted))
	}
}

func (c *Console) datasets(w http.ResponseWriter, r *http.Request) {
	s := c.look()
	win, offered := c.pickWindow(r, "day", "week")
	view := c.s.Hours.View()
	list := listDatasets(r.URL, view, s, win, "accepted", listRows)
	view.Close()
	p := datasetsPage{
		First: len(s.Datasets) == 0, Columns: columns(r.URL, list.By), Windows: offered, Caption: "Datasets " + win.say,
		List: list,
		Say: fmt.Sprintf("%s, %s accepted and %s rejected events %s.", humanize.Plural(list.found, "dataset", "datasets"),
			humanize.Count(list.sum.Accepted), humanize.Count(list.sum.Rejected), win.say),
	}
	c.show(w, http.StatusOK, "datasets", "Datasets", "/datasets", listEvery(len(s.Datasets)), p)
}

// listEvery is after how many seconds a page with a list asks again: all datasets are looked at for it.
func listEvery(datasets int) int { return min(15, refreshEvery+datasets/500) }

// listDatasets is the page of the list that the address asks for: q is part of an id or name, by the order, page its
// number.
func listDatasets(u *url.URL, view hours.View, s *state, win window, by string, rows int) listing {
	q := u.Query()
	if orders[q.Get("by")] != nil {
		by = q.Get("by")
	}
	out := listing{Query: q.Get("q"), Window: q.Get("window"), By: by}
	query := strings.ToLower(strings.TrimSpace(out.Query))
	day := newWindow("day", s.Now)
	alarms := s.Words()
	for _, d := range s.Datasets {
		if query == "" || strings.Contains(strings.ToLower(d.ID), query) || strings.Contains(strings.ToLower(d.Name), query) {
			row := newDatasetRow(d, view.Dataset(d.ID), win, day, s.Now, alarms[d.ID])
			out.Rows = append(out.Rows, row)
			out.sum.Add(row.Totals)
		}
	}
	slices.SortFunc(out.Rows, func(a, b *datasetRow) int { return cmp.Or(orders[by](a, b), strings.Compare(a.ID, b.ID)) })
	out.cut(u, rows)
	for _, row := range out.Rows {
		row.fill(view.Dataset(row.ID), win, day, s.Now)
	}
	return out
}

// cut leaves the rows of the page that the address asks for, the last page for one behind it.
func (l *listing) cut(u *url.URL, rows int) {
	l.found = len(l.Rows)
	pages := max(1, (l.found+rows-1)/rows)
	page, err := strconv.Atoi(u.Query().Get("page"))
	if err != nil || page < 1 {
		page = 1
	}
	page = min(page, pages)
	at := func(n int) string {
		q := u.Query()
		q.Set("page", strconv.Itoa(n))
		return u.Path + "?" + q.Encode()
	}
	if page > 1 {
		l.Before = at(page - 1)
	}
	if page < pages {
		l.After = at(page + 1)
	}
	from, to := (page-1)*rows, min(page*rows, l.found)
	if pages > 1 {
		l.Say = fmt.Sprintf("%s to %s of %s", humanize.Count(from+1), humanize.Count(to), humanize.Count(l.found))
	}
	l.Rows = l.Rows[from:to]
}

func columns(u *url.URL, by string) []column {
	out := []column{
		{Name: "Dataset", Path: "id"},
		{Name: "Over time", Class: "wide"},
		{Name: "Accepted", Path: "accepted", Class: "num"},
		{Name: "Rejected", Path: "rejected", Class: "num"},
		{Name: "Late", Path: "late", Class: "num wide"},
		{Name: "Restricted", Path: "restricted", Class: "num wide"},
		{Name: "Suppressed", Path: "suppressed", Class: "num wide"},
		{Name: "Last event", Path: "seen", Class: "wide"},
		{Name: "State now", Path: "worst"},
	}
	for i := range out {
		if name := out[i].Path; name != "" {
			q := u.Query()
			q.Set("by", name)
			q.Del("page")
			out[i].Path, out[i].Current = u.Path+"?"+q.Encode(), name == by
		}
	}
	return out
}

// newDatasetRow makes what the list is sorted by: the numbers of the window, and the state, which is that of the last
// 24 hours, or an alarm.
func newDatasetRow(d *dataset.Dataset, numbers *hours.Dataset, w, day window, now time.Time,
	alarm [2]string,
) *datasetRow {
	row := &datasetRow{ID: d.ID, Name: d.Name, Totals: numbers.Totals(w.Window), seen: numbers.Last()}
	last := row.Totals
	if w.name != day.name {
		last = numbers.Totals(day.Window)
	}
	requests := numbers.Requests(day.Window)
	row.Requests = requests.Rejected
	if len(requests.ByCode) > 0 {
		row.Code = requests.ByCode[0].Name
	}
	row.State, row.Class = condition(d, last, requests, numbers.Last(), now)
	if alarm != [2]string{} && row.Class != "bad" && !d.Disabled {
		row.State, row.Class = alarm[0], alarm[1]
	}
	switch {
	case row.Class == "bad":
		row.rank = 0
	case row.Class == "warn":
		row.rank = 1
	case row.Rejected+row.Requests > 0:
		row.rank = 2
	case row.Class != "":
		row.rank = 3
	default:
		row.rank = 4
	}
	return row
}

// fill adds what a row that is shown has beside it.
func (row *datasetRow) fill(numbers *hours.Dataset, w, day window, now time.Time) {
	row.Path, row.Diagnosis = alarm.DatasetPath(row.ID)+w.query(), alarm.DiagnosisPath(row.ID)+w.query()
	row.Trend, row.RejectedTrend = ended(numbers.AcceptedBy(w.Window)), ended(numbers.RejectedBy(w.Window))
	row.Seen = lastHour(now, numbers.Last())
	if reasons := numbers.Reasons(day.Window); len(reasons) > 0 && reasons[0].Events >= row.Requests {
		row.Code, row.Field = reasons[0].Code, reasons[0].Field
	}
}

// lastHour says when the last hour with an event was: hours are what the tables know.
func lastHour(now time.Time, hour int64) string {
	switch {
	case hour == 0:
		return "never"
	case now.Unix()-hour < 3600:
		return "this hour"
	case now.Unix()-hour < 7200:
		return "last hour"
	}
	return humanize.Ago(now, time.Unix(hour+3600, 0))
}

// condition is a dataset's state in a word.
func condition(d *dataset.Dataset, day hours.Totals, requests hours.Requests, last int64, now time.Time) (word,
	class string,
) {
	live := slices.ContainsFunc(d.Keys, func(k dataset.KeyInfo) bool { return k.Live(now) })
	switch {
	case d.Disabled:
		return "disabled", ""
	case !live:
		return "no live key", "warn"
	case requests.Rejected > 0 && requests.Accepted == 0:
		return "every request fails", "bad"
	case day.Rejected > 0 && humanize.Share(day.Rejected, day.Received()) >= 0.5:
		return "mostly rejected", "bad"
	case day.Rejected > 0 && humanize.Share(day.Rejected, day.Received()) >= 0.05:
		return "rejections", "warn"
	case last == 0:
		return "no events yet", "note"
	case day.Received() == 0:
		return "silent", "warn"
	}
	return "flowing", "ok"
}
