// Package clusterstatus says how the nodes and NATS servers of a cluster do, and whether the servers have what
// durability needs.
package clusterstatus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"sluice/internal/cluster"
	"sluice/internal/engine"
	"sluice/internal/loader"
	"sluice/internal/stream"
)

// Status is what the nodes of a cluster share, and how it does.
type Status struct {
	Engine     string      `json:"engine"`
	Record     *Record     `json:"configuration,omitempty"` // none for an embedded engine
	Streams    []Stream    `json:"streams"`
	Partitions []Partition `json:"partitions"`
	Leases     []Lease     `json:"leases"`
	Nodes      []Node      `json:"nodes"`
	Problems   []string    `json:"problems"`
}

// Record is the configuration that the nodes agree on.
type Record struct {
	Cluster         string `json:"cluster"`
	Stream          string `json:"stream"`
	Replicas        int    `json:"replicas"`
	Partitions      int    `json:"partitions"`
	StreamRetention string `json:"stream_retention"`
	MaxStream       int64  `json:"max_stream"` // -1 is no limit
	MaxKeys         int    `json:"max_idempotency_keys"`
	Lake            string `json:"lake"`
	LakeID          string `json:"lake_id"`
	TableRetention  string `json:"table_retention"`
	Snapshots       string `json:"snapshot_retention"`
}

// Stream is a stream or bucket of the engine.
type Stream struct {
	Name     string   `json:"name"`
	Leader   string   `json:"leader"`
	Replicas int      `json:"replicas"`
	InStep   int      `json:"replicas_in_step"`
	Behind   []string `json:"behind,omitempty"`
	Messages uint64   `json:"messages"`
	Bytes    uint64   `json:"bytes"`
	Drift    []string `json:"changed_settings,omitempty"`
	Error    string   `json:"error,omitempty"`
}

// Partition says how far a partition is loaded.
type Partition struct {
	Partition int    `json:"partition"`
	Last      uint64 `json:"last"`
	Watermark uint64 `json:"watermark"`
	// for how long the first event behind the watermark has waited; 0 when none does
	LagSeconds float64 `json:"lag_seconds"`
	// false: the engine does not answer, or no node has read the watermark; more may wait
	LagKnown bool   `json:"lag_known"`
	Loader   string `json:"loader"` // the node that loads it
}

// Lease is a right that one node has.
type Lease struct {
	Name    string    `json:"name"`
	Node    string    `json:"node"`
	NodeID  string    `json:"node_id"` // hosts may have the same name
	Renewed time.Time `json:"renewed"`
}

// Node is a node that has stored a heartbeat.
type Node struct {
	ID        string    `json:"id"`
	Host      string    `json:"host"`
	Version   string    `json:"version"`
	API       string    `json:"api"`
	Started   time.Time `json:"started"`
	Heartbeat time.Time `json:"heartbeat"`
	Loading   bool      `json:"loading"`
	Draining  bool      `json:"draining"`
	Failure   string    `json:"failure,omitempty"` // why it cannot load, and since when
}

// Read asks the engine for all of it.
func Read(ctx context.Context, e *engine.Engine) (*Status, error) {
	st := &Status{
		Engine: e.Mode().String(), Problems: []string{}, Partitions: []Partition{}, Leases: []Lease{},
		Nodes: []Node{},
	}
	r, err := e.Record(ctx)
	if err == nil {
		st.Record = &Record{
			r.Cluster, r.Stream, r.Replicas, r.Partitions, r.StreamRetention.String(), r.MaxStream, r.MaxKeys, r.Lake, r.LakeID,
			engine.AgeText(r.TableRetention), engine.AgeText(r.SnapshotRetention),
		}
	} else if !errors.Is(err, engine.ErrNotFound) {
		return nil, err
	}
	streams, err := e.Streams(ctx)
	if err != nil {
		return nil, err
	}
	if st.Record == nil && len(streams) == 0 && e.Mode() == engine.External { // to open a bucket would make it
		st.problem("these NATS servers hold nothing of Sluice's: no node was started with them yet, or they lost their disks")
		return st, nil
	}
	view, err := cluster.Read(ctx, e)
	if err != nil {
		return nil, err
	}
	leases, err := e.Leases(ctx)
	if err != nil {
		return nil, err
	}
	damaged, err := cluster.DamagedFiles(ctx, e)
	if err != nil {
		return nil, err
	}
	for _, file := range damaged {
		st.problem("%s is missing or damaged: see sluice lake reload", file)
	}
	st.addStreams(streams)
	st.addPartitions(ctx, e, streams, view)
	hosts := map[string]string{}
	versions := map[string]bool{}
	for _, n := range view.Nodes {
		hosts[n.ID] = n.Host
		versions[n.Version] = true
		out := Node{
			ID: n.ID, Host: n.Host, Version: n.Version, API: n.API, Started: n.Started, Heartbeat: n.Seen,
			Loading: n.Loading, Draining: n.Draining,
		}
		if t := n.Failure; t != nil {
			out.Failure = fmt.Sprintf("cannot load since %s: %s", t.Since.Format(time.TimeOnly), t.Error)
			if n.Seen.Sub(t.Since) > failureAfter {
				st.problem("%s %s %s", n.Host, n.API, out.Failure)
			}
		}
		st.Nodes = append(st.Nodes, out)
	}
	for _, l := range leases {
		owner := string(l.Value)
		st.Leases = append(st.Leases, Lease{l.Key, cmp.Or(hosts[owner], "unknown "+owner), owner, l.Time})
	}
	if len(versions) > 1 {
		st.problem("the nodes run %d versions", len(versions))
	}
	if len(st.Nodes) == 0 && e.Mode() != engine.Embedded {
		st.problem("no node has stored a heartbeat for %v: none runs, or none can write to NATS", engine.NodeAge)
	}
	if used, limit, err := e.Storage(ctx); err == nil && limit > 0 &&
		used > limit-stream.Headroom(limit)-stream.Margin(max(1, e.Copies()), max(1, len(st.Nodes)),
			len(st.Partitions)) {
		st.problem("the NATS account has nearly reached its storage limit, %d of %d bytes: nodes reject events, and may not "+
			"be able to write heartbeats", used, limit)
	}
	return st, nil
}

