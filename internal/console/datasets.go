package console

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"sluice/internal/dataset"
	"sluice/internal/hours"
)

// listMax is how many datasets one page lists; more are found by searching. Arbitrary: what a browser scrolls well.
const listMax = 2000

type datasetsPage struct {
	Say, Query, More string
	First            bool
	Windows          []link
	Window           string // as the search has to keep it
	Caption          string
	Columns          []column
	Rows             []datasetRow
}

type column struct {
	Name, Path, Class string
	Current           bool
}

type datasetRow struct {
	ID, Name, Path, Seen, State, Class string
	Trend                              []int64
	hours.Totals
	Requests                                                   hours.Requests
	RejectedShare, LateShare, RestrictedShare, SuppressedShare float64
	seen                                                       int64
}

// orders are the ways to sort the list, by the name in the query.
var orders = map[string]func(a, b *datasetRow) int{
	"id":         func(a, b *datasetRow) int { return 0 },
	"accepted":   func(a, b *datasetRow) int { return cmp.Compare(b.Accepted, a.Accepted) },
	"rejected":   func(a, b *datasetRow) int { return cmp.Compare(b.Rejected, a.Rejected) },
	"late":       func(a, b *datasetRow) int { return cmp.Compare(b.LateShare, a.LateShare) },
	"restricted": func(a, b *datasetRow) int { return cmp.Compare(b.RestrictedShare, a.RestrictedShare) },
	"suppressed": func(a, b *datasetRow) int { return cmp.Compare(b.SuppressedShare, a.SuppressedShare) },
	"seen":       func(a, b *datasetRow) int { return cmp.Compare(b.seen, a.seen) },
}

func (c *Console) datasets(w http.ResponseWriter, r *http.Request) {
	s := c.look()
	win := c.pickWindow(r, "day", "week")
	day, _ := newWindow("day", s.now)
	query := strings.ToLower(strings.TrimSpace(r.URL.Query().Get("q")))
	by := r.URL.Query().Get("by")
	if orders[by] == nil {
		by = "accepted"
	}
	p := datasetsPage{
		Query: r.URL.Query().Get("q"), First: len(s.datasets) == 0, Columns: columns(r.URL, by), Window: win.name,
		Windows: windows(r.URL, win.name, "day", "week"), Caption: "Datasets " + win.say,
	}
	view := c.s.Hours.View()
	for _, d := range s.datasets {
		if query == "" || strings.Contains(strings.ToLower(d.ID), query) || strings.Contains(strings.ToLower(d.Name), query) {
			p.Rows = append(p.Rows, newDatasetRow(d, view.Dataset(d.ID), win, day, s.now))
		}
	}
	view.Close()
	slices.SortFunc(p.Rows, func(a, b datasetRow) int { return cmp.Or(orders[by](&a, &b), strings.Compare(a.ID, b.ID)) })
	var sum hours.Totals
	for i := range p.Rows {
		sum.Add(p.Rows[i].Totals)
	}
	p.Say = fmt.Sprintf("%s, %s accepted and %s rejected events %s.", plural(len(p.Rows), "dataset", "datasets"), num(sum.Accepted), num(sum.Rejected), win.say)
	if len(p.Rows) > listMax {
		p.More = fmt.Sprintf("The first %s are shown; find others by id or name.", num(listMax))
		p.Rows = p.Rows[:listMax]
	}
	// A long list is dear to make, so it is asked for less often: a thousand rows every 15 s.
	every := min(15, refreshEvery+len(p.Rows)/50)
	c.show(w, r, http.StatusOK, "datasets", "Datasets", "/datasets", every, p)
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
		{Name: "State now"},
	}
	for i := range out {
		if name := out[i].Path; name != "" {
			q := u.Query()
			q.Set("by", name)
			out[i].Path, out[i].Current = u.Path+"?"+q.Encode(), name == by
		}
	}
	return out
}

// newDatasetRow makes the row of a dataset: its numbers of the window, and its state, which is that of the last 24
// hours.
func newDatasetRow(d *dataset.Dataset, numbers *hours.Dataset, w, day window, now time.Time) datasetRow {
	row := datasetRow{ID: d.ID, Name: d.Name, Path: datasetPath(d.ID) + w.query(), Totals: numbers.Totals(w.Window), seen: numbers.Last()}
	row.Trend = ended(numbers.AcceptedBy(w.Window))
	row.RejectedShare = share(row.Rejected, row.Received())
	row.LateShare = share(row.Late, row.Accepted)
	row.RestrictedShare = share(row.Restricted, row.Accepted)
	row.SuppressedShare = share(row.Suppressed, row.Accepted)
	row.Seen = lastHour(now, numbers.Last())
	last := row.Totals
	if w.name != day.name {
		last = numbers.Totals(day.Window)
	}
	row.Requests = numbers.Requests(w.Window)
	row.State, row.Class = condition(d, last, numbers.Requests(day.Window), numbers.Last(), now)
	return row
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
	return ago(now, time.Unix(hour+3600, 0))
}

// condition is a dataset's state in a word.
func condition(d *dataset.Dataset, day hours.Totals, requests hours.Requests, last int64, now time.Time) (word, class string) {
	live := slices.ContainsFunc(d.Keys, func(k dataset.KeyInfo) bool { return k.Live(now) })
	switch {
	case d.Disabled:
		return "disabled", ""
	case !live:
		return "no live key", "warn"
	case requests.Rejected > 0 && requests.Accepted == 0:
		return "every request fails", "bad"
	case day.Rejected > 0 && share(day.Rejected, day.Received()) >= 0.5:
		return "mostly rejected", "bad"
	case day.Rejected > 0 && share(day.Rejected, day.Received()) >= 0.05:
		return "rejections", "warn"
	case last == 0:
		return "no events yet", "note"
	case day.Received() == 0:
		return "silent", "warn"
	}
	return "flowing", "ok"
}
