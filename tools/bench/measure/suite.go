package measure

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// The names of the steps of the suite.
const (
	batches     = "accept batches"
	singles     = "accept singles"
	keyed       = "keyed singles"
	invalid     = "invalid batches"
	forbidden   = "unknown key"
	half        = "singles at half"
	load        = "accept and load"
	loadMany    = "1,000 datasets"
	backlog     = "backlog"
	fresh       = "10,000 events/s"
	freshRate   = 10_000
	manyNumber  = 1000
	defaultLoad = 1_000_000
)

// Suite is the loads whose figures docs/performance.md gives.
func (h *Harness) Suite() []Step {
	length, events := h.Load.Length, h.Load.Events
	if events == 0 {
		events = defaultLoad
	}
	all := []Step{
		{Name: batches, Batch: 500, Senders: 16, Length: length, Rival: Least},
		{Name: singles, Batch: 1, Senders: 64, Length: length, Rival: Least},
		{Name: keyed, Batch: 1, Senders: 64, Length: length, Rival: Keyed},
		{Name: invalid, Batch: 500, Senders: 16, Length: length, Rival: Invalid},
		{Name: forbidden, Batch: 1, Senders: 64, Length: length, Rival: Forbidden},
		{Name: half, Batch: 1, Senders: 64, Length: 2 * length, Rival: Resting, half: singles, Loading: true},
		{Name: load, Batch: 500, Senders: 16, Length: time.Hour, Events: events, Loading: true},
		{Name: loadMany, Batch: 500, Senders: 16, Length: time.Hour, Events: events, Loading: true, Datasets: manyNumber},
		{Name: backlog, Batch: 500, Senders: 16, Length: time.Hour, Events: 5 * events, drain: true},
		{Name: fresh, Batch: 100, Senders: 16, Length: 3 * length, Rate: freshRate, Loading: true},
	}
	if h.Address == "" {
		return all
	}
	return slices.DeleteFunc(all, func(s Step) bool { // these look into a server of ours
		return s.Rival == Resting || s.drain || s.Datasets > 0
	})
}

// goal is one line of the table: a figure of a report, and what it should be.
type goal struct {
	what   string
	least  float64 // 0: there is none
	most   float64 // 0: there is none
	format string
	of     func(*Report) float64
}

// goals are the lines of the table. A ratio compares two figures of one run.
func goals() []goal {
	ratio := func(step string, rival Rival, of func(*Figures) float64) func(*Report) float64 {
		return func(r *Report) float64 { return of(r.subject(step)) / of(r.find(step, string(rival))) }
	}
	inverse := func(f func(*Report) float64) func(*Report) float64 {
		return func(r *Report) float64 { return 1 / f(r) }
	}
	of := func(step string, of func(*Figures) float64) func(*Report) float64 {
		return func(r *Report) float64 { return of(r.subject(step)) }
	}
	rate := func(f *Figures) float64 { return f.EventsPerSecond }
	cpu := func(f *Figures) float64 { return f.CPU }
	p99 := func(f *Figures) float64 { return f.Latency.P99 }
	memory := func(f *Figures) float64 { return float64(f.Memory) / (1 << 20) }
	return []goal{
		{"batches of 500: events/s beside the reference", 0.9, 0, "%.2f", ratio(batches, Least, rate)},
		{"batches of 500: processor time beside the reference", 0, 1.1, "%.2f", ratio(batches, Least, cpu)},
		{"single events: requests/s beside the reference", 0.9, 0, "%.2f", ratio(singles, Least, rate)},
		{"single events: processor time beside the reference", 0, 1.1, "%.2f", ratio(singles, Least, cpu)},
		{"single events with an idempotency key: requests/s beside those without", 0.8, 0, "%.2f", inverse(ratio(keyed, Keyed, rate))},
		{"single events with an idempotency key: processor time beside those without", 0, 0, "%.2f", inverse(ratio(keyed, Keyed, cpu))},
		{"batches without a valid event: processor time beside valid ones", 0, 1, "%.2f", inverse(ratio(invalid, Invalid, cpu))},
		{"requests with an unknown key: processor time beside accepted ones", 0, 1, "%.2f", inverse(ratio(forbidden, Forbidden, cpu))},
		{"p99 of a single event at half of the peak, loading, beside no loading", 0, 2, "%.1f", ratio(half, Resting, p99)},
		{"the same p99, ms", 0, 0, "%.1f", of(half, p99)},
		{"load a million events with compaction, s of processor time", 0, 4, "%.1f", of(load, func(f *Figures) float64 { return f.StoredCPU - f.CPU })},
		{"accept, load and compact a million events, s of processor time", 0, 0, "%.1f", of(load, func(f *Figures) float64 { return f.StoredCPU })},
		{"bytes on disk for each event, compacted", 0, 0, "%.0f", of(load, func(f *Figures) float64 { return f.StoredBytes })},
		{"memory while accepting and loading, MiB", 0, 300, "%.0f", of(load, memory)},
		{"the same with 1,000 datasets, MiB", 0, 300, "%.0f", of(loadMany, memory)},
		{"a backlog: events/s loaded beside events/s accepted", 1, 0, "%.2f", of(backlog, func(f *Figures) float64 { return f.DrainedPerSecond / f.EventsPerSecond })},
		{"start of a commit to visible row at 10,000 events/s, mean, s", 0, 3, "%.1f", of(fresh, func(f *Figures) float64 { return f.CommitSeconds })},
		{"receipt to visible row at 10,000 events/s, median, s", 0, 0, "%.1f", of(fresh, func(f *Figures) float64 {
			if f.Freshness == nil {
				return 0
			}
			return f.Freshness.P50
		})},
	}
}

func unknown(v float64) bool { return v == 0 || math.IsNaN(v) || math.IsInf(v, 0) }

func (g *goal) met(values []float64) string {
	if slices.ContainsFunc(values, unknown) {
		return "–"
	}
	middle := slices.Sorted(slices.Values(values))[len(values)/2]
	switch {
	case g.least == 0 && g.most == 0:
		return "–"
	case g.least > 0 && middle < g.least, g.most > 0 && middle > g.most:
		return "no"
	}
	return "yes"
}

func (g *goal) wanted() string {
	switch {
	case g.least > 0:
		return fmt.Sprintf("≥ %g", g.least)
	case g.most > 0:
		return fmt.Sprintf("≤ %g", g.most)
	}
	return "–"
}

// WriteGoals writes what reports of the suite say about the goals: what each run gave, in its order, and whether the middle
// one meets the goal.
func WriteGoals(w io.Writer, reports []*Report) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "what\tfigure\tgoal\tmet\n")
	for _, g := range goals() {
		var values []float64
		var texts []string
		for _, r := range reports {
			v := g.of(r)
			text := fmt.Sprintf(g.format, v)
			if unknown(v) {
				text = "–"
			}
			values, texts = append(values, v), append(texts, text)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", g.what, strings.Join(texts, ", "), g.wanted(), g.met(values))
	}
	return t.Flush()
}
