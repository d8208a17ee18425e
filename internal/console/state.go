package console

import (
	"time"

	"sluice/internal/api"
	"sluice/internal/cluster"
	"sluice/internal/dataset"
	"sluice/internal/engine"
	"sluice/internal/feed"
	"sluice/internal/iceberg"
	"sluice/internal/lake"
	"sluice/internal/loader"
	"sluice/internal/objectstore"
	"sluice/internal/stream"
)

// state is the numbers of all packages at one moment. Pages, metrics and alarms are made from it alone.
type state struct {
	now                   time.Time
	started               time.Time
	version               string
	ready                 error // nil when a POST would be taken
	datasets              []*dataset.Dataset
	used                  map[string]dataset.Use // by key id
	registry              dataset.Stats
	api                   api.Stats
	stream                stream.Stats
	engine                engine.Stats
	lake                  lake.Stats
	loader                loader.Stats
	feed                  feed.Stats
	cluster               *cluster.View         // nil when this node knows of no other
	unloadedFor           time.Duration         // how long frames have waited that no node loads
	requests              *objectstore.Requests // sent to the bucket; nil for tables in a directory
	ops                   api.ConnectionStats   // of the operators' listener
	disk                  disk
	retention             time.Duration // of the stream
	audit                 auditState
	extents               []stream.Extent // by partition, what the stream holds
	found                 findings        // datasets that need somebody
	last5, last10, last60 counters        // what was added in so many minutes
	labels                map[string]bool // datasets that have series of their own in /metrics
}

// auditState is the audit log as it was last verified.
type auditState struct {
	entries uint64
	seal    string
	problem error
	at      time.Time
	size    uint64 // number of its last entry then
}

// disk is the file system of the data directory.
type disk struct{ free, total int64 }

// startTime is how long a node may take to take events before that is an alarm. Arbitrary.
const startTime = 15 * time.Second

func (s *state) starting() bool { return s.now.Sub(s.started) < startTime }

// counters are the five lake.Totals of this node since it began.
func (s *state) counters() (t lake.Totals) {
	for i := range s.api.Datasets {
		d := &s.api.Datasets[i]
		t.Add(lake.Totals{
			Accepted: int64(d.Accepted), Rejected: int64(d.Rejected), Late: int64(d.Late),
			Restricted: int64(d.Restricted), Suppressed: int64(d.Suppressed),
		})
	}
	return t
}

// table is the lake's table by this name.
func (s *state) table(name string) iceberg.Stats {
	for _, t := range s.lake.Tables {
		if t.Name == name {
			return t
		}
	}
	return iceberg.Stats{Name: name}
}

// quantile is the upper edge of the bucket in which the q-th part of the counts is reached.
func quantile(q float64, counts []uint64, bounds []time.Duration) time.Duration {
	var sum uint64
	for _, n := range counts {
		sum += n
	}
	if sum == 0 {
		return 0
	}
	want, seen := uint64(q*float64(sum)), uint64(0)
	for i, n := range counts {
		if seen += n; seen > want || seen == sum {
			return bounds[min(i, len(bounds)-1)]
		}
	}
	return bounds[len(bounds)-1]
}

// backlog is how long the oldest event that is not in the lake yet has waited.
func (s *state) backlog() (age time.Duration) {
	for i := range s.loader.Partitions {
		age = max(age, s.loader.Partitions[i].Lag)
	}
	for _, n := range s.nodes() {
		for _, l := range n.Loads {
			age = max(age, l.Lag)
		}
	}
	return age
}

// pending are the rows read from the stream and not yet committed.
func (s *state) pending() (n int) {
	for i := range s.loader.Partitions {
		n += s.loader.Partitions[i].Pending
	}
	return n
}

func (s *state) commits() int64 { return s.loader.Commits }

func (s *state) retries() int64 { return s.loader.Retries }

// damaged are the frames and records that the loader could not read, and missing those that were not there.
func (s *state) damaged() int64 { return s.loader.Damaged }
func (s *state) missing() int64 { return s.loader.Missing }

// nodes are those of the cluster that this node hears of, itself among them.
func (s *state) nodes() []cluster.Node {
	if s.cluster == nil {
		return nil
	}
	return s.cluster.Nodes
}

// unloaded counts the partitions with frames that wait and that no node loads.
func (s *state) unloaded() (n int) {
	if s.cluster == nil {
		return 0
	}
	for p := range s.extents {
		if loader, _ := s.cluster.Loader(uint8(p)); loader == nil && s.extents[p].Last > s.cluster.Loaded[uint8(p)] {
			n++
		}
	}
	return n
}
