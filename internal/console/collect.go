package console

import (
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"sluice/internal/api"
	"sluice/internal/dataset"
	"sluice/internal/feed"
	"sluice/internal/histogram"
	"sluice/internal/iceberg"
	"sluice/internal/listen"
)

// datasetLabels is how many datasets have series of their own; the others are summed up. With six counters each,
// and the keys, that is some 1,600 series a node.
const datasetLabels = 200

// otherDatasets is the label of the sum. A dataset's id has no space, so none can have this name.
const otherDatasets = "(all others)"

// collector reads the numbers when Prometheus asks, and at no other time: nothing is counted twice and the
// accept path pays nothing.
type collector struct {
	look  func() *state
	descs []*prometheus.Desc

	mu     sync.Mutex
	labels map[string]bool // dataset id → has series of its own; settled when first seen, or sums would jump
	own    int             // how many have
}

func newCollector(look func() *state) *collector {
	c := &collector{look: look, labels: map[string]bool{}}
	for i := range Metrics {
		m := &Metrics[i]
		c.descs = append(c.descs, prometheus.NewDesc(m.Name, m.Help, m.Labels, nil))
	}
	return c
}

// Describe sends every descriptor.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		ch <- d
	}
}

// Collect reads the state once and sends every number of it.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	s := c.look()
	s.labels = c.label(s)
	for i := range Metrics {
		m, desc := &Metrics[i], c.descs[i]
		kind := prometheus.GaugeValue
		if m.Type == counter {
			kind = prometheus.CounterValue
		}
		if m.read != nil {
			m.read(s, func(v float64, labels ...string) { ch <- prometheus.MustNewConstMetric(desc, kind, v, labels...) })
			continue
		}
		m.measure(s, func(counts *histogram.Buckets, sum time.Duration, labels ...string) {
			buckets, total := make(map[float64]uint64, len(histogram.Bounds)), uint64(0)
			for j, n := range counts {
				if total += n; j < len(histogram.Bounds) {
					buckets[histogram.Bounds[j].Seconds()] = total
				}
			}
			ch <- prometheus.MustNewConstHistogram(desc, total, sum.Seconds(), buckets, labels...)
		})
	}
}

// label settles which datasets have series of their own: the first ones seen, for as long as the process lives.
func (c *collector) label(s *state) map[string]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	settle := func(id string) {
		if _, known := c.labels[id]; !known {
			if c.labels[id] = c.own < datasetLabels; c.labels[id] {
				c.own++
			}
		}
	}
	for i := range s.API.Datasets {
		settle(s.API.Datasets[i].DatasetID)
	}
	for _, d := range s.Datasets {
		settle(d.ID)
	}
	return maps.Clone(c.labels)
}

// perKey gives out a time of each key, live or ended, of the datasets that have series of their own, unless it is zero.
func perKey(live bool, of func(*state, *dataset.KeyInfo) time.Time) func(*state, put) {
	return func(s *state, p put) {
		for _, d := range s.Datasets {
			if !s.labels[d.ID] {
				continue
			}
			for i := range d.Keys {
				k := &d.Keys[i]
				if t := of(s, k); k.Live(s.Now) == live && !t.IsZero() {
					p(unix(t), d.ID, k.ID)
				}
			}
		}
	}
}

// keyRejected is when a key that has ended was presented nevertheless.
func keyRejected(s *state, k *dataset.KeyInfo) time.Time { return s.Used[k.ID].Rejected }

// metricsHandler answers in the text format and in OpenMetrics. Datasets that a request names have series of their own,
// and all others are summed up: so any of them can be seen.
func metricsHandler(look func() *state) http.Handler {
	all := scrape(newCollector(look), collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		named := r.URL.Query()["dataset"]
		switch {
		case len(named) == 0:
			all.ServeHTTP(w, r)
		case len(named) > datasetLabels:
			http.Error(w, "More datasets are named than can have series of their own.", http.StatusBadRequest)
		default:
			c := newCollector(look)
			for _, id := range named {
				c.labels[id] = true
			}
			c.own = datasetLabels // none of the others
			scrape(c).ServeHTTP(w, r)
		}
	})
}

