package console

import (
	"time"

	"sluice/internal/alarm"
	"sluice/internal/histogram"
	"sluice/internal/humanize"
)

// flow is the way of an event through the service, with the state of each step.
func flow(s *state) []flowStep {
	return []flowStep{apiStep(s), streamStep(s), loaderStep(s), lakeStep(s)}
}

func apiStep(s *state) flowStep {
	step := flowStep{Name: "1 · API", Class: "ok", State: "open"}
	if s.Ready != nil {
		step.Class, step.State = "bad", "closed"
	}
	var latency histogram.Buckets
	var requests, fine uint64
	for i := range s.API.Routes {
		r := &s.API.Routes[i]
		if r.Method != "POST" {
			continue
		}
		for j, n := range r.Latency {
			latency[j] += n
		}
		for _, st := range r.Statuses {
			requests += st.Count
			if st.Status == 200 {
				fine += st.Count
			}
		}
	}
	step.Say = humanize.Plural(requests, "request", "requests")
	step.More = humanize.Count(fine) + " answered 200; 99 % within " + edge(&latency) + ", since the start"
	return step
}

func streamStep(s *state) flowStep {
	step := flowStep{Name: "2 · Stream", Class: "ok", State: "durable"}
	if !s.Engine.Healthy {
		step.Class, step.State = "bad", "engine down"
	} else if !s.Stream.Ready {
		step.Class, step.State = "bad", streamState(s)
	}
	step.Say = humanize.Plural(s.Stream.Frames, "frame", "frames") + " synced"
	step.More = "99 % within " + edge(&s.Stream.Latency) + "; " + humanize.Bytes(s.Stream.Queued) +
		" waiting"
	return step
}

func loaderStep(s *state) flowStep {
	step := flowStep{Name: "3 · Loader", Class: "ok", State: "keeping up", Say: "nothing waits"}
	switch {
	case s.Backlog.Waits():
		step.Say = humanize.Span(s.Backlog.Age()) + " behind"
	case !s.Backlog.Known():
		step.Class, step.State, step.Say = "warn", "unknown", "the engine does not say what waits"
	}
	if s.Backlog.Age() > alarm.BacklogWarn {
		step.Class, step.State = "warn", "behind"
	}
	if s.Backlog.Unloaded() > 0 {
		step.Class, step.State = "bad", "stopped"
	}
	step.More = humanize.Plural(s.pending(), "row", "rows") + " read and not yet committed; " +
		humanize.Plural(s.Loader.Commits, "commit", "commits") + " since the start"
	return step
}

func lakeStep(s *state) flowStep {
	t := s.table("events")
	step := flowStep{Name: "4 · Lake", Class: "ok", State: "readable", Say: humanize.Plural(t.Rows, "event", "events") +
		" stored"}
	switch {
	case len(s.Lake.Tables) == 0:
		step.Class, step.State, step.Say = "bad", "not open", "the bucket does not answer"
	case len(s.Damaged) > 0:
		step.Class, step.State = "bad", "damage"
	}
	step.More = "newest commit " + humanize.Ago(s.Now, t.LastCommit) + "; " + humanize.Bytes(t.Bytes) + " in " +
		humanize.Plural(t.Files, "file", "files") + "; " + humanize.Bytes(s.Disk.Free) + " free on disk"
	return step
}

// edge says in which bucket the 99th of a hundred lies.
func edge(counts *histogram.Buckets) string {
	const last = len(histogram.Bounds)
	if float64(counts[last]) > 0.01*float64(counts.Count()) {
		return "more than " + humanize.Span(histogram.Bounds[last-1])
	}
	d := counts.Quantile(0.99)
	if d == 0 {
		return "–"
	}
	if d < time.Millisecond {
		return "0.5 ms"
	}
	return humanize.Span(d)
}
