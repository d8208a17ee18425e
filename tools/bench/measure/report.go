package measure

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Report is everything measured in one run of the command.
type Report struct {
	Machine Machine   `json:"machine"`
	Figures []Figures `json:"figures"`
}

// Machine is where it was measured: figures of two machines cannot be compared, ratios mostly can.
type Machine struct {
	OS         string `json:"os"`
	Arch       string `json:"arch"`
	Processors int    `json:"processors"`
	Go         string `json:"go"`
	Version    string `json:"version"`
	Begun      string `json:"begun"` // RFC 3339
}

// Figures are those of one load on one server.
type Figures struct {
	Name      string  `json:"name"`
	Server    string  `json:"server"` // "sluice", "reference", or the address
	Batch     int     `json:"batch"`
	Senders   int     `json:"senders"`
	Datasets  int     `json:"datasets"`
	Offered   float64 `json:"offered_events_per_second,omitempty"` // open loop
	BodyBytes float64 `json:"body_bytes_per_event"`

	Seconds           float64 `json:"seconds"`
	Requests          int64   `json:"requests"`
	Events            int64   `json:"events"`
	Failed            int64   `json:"failed_requests"`
	FirstFailure      string  `json:"first_failure,omitempty"`
	EventsPerSecond   float64 `json:"events_per_second"`
	RequestsPerSecond float64 `json:"requests_per_second"`

	Latency Latency `json:"latency_ms"`         // from the intended beginning
	Service Latency `json:"service_latency_ms"` // from the real one

	// Per million events; zero when the server is not ours to look into.
	CPU          float64 `json:"server_cpu_seconds_per_million,omitempty"`
	UserCPU      float64 `json:"server_user_seconds_per_million,omitempty"`
	LoadedCPU    float64 `json:"server_cpu_seconds_per_million_loaded,omitempty"` // until all of it was in the table
	StoredCPU    float64 `json:"server_cpu_seconds_per_million_stored,omitempty"` // until the server was at rest: compaction, too
	GeneratorCPU float64 `json:"generator_cpu_seconds_per_million"`

	Memory        int64   `json:"peak_memory_bytes,omitempty"`
	WrittenBytes  float64 `json:"written_bytes_per_event,omitempty"`
	StoredEvents  int64   `json:"stored_events,omitempty"`
	StoredBytes   float64 `json:"disk_bytes_per_stored_event,omitempty"`
	SettleSeconds float64 `json:"seconds_until_all_loaded,omitempty"`
	// DrainedPerSecond is how many events of a backlog were loaded in a second.
	DrainedPerSecond float64 `json:"drained_events_per_second,omitempty"`

	// CommitSeconds is how long a commit took, from its beginning until its rows were visible; the mean.
	CommitSeconds float64 `json:"commit_seconds,omitempty"`

	Freshness *Freshness `json:"freshness_seconds,omitempty"`
}

// Latency is a summary in milliseconds.
type Latency struct {
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p99_9"`
	Max  float64 `json:"max"`
}

// Freshness is how long events took from the receipt to the table.
type Freshness struct {
	Probes int     `json:"probes"`
	P50    float64 `json:"p50"`
	Max    float64 `json:"max"`
}

// Summarize turns a result into figures.
func (r *Result) Summarize(name, server string, bodies *Bodies, rate float64) Figures {
	f := Figures{
		Name: name, Server: server, Batch: bodies.batch, Senders: len(bodies.perSender), Datasets: len(bodies.datasets), Offered: rate,
		BodyBytes: float64(bodies.bytes) / float64(bodies.batch),
		Seconds:   r.Elapsed.Seconds(), Requests: r.Requests, Events: r.Events, Failed: r.Failed,
		EventsPerSecond: float64(r.Events) / r.Elapsed.Seconds(), RequestsPerSecond: float64(r.Requests) / r.Elapsed.Seconds(),
		Latency: summary(&r.Latency), Service: summary(&r.Service),
	}
	if r.First != nil {
		f.FirstFailure = r.First.Error()
	}
	return f
}

// Fresh adds the times of a probe.
func (f *Figures) Fresh(times []time.Duration) {
	if len(times) == 0 {
		return
	}
	times = slices.Sorted(slices.Values(times))
	f.Freshness = &Freshness{len(times), times[len(times)/2].Seconds(), times[len(times)-1].Seconds()}
}

// Million is a duration of processor time as seconds per million events.
func (f *Figures) Million(d time.Duration) float64 {
	return d.Seconds() / float64(max(f.Events, 1)) * 1e6
}

