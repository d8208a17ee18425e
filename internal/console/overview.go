package console

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"time"
)

type overviewPage struct {
	Verdict   verdict
	First     bool // there is no dataset yet
	Tiles     []tile
	Window    pageWindow
	Windows   []link
	Chart     chart
	Sum       string
	Flow      []flowStep
	Attention []attention
}

type pageWindow struct{ Say string }

type tile struct {
	ID, Name, Class, Share string
	Day, Hour, Minute      int64
}

type flowStep struct{ Name, Class, State, Say, More string }

type attention struct {
	ID, Path, Code, Field string
	Rejected              int64
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
	day, _ := newWindow("day", s.now)
	p := overviewPage{
		Verdict: judge(s), First: len(s.datasets) == 0, Window: pageWindow{win.say},
		Windows: windows(r.URL, win.name, "hour", "day", "week", "month", "year"), Flow: flow(s),
	}
	c.book.mu.RLock()
	defer c.book.mu.RUnlock()
	all := c.book.all
	p.Tiles = overviewTiles(all, day, s.now, c.minutes.lately(s.now))
	by := c.minutes.over(win)
	if win.step > 60 {
		by = all.totalsBy(win)
	}
	p.Chart = trafficChart(win, by)
	var sum totals
	for _, t := range by {
		sum.add(t)
	}
	p.Sum = arithmetic(sum, win)
	if !c.feed.whole.Load() {
		p.Sum = "The tables are still being read: these numbers are not whole yet. " + p.Sum
	}
	p.Attention = c.attention(day)
	c.show(w, r, http.StatusOK, "overview", "Overview", "/", refreshEvery, p)
}

func overviewTiles(all *shelf, day window, now time.Time, minute totals) []tile {
	sum := all.totals(day)
	hour := all.totals(window{step: 3600, steps: 1, from: now.Unix() - now.Unix()%3600})
	of := func(n int64) string { return pct(share(n, sum.Accepted)) + " of accepted" }
	return []tile{
		{"accepted", "Accepted", "k1", "of " + num(sum.received()) + " received", sum.Accepted, hour.Accepted, minute.Accepted},
		{"rejected", "Refused", "k2", pct(share(sum.Rejected, sum.received())) + " of received", sum.Rejected, hour.Rejected, minute.Rejected},
		{"late", "Late", "k3", of(sum.Late), sum.Late, hour.Late, minute.Late},
		{"restricted", "Restricted", "k4", of(sum.Restricted), sum.Restricted, hour.Restricted, minute.Restricted},
		{"suppressed", "Suppressed", "k5", of(sum.Suppressed), sum.Suppressed, hour.Suppressed, minute.Suppressed},
	}
}

// arithmetic writes the sum out, so that anybody can check it against the tables.
func arithmetic(t totals, w window) string {
	s := fmt.Sprintf("%s received = %s accepted + %s refused, %s. Of the accepted, %s are free of restrictions, %s restricted and %s suppressed.",
		num(t.received()), num(t.Accepted), num(t.Rejected), w.say, num(t.Accepted-t.Restricted-t.Suppressed), num(t.Restricted), num(t.Suppressed))
	if w.step == 60 {
		return s + " By the minute the numbers are this node's own, counted at acknowledgement; from the hour on they are those of the tables."
	}
	return s + " Counted from the tables, by time of receipt; the last step is still running."
}

// attention lists the datasets with the most refused events. The caller holds the book's lock.
func (c *Console) attention(day window) []attention {
	var out []attention
	for id, s := range c.book.sets {
		t := s.totals(day)
		if t.Rejected > 0 {
			out = append(out, attention{ID: id, Path: diagnosisPath(id), Rejected: t.Rejected, Share: share(t.Rejected, t.received())})
		}
	}
	slices.SortFunc(out, func(a, b attention) int { return cmp.Or(cmp.Compare(b.Rejected, a.Rejected), cmp.Compare(a.ID, b.ID)) })
	out = out[:min(len(out), 5)]
	for i := range out {
		a := &out[i]
		a.Trend = make([]int64, day.steps)
		most := int64(0)
		for l, t := range c.book.sets[a.ID].lines {
			if l.kind != kindRefused {
				continue
			}
			t.spread(day, a.Trend)
			if n := t.sum(day); n > most || n == most && n > 0 && l.name+l.field < a.Code+a.Field {
				most, a.Code, a.Field = n, l.name, l.field
			}
		}
	}
	return out
}
