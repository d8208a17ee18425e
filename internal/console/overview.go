package console

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"time"

	"sluice/internal/hours"
)

type overviewPage struct {
	Verdict   verdict
	First     bool // there is no dataset yet
	Tiles     []tile
	Window    pageWindow
	Windows   []link
	Chart     chart
	Sum       string
	Requests  string // the same for requests
	Flow      []flowStep
	Attention []attention
	ByDataset bool   // the window has numbers by dataset
	Listed    string // the window of Attention
}

type pageWindow struct{ Say string }

type tile struct {
	ID, Name, Class, Share string
	Day, Hour, Minute      int64
}

type flowStep struct{ Name, Class, State, Say, More string }

type attention struct {
	ID, Path, Code, Field string
	Rejected, Requests    int64 // events of the window, and requests of the last 24 hours that were rejected whole
	Share                 float64
	Trend                 []int64
}

func (c *Console) overview(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/" {
		c.say(w, r, http.StatusNotFound, message{"There is nothing at this path", "The pages are in the menu.", "/"})
		return
	}
	s := c.look()
	win := c.pickWindow(r, "day", "hour", "week", "month", "year")
	p := overviewPage{
		Verdict: judge(s), First: len(s.datasets) == 0, Window: pageWindow{win.say},
		Windows: windows(r.URL, win.name, "hour", "day", "week", "month", "year"), Flow: flow(s),
	}
	view := c.s.Hours.View()
	defer view.Close()
	all := view.All()
	by := c.minutes.over(win)
	if p.ByDataset = win.Step > 60; p.ByDataset {
		by = all.TotalsBy(win.Window)
		listed := listWindow(win, s.now)
		p.Attention, p.Listed = mostRejected(view, listed, s.now), listed.say
	}
	p.Chart = trafficChart(win, by)
	var sum hours.Totals
	for _, t := range by {
		sum.Add(t)
	}
	if p.ByDataset {
		p.Requests = requestSum(all.Requests(win.Window), win)
	}
	p.Tiles = overviewTiles(sum, all.Totals(hours.NewWindow(time.Hour, 1, s.now)), c.minutes.lately(s.now))
	p.Sum = arithmetic(sum, win)
	if !c.s.Hours.Complete() {
		p.Sum = "The tables are still being read: these numbers are not whole yet. " + p.Sum
	}
	c.show(w, r, http.StatusOK, "overview", "Overview", "/", refreshEvery, p)
}

// overviewTiles are the sums of the window, and beside them what is happening now.
func overviewTiles(sum, hour, minute hours.Totals) []tile {
	of := func(n int64) string { return pct(share(n, sum.Accepted)) + " of accepted" }
	return []tile{
		{"accepted", "Accepted", "k1", "of " + num(sum.Received()) + " received", sum.Accepted, hour.Accepted, minute.Accepted},
		{"rejected", "Rejected", "k2", pct(share(sum.Rejected, sum.Received())) + " of received", sum.Rejected, hour.Rejected, minute.Rejected},
		{"late", "Late", "k3", of(sum.Late), sum.Late, hour.Late, minute.Late},
		{"restricted", "Restricted", "k4", of(sum.Restricted) + ", for measurement only", sum.Restricted, hour.Restricted, minute.Restricted},
		{"suppressed", "Suppressed", "k5", of(sum.Suppressed) + ", without identifiers", sum.Suppressed, hour.Suppressed, minute.Suppressed},
	}
}

// arithmetic writes the sum out, so that anybody can check it against the tables.
func arithmetic(t hours.Totals, w window) string {
	s := fmt.Sprintf("%s received = %s accepted + %s rejected, %s. Of the accepted, %s are unrestricted, %s restricted to measurement and %s suppressed.",
		num(t.Received()), num(t.Accepted), num(t.Rejected), w.say, num(t.Accepted-t.Restricted-t.Suppressed), num(t.Restricted), num(t.Suppressed))
	if w.Step == 60 {
		return s + " By the minute the numbers are this node's own, counted at acknowledgement; from the hour on they are those of the tables."
	}
	return s + " Counted from the tables, by time of receipt; the last step is still running."
}

// listWindow is the window for lists of datasets: a week of their numbers is in memory, and months of all would be
// read.
func listWindow(w window, now time.Time) window {
	if w.Step < 86400 {
		return w
	}
	week, _ := newWindow("week", now)
	return week
}

// mostRejected lists the datasets with the most rejected events and requests, with what most of them had in the last 24 hours.
func mostRejected(view hours.View, w window, now time.Time) []attention {
	day, _ := newWindow("day", now)
	var out []attention
	for id, s := range view.Datasets() {
		t := s.Totals(w.Window)
		if r := s.Requests(day.Window); t.Rejected+r.Rejected > 0 {
			a := attention{ID: id, Path: diagnosisPath(id) + w.query(), Rejected: t.Rejected, Requests: r.Rejected, Share: share(t.Rejected, t.Received())}
			if len(r.ByCode) > 0 {
				a.Code = r.ByCode[0].Name
			}
			out = append(out, a)
		}
	}
	slices.SortFunc(out, func(a, b attention) int {
		return cmp.Or(cmp.Compare(b.Rejected+b.Requests, a.Rejected+a.Requests), cmp.Compare(a.ID, b.ID))
	})
	out = out[:min(len(out), 5)]
	for i := range out {
		a := &out[i]
		numbers := view.Dataset(a.ID)
		a.Trend = ended(numbers.RejectedBy(w.Window))
		if reasons := numbers.Reasons(day.Window); len(reasons) > 0 && reasons[0].Events >= a.Requests {
			a.Code, a.Field = reasons[0].Code, reasons[0].Field
		}
	}
	return out
}