func scrape(all ...prometheus.Collector) http.Handler {
	r := prometheus.NewRegistry()
	r.MustRegister(all...)
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{
		EnableOpenMetrics: true, MaxRequestsInFlight: 4, Timeout: 5 * time.Second,
	})
}

// put gives one value out, with the values of the metric's labels.
type put func(value float64, labels ...string)

// putHistogram gives counts per bucket out.
type putHistogram func(counts *histogram.Buckets, sum time.Duration, labels ...string)

// value is a metric without labels.
func value[T int | int64 | uint64 | float64](kind, name, help string, of func(*state) T) Metric {
	return Metric{Name: name, Type: kind, Help: help, read: func(s *state, p put) { p(float64(of(s))) }}
}

// labeled is a metric of which there is a value for each combination of its labels that occurs, or none.
func labeled(kind, name, labels, help string, read func(*state, put)) Metric {
	return Metric{Name: name, Type: kind, Help: help, Labels: strings.Fields(labels), read: read}
}

// truth is 1 or 0.
func truth(name, help string, of func(*state) bool) Metric {
	return value(gauge, name, help, func(s *state) int {
		if of(s) {
			return 1
		}
		return 0
	})
}

// ofAccount is a number of the NATS account, if the engine is one with a limit.
func ofAccount(name, help string, of func(*state) int64) Metric {
	return labeled(gauge, name, "", help, func(s *state, p put) {
		if s.Stream.Account && s.Stream.DiskSize > 0 {
			p(float64(of(s)))
		}
	})
}

// perDataset is a counter of every dataset, those beyond the bound summed up as "other".
func perDataset(name, help string, of func(*api.DatasetStats) uint64) Metric {
	return labeled(counter, name, "dataset", help, func(s *state, p put) {
		ofDatasets(s, p, func(d *api.DatasetStats) float64 { return float64(of(d)) })
	})
}

func ofDatasets(s *state, p put, of func(*api.DatasetStats) float64) {
	other, any := 0.0, false
	for i := range s.API.Datasets {
		d := &s.API.Datasets[i]
		if s.labels[d.DatasetID] {
			p(of(d), d.DatasetID)
		} else {
			other, any = other+of(d), true
		}
	}
	if any {
		p(other, otherDatasets)
	}
}

// rejectedRequests are counted by code and dataset, those of datasets beyond the bound together.
func rejectedRequests(s *state, p put) {
	for _, c := range s.API.RejectedByCode {
		p(float64(c.Count), string(c.Code), "")
	}
	others := map[string]uint64{}
	for i := range s.API.Datasets {
		d := &s.API.Datasets[i]
		for _, c := range d.RejectedByCode {
			if s.labels[d.DatasetID] {
				p(float64(c.Count), string(c.Code), d.DatasetID)
			} else {
				others[string(c.Code)] += c.Count
			}
		}
	}
	for code, n := range others {
		p(float64(n), code, otherDatasets)
	}
}

// rejectedConnections are those of a listener, by the limit that was reached.
func rejectedConnections(l *listen.Stats, p put) {
	p(float64(l.RejectedAll), "all")
	p(float64(l.RejectedPeers), "peer")
	p(float64(l.Replaced), "replaced")
}

// perTable is a gauge of every table of the lake.
func perTable[T int | int64 | float64](name, help string, of func(iceberg.Stats) T) Metric {
	return labeled(gauge, name, "table", help, func(s *state, p put) {
		for _, t := range s.Lake.Tables {
			p(float64(of(t)), t.Name)
		}
	})
}

// perReader is a gauge of every reader of the feed.
func perReader(name, help string, of func(feed.ReaderStats) float64) Metric {
	return labeled(gauge, name, "reader", help, func(s *state, p put) {
		for _, r := range s.feed.Readers {
			p(of(r), r.Name)
		}
	})
}

func unix(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}
