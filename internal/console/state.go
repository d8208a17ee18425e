package console

import (
	"fmt"
	"time"

	"sluice/internal/api"
	"sluice/internal/cluster"
	"sluice/internal/dataset"
	"sluice/internal/engine"
	"sluice/internal/feed"
	"sluice/internal/hours"
	"sluice/internal/iceberg"
	"sluice/internal/lake"
	"sluice/internal/listen"
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
	backlog               loader.BacklogStats
	cluster               *cluster.View         // nil when this node knows of no other
	copies                cluster.Copies        // of everything in an external engine
	damaged               []string              // files of the tables that somebody could not read
	requests              *objectstore.Requests // sent to the bucket; nil for tables in a directory
	ops                   listen.Stats          // of the operators' listener
	disk                  disk
	retention             time.Duration // of the stream
	audit                 auditState
	extents               []stream.Extent // by partition, what the stream holds
	found                 findings        // datasets that need somebody
	lasting               []episode       // alarms that lasted when this was last written down
	last5, last10, last60 counters        // what was added in so many minutes
	labels                map[string]bool // datasets that have series of their own in /metrics
}

// auditState is the audit log as it was last verified.
type auditState struct {
	entries uint64
	seal    string
	problem error
	at      time.Time
	ends    [2]uint64 // numbers of its oldest and its last entry then
}

// disk is the file system of the data directory.
type disk struct{ free, total int64 }

// startTime is how long a node may take to take events before that is an alarm. Arbitrary.
const startTime = 15 * time.Second

func (s *state) starting() bool { return s.now.Sub(s.started) < startTime }

// counters are the five hours.Totals of this node since it began.
func (s *state) counters() (t hours.Totals) {
	for i := range s.api.Datasets {
		d := &s.api.Datasets[i]
		t.Add(hours.Totals{
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

// pending are the rows read from the stream and not yet committed.
func (s *state) pending() (n int) {
	for i := range s.loader.Partitions {
		n += s.loader.Partitions[i].Pending
	}
	return n
}

func (s *state) commits() int64 { return s.loader.Commits }

func (s *state) failures() int64 { return s.loader.Failures }

// damagedFrames are the frames and records that the loader could not read, and missing those that were not there.
func (s *state) damagedFrames() int64 { return s.loader.Damaged }
func (s *state) missing() int64       { return s.loader.Missing }

// nodes are those of the cluster that this node hears of, itself among them.
func (s *state) nodes() []cluster.Node {
	if s.cluster == nil {
		return nil
	}
	return s.cluster.Nodes
}

// trouble says why nothing is loaded, as the nodes report it; "" if none reports anything.
func (s *state) trouble() string {
	if s.cluster == nil {
		return ""
	}
	n := s.cluster.Troubled()
	if n == nil {
		return ""
	}
	return fmt.Sprintf("Node %s %s has not been able to load since %s: %s.", n.Host, n.API, stamp(n.Trouble.Since), n.Trouble.Error)
}