func (st *Status) problem(format string, args ...any) {
	st.Problems = append(st.Problems, fmt.Sprintf(format, args...))
}

func (st *Status) addStreams(streams []engine.StreamStatus) {
	for _, s := range streams {
		out := Stream{
			Name: s.Name, Leader: s.Leader, Replicas: s.Replicas, InStep: s.InStep, Messages: s.Messages,
			Bytes: s.Bytes, Drift: s.Drift,
		}
		for _, p := range s.Behind {
			state := fmt.Sprintf("%d behind", p.Lag)
			if p.Offline {
				state = "offline"
			}
			out.Behind = append(out.Behind, fmt.Sprintf("%s (%s, silent for %v)", p.Name, state,
				p.Silent.Round(time.Millisecond)))
		}
		switch {
		case s.Err != nil:
			out.Error = s.Err.Error()
			st.problem("%s does not answer: %v", s.Name, s.Err)
		case s.InStep < s.Replicas:
			st.problem("%s has %d of %d replicas in step", s.Name, s.InStep, s.Replicas)
		}
		if s.Replicas < s.Wanted {
			st.problem("%s has %d replicas, the cluster's configuration says %d", s.Name, s.Replicas, s.Wanted)
		}
		if len(s.Drift) > 0 {
			st.problem("settings of %s were changed: %s; the next start of a node puts them right", s.Name,
				strings.Join(s.Drift, ", "))
		}
		st.Streams = append(st.Streams, out)
	}
}

// failureAfter is for how long a node may fail to load before that is a problem: a request that is repeated is none.
// Arbitrary.
const failureAfter = 10 * time.Second

// addPartitions says what waits behind the watermarks.
func (st *Status) addPartitions(ctx context.Context, e *engine.Engine, streams []engine.StreamStatus,
	view *cluster.View,
) {
	count := 0
	for _, s := range streams {
		count = max(count, s.Partition+1)
	}
	backlog := loader.NewBacklog(loader.BacklogOptions{
		Engine: e, Partitions: func() int { return count },
		Watermark: func(p uint8) (uint64, bool) { seq, known := view.Loaded[p]; return seq, known },
	})
	backlog.Look(ctx)
	waiting := backlog.Stats()
	for _, s := range streams {
		if s.Partition >= 0 {
			st.addPartition(s, waiting[s.Partition], view)
		}
	}
}

func (st *Status) addPartition(s engine.StreamStatus, b loader.PartitionBacklog, view *cluster.View) {
	out := Partition{
		Partition: s.Partition, Last: s.Last, Watermark: b.Watermark, LagSeconds: b.Age.Seconds(),
		LagKnown: !b.Silent && (b.Known || b.First == 0),
	}
	n := view.Loader(uint8(s.Partition))
	if n != nil {
		out.Loader = n.Host
	}
	st.Partitions = append(st.Partitions, out)
	age := b.Age.Round(time.Second)
	switch {
	case s.Err == nil && b.Silent:
		st.problem("partition %d does not say what waits in it", s.Partition)
	case b.First == 0 || b.Age < loader.UnloadedAfter || starting(view):
	case n == nil:
		st.problem("no node loads partition %d: its first event that is not in the tables has waited for %v", s.Partition,
			age)
	default:
		st.problem("the first event of partition %d that is not in the tables has waited for %v", s.Partition, age)
	}
}

// starting says whether the nodes that load have all just been started: they need a moment.
func starting(view *cluster.View) bool {
	loads := false
	for _, n := range view.Nodes {
		if n.Loading && n.Seen.Sub(n.Started) > loader.UnloadedAfter {
			return false
		}
		loads = loads || n.Loading
	}
	return loads
}
