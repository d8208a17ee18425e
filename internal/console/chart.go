package console

import (
	"cmp"
	"time"

	"sluice/internal/hours"
	"sluice/internal/humanize"
)

// chart is numbers over time: a table on the page, which the script draws.
type chart struct {
	ID, Label string
	Step      int64  // seconds between two rows
	Of        string // what is counted; "" is events
	Series    []series
	Rows      []chartRow
}

type series struct{ Name, Class string }

type chartRow struct {
	Unix    int64
	Label   string
	Running bool // its step has not ended: its numbers still grow
	Unknown bool // nobody counted then
	Cells   []int64
}

// Unit says what the chart counts, and in which time zone.
func (c chart) Unit() string {
	step := "hour"
	switch {
	case c.Step >= 86400:
		step = "day"
	case c.Step < 3600:
		step = "minute"
	}
	return cmp.Or(c.Of, "events") + " per " + step + ", time in UTC; the last " + step +
		" is still running, and is drawn pale"
}

// rows makes the table's rows, empty of numbers.
func (w window) rows(columns int) []chartRow {
	out := make([]chartRow, w.Steps)
	cells := make([]int64, w.Steps*columns)
	layout := "2 Jan 15:04"
	if w.Step >= 86400 {
		layout = "2 Jan 2006"
	}
	for i := range out {
		at := w.From + int64(i)*w.Step
		out[i] = chartRow{
			Unix: at, Label: time.Unix(at, 0).UTC().Format(layout), Running: i == w.Steps-1,
			Cells: cells[i*columns : (i+1)*columns : (i+1)*columns],
		}
	}
	return out
}

// steps are the numbers of each step of the window.
func (w window) steps(addTo func([]int64, hours.Window)) []int64 {
	by := make([]int64, w.Steps)
	addTo(by, w.Window)
	return by
}

// trafficChart shows accepted and rejected events.
func trafficChart(w window, by []hours.Totals) chart {
	c := chart{
		ID: "chart-traffic", Label: "Accepted and rejected events " + w.say, Step: w.Step,
		Series: []series{{"Accepted", "k1"}, {"Rejected", "k2"}}, Rows: w.rows(2),
	}
	for i := range by {
		c.Rows[i].Cells[0], c.Rows[i].Cells[1] = by[i].Accepted, by[i].Rejected
	}
	return c
}

// requestChart shows accepted and rejected requests.
func requestChart(w window, d *hours.Dataset) chart {
	c := chart{
		ID: "chart-requests", Label: "Accepted and rejected requests " + w.say, Step: w.Step, Of: "requests",
		Series: []series{{"Accepted", "k1"}, {"Rejected whole", "k2"}}, Rows: w.rows(2),
	}
	accepted, rejected := d.RequestsBy(w.Window)
	for i := range c.Rows {
		c.Rows[i].Cells[0], c.Rows[i].Cells[1] = accepted[i], rejected[i]
	}
	return c
}

// typeClasses are the colours of the event types that have one of their own; the rest is summed.
var typeClasses = [...]string{"k1", "k4", "k6", "k3", "k7"}

// ended are the steps of a row of numbers that have ended: in a small curve the running one would look like a fall.
// More of them than the curve has places are added up.
func ended(by []int64) []int64 {
	by = by[:len(by)-1]
	const most = 60
	if len(by) <= most {
		return by
	}
	each := (len(by) + most - 1) / most
	out := make([]int64, 0, most)
	for i := len(by) % each; i < len(by); i += each { // the rest, at the beginning, is left out
		sum := int64(0)
		for _, n := range by[i : i+each] {
			sum += n
		}
		out = append(out, sum)
	}
	return out
}

// volumeChart shows accepted events by type, the most frequent ones apart, and rejected ones on top: together they are
// what was received.
func volumeChart(w window, d *hours.Dataset) chart {
	types := d.Types(w.Window)
	c := chart{ID: "chart-volume", Label: "Accepted events by type, and rejected events, " + w.say, Step: w.Step}
	for i := range min(len(types), len(typeClasses)) {
		c.Series = append(c.Series, series{types[i].Name, typeClasses[i]})
	}
	if len(types) > len(typeClasses) {
		c.Series = append(c.Series, series{"other types", "k5"})
	}
	if len(c.Series) == 0 {
		c.Series = []series{{"Accepted", "k1"}}
	}
	c.Series = append(c.Series, series{"Rejected", "k2"})
	c.Rows = w.rows(len(c.Series))
	for i := range types {
		for j, n := range w.steps(types[i].AddTo) {
			c.Rows[j].Cells[min(i, len(typeClasses))] += n
		}
	}
	for j, n := range d.RejectedBy(w.Window) {
		c.Rows[j].Cells[len(c.Series)-1] = n
	}
	return c
}

// bars is a table of parts of a whole.
type bars struct {
	Caption, Head, Empty string
	Rows                 []barRow
}

type barRow struct {
	Name, Note, Class string
	Count             int64
	Share             float64
}

func (b *bars) add(name, note, class string, count, whole int64) {
	b.Rows = append(b.Rows, barRow{name, note, class, count, humanize.Share(count, whole)})
}