func summary(h *Histogram) Latency {
	return Latency{
		ms(h.Mean()), ms(h.Quantile(0.5)), ms(h.Quantile(0.9)), ms(h.Quantile(0.99)), ms(h.Quantile(0.999)), ms(h.Max()),
	}
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// WriteJSON writes the report for programs.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// WriteTable writes the report for people: a column for each server under each load, a line for each figure.
func (r *Report) WriteTable(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(name string, cell func(*Figures) string) {
		var b strings.Builder
		empty := true
		for i := range r.Figures {
			c := cell(&r.Figures[i])
			empty = empty && c == ""
			b.WriteString(c + "\t")
		}
		if !empty {
			fmt.Fprintf(t, "%s\t%s\n", name, b.String())
		}
	}
	number := func(name, format string, value func(*Figures) float64) {
		row(name, func(f *Figures) string {
			if v := value(f); v != 0 {
				return fmt.Sprintf(format, v)
			}
			return ""
		})
	}
	row("load", func(f *Figures) string { return f.Name })
	row("server", func(f *Figures) string { return f.Server })
	number("events in a request", "%.0f", func(f *Figures) float64 { return float64(f.Batch) })
	number("senders", "%.0f", func(f *Figures) float64 { return float64(f.Senders) })
	number("datasets", "%.0f", func(f *Figures) float64 { return float64(f.Datasets) })
	number("offered events/s", "%.0f", func(f *Figures) float64 { return f.Offered })
	number("body bytes/event", "%.0f", func(f *Figures) float64 { return f.BodyBytes })
	number("seconds", "%.1f", func(f *Figures) float64 { return f.Seconds })
	number("requests", "%.0f", func(f *Figures) float64 { return float64(f.Requests) })
	number("failed requests", "%.0f", func(f *Figures) float64 { return float64(f.Failed) })
	row("first failure", func(f *Figures) string { return f.FirstFailure })
	number("events/s", "%.0f", func(f *Figures) float64 { return f.EventsPerSecond })
	number("requests/s", "%.0f", func(f *Figures) float64 { return f.RequestsPerSecond })
	number("ratio to the reference", "%.2f", r.ratio)
	number("latency p50 ms", "%.2f", func(f *Figures) float64 { return f.Latency.P50 })
	number("latency p90 ms", "%.2f", func(f *Figures) float64 { return f.Latency.P90 })
	number("latency p99 ms", "%.2f", func(f *Figures) float64 { return f.Latency.P99 })
	number("latency p99.9 ms", "%.2f", func(f *Figures) float64 { return f.Latency.P999 })
	number("latency max ms", "%.2f", func(f *Figures) float64 { return f.Latency.Max })
	number("server CPU s/million", "%.2f", func(f *Figures) float64 { return f.CPU })
	number("… of it in user mode", "%.2f", func(f *Figures) float64 { return f.UserCPU })
	number("… until all is loaded", "%.2f", func(f *Figures) float64 { return f.LoadedCPU })
	number("… until it is at rest", "%.2f", func(f *Figures) float64 { return f.StoredCPU })
	number("generator CPU s/million", "%.2f", func(f *Figures) float64 { return f.GeneratorCPU })
	number("peak memory MiB", "%.0f", func(f *Figures) float64 { return float64(f.Memory) / (1 << 20) })
	number("bytes written/event", "%.0f", func(f *Figures) float64 { return f.WrittenBytes })
	number("seconds until all is loaded", "%.1f", func(f *Figures) float64 { return f.SettleSeconds })
	number("drained events/s", "%.0f", func(f *Figures) float64 { return f.DrainedPerSecond })
	number("disk bytes/stored event", "%.0f", func(f *Figures) float64 { return f.StoredBytes })
	number("start of a commit to visible row, mean s", "%.1f", func(f *Figures) float64 { return f.CommitSeconds })
	row("freshness p50 / max s", func(f *Figures) string {
		if f.Freshness == nil {
			return ""
		}
		return fmt.Sprintf("%.1f / %.1f", f.Freshness.P50, f.Freshness.Max)
	})
	return t.Flush()
}

// ratio is the events a second compared with the reference's under the same load; 0 when it was not run.
func (r *Report) ratio(f *Figures) float64 {
	if o := r.find(f.Name, string(Least)); o.EventsPerSecond > 0 && f.Server != string(Least) {
		return f.EventsPerSecond / o.EventsPerSecond
	}
	return 0
}

// subject returns the figures of the server that a step measures, which are its first.
func (r *Report) subject(step string) *Figures {
	for i := range r.Figures {
		if f := &r.Figures[i]; f.Name == step {
			return f
		}
	}
	return &Figures{}
}

// find returns the figures of a server in a step; zeros where there are none.
func (r *Report) find(step, server string) *Figures {
	for i := range r.Figures {
		if f := &r.Figures[i]; f.Name == step && f.Server == server {
			return f
		}
	}
	return &Figures{}
}
