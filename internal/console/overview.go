package console

import (
	"fmt"
	"net/http"
	"time"

	"sluice/internal/hours"
	"sluice/internal/humanize"
)

type overviewPage struct {
	Verdict  verdict
	First    bool // there is no dataset yet
	Tiles    []tile
	Window   string // in words
	Windows  []link
	Chart    chart
	Sum      string
	Requests string // the same for requests
	Flow     []flowStep
	List     listing
	Listed   string // the window of List
}

type tile struct {
	ID, Name, Class, Share string
	Day, Hour, Minute      int64
}

type flowStep struct{ Name, Class, State, Say, More string }

func (c *Console) overview(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/" {
		c.missing(w, message{"There is nothing at this path", "The pages are in the menu.", "/"})
		return
	}
	s := c.look()
	win, offered := c.pickWindow(r, "hour", "day", "week", "month", "year")
	p := overviewPage{
		Verdict: judge(s), First: len(s.Datasets) == 0, Window: win.say, Windows: offered, Flow: flow(s),
	}
	view := c.s.Hours.View()
	defer view.Close()
	all := view.All()
	by := c.minutes.over(win)
	if win.Step > 60 {
		by = all.TotalsBy(win.Window)
		p.Requests = requestSum(all.Requests(win.Window), win)
	}
	listed := listWindow(win, s.Now)
	p.List, p.Listed = listDatasets(r.URL, view, s, listed, "worst", overviewRows), listed.say
	p.Chart = trafficChart(win, by)
	if win.Step == 60 { // what came before the start of this node is not known by the minute, and not zero
		for i := range p.Chart.Rows {
			p.Chart.Rows[i].Unknown = p.Chart.Rows[i].Unix+win.Step <= s.Started.Unix()
		}
	}
	var sum hours.Totals
	for _, t := range by {
		sum.Add(t)
	}
	p.Tiles = tiles(sum, all.Totals(hours.NewWindow(time.Hour, 1, s.Now)), c.minutes.lately(s.Now))
	p.Sum = arithmetic(sum, win)
	if since := s.Started; win.Step == 60 && since.Unix() > win.From {
		p.Window = "since this node started at " + since.UTC().Format("15:04") + " UTC, by the minute"
		p.Sum = "This node started at " + since.UTC().Format("15:04") + " UTC: what came before is on Day. " + p.Sum
	}
	if !c.s.Hours.Complete() {
		p.Sum = "The tables are still being read: these numbers are not whole yet. " + p.Sum
	}
	c.show(w, http.StatusOK, "overview", "Overview", "/", listEvery(len(s.Datasets)), p)
}

// tiles are the sums of the window, and beside them what is happening now.
func tiles(sum, hour, minute hours.Totals) []tile {
	of := func(n int64) string { return humanize.Percent(humanize.Share(n, sum.Accepted)) + " of accepted" }
	received := "of " + humanize.Count(sum.Received()) + " received"
	rejected := humanize.Percent(humanize.Share(sum.Rejected, sum.Received())) + " of received"
	restricted, suppressed := of(sum.Restricted)+", for measurement only", of(sum.Suppressed)+", without identifiers"
	return []tile{
		{"accepted", "Accepted", "k1", received, sum.Accepted, hour.Accepted, minute.Accepted},
		{"rejected", "Rejected", "k2", rejected, sum.Rejected, hour.Rejected, minute.Rejected},
		{"late", "Late", "k3", of(sum.Late), sum.Late, hour.Late, minute.Late},
		{"restricted", "Restricted", "k4", restricted, sum.Restricted, hour.Restricted, minute.Restricted},
		{"suppressed", "Suppressed", "k5", suppressed, sum.Suppressed, hour.Suppressed, minute.Suppressed},
	}
}

// arithmetic writes the sum out, so that anybody can check it against the tables.
func arithmetic(t hours.Totals, w window) string {
	s := fmt.Sprintf("%s, %s. Of the accepted, %s are unrestricted, %s restricted to measurement and %s suppressed.",
		receivedSum(t.Accepted, t.Rejected), w.say, humanize.Count(t.Accepted-t.Restricted-t.Suppressed),
		humanize.Count(t.Restricted), humanize.Count(t.Suppressed))
	if w.Step == 60 {
		return s + " By the minute the numbers are this node's own, counted at acknowledgement; from the hour on they are " +
			"those of the tables."
	}
	return s + " Counted from the tables, by time of receipt; the last step is still running."
}

// listWindow is the window for lists of datasets: a week of their numbers by the hour is in memory, and months of all
// would be read.
func listWindow(w window, now time.Time) window {
	if w.Steps > 24 && w.Step >= 3600 {
		return newWindow("week", now)
	}
	return newWindow("day", now)
}
