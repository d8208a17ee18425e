package engine

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// statusWait bounds the question for one stream. Arbitrary: one without a leader does not answer.
const statusWait = 3 * time.Second

// StreamStatus is the state of one thing that is stored in the engine: a partition, a bucket or the audit log.
type StreamStatus struct {
	Name      string
	Partition int // -1 for all else
	Leader    string
	Replicas  int    // copies that NATS keeps of it
	Wanted    int    // copies it shall have, as the configuration says; never fewer
	InStep    int    // copies that have everything, but for what is on its way
	Behind    []Peer // copies that do not
	Messages  uint64
	Bytes     uint64
	Last      uint64   // number of the newest message
	Drift     []string // settings of a partition or the audit log that somebody changed
	Err       error    // why nothing else is known
}

// Short says whether it has fewer copies in step than it shall have, or nobody knows.
func (st *StreamStatus) Short() bool { return st.Err != nil || st.InStep < st.Wanted }

// Peer is a server with a copy.
type Peer struct {
	Name    string
	Offline bool
	Lag     uint64        // operations that it lacks
	Silent  time.Duration // since it was last heard of
}

// ID names this process in leases and among the nodes. It is new with each start.
func (e *Engine) ID() string { return e.owner }

// Streams returns the state of everything stored, partitions first. One that does not answer has an Err.
func (e *Engine) Streams(ctx context.Context) ([]StreamStatus, error) {
	var names []string
	if r := e.record.Load(); r != nil { // a partition without a leader may not be listed
		for p := range r.Partitions {
			names = append(names, partitionName(uint8(p)))
		}
	}
	listed, err := e.ourStreams(ctx)
	if err != nil {
		return nil, err
	}
	names = append(names, listed...)
	slices.Sort(names)
	names = slices.Compact(names)
	out := make([]StreamStatus, len(names))
	var wg sync.WaitGroup
	for i, name := range names {
		wg.Go(func() { out[i] = e.streamStatus(ctx, name) })
	}
	wg.Wait()
	slices.SortFunc(out, func(a, b StreamStatus) int {
		// The partitions by number, then the rest by name.
		return cmp.Or(cmp.Compare(uint8(a.Partition), uint8(b.Partition)), cmp.Compare(a.Name, b.Name))
	})
	return out, nil
}

func (e *Engine) streamStatus(ctx context.Context, name string) StreamStatus {
	ctx, cancel := context.WithTimeout(ctx, statusWait)
	defer cancel()
	st := StreamStatus{Name: name, Partition: -1}
	for p := range MaxPartitions {
		if name == partitionName(uint8(p)) {
			st.Partition = p
		}
	}
	s, err := e.js.Stream(ctx, name)
	if err != nil {
		st.Err = translate(err)
		return st
	}
	info := s.CachedInfo()
	st.Replicas, st.Messages, st.Bytes = info.Config.Replicas, info.State.Msgs, info.State.Bytes
	st.Last = info.State.LastSeq
	st.Wanted = max(st.Replicas, e.Copies())
	if st.Partition >= 0 {
		st.Drift = e.partitionDrift(uint8(st.Partition), &info.Config)
	}
	for k := range journals {
		if name != journals[k].name {
			continue
		}
		if want, err := e.journalConfig(ctx, JournalKind(k)); err == nil {
			st.Drift = journalDrift(&info.Config, &want)
		}
	}
	if info.Cluster == nil { // a server of its own
		st.InStep = 1
		return st
	}
	if st.Leader = info.Cluster.Leader; st.Leader != "" {
		st.InStep = 1
	}
	for _, p := range info.Cluster.Replicas {
		if inStep(p) {
			st.InStep++
			continue
		}
		st.Behind = append(st.Behind, Peer{Name: p.Name, Offline: p.Offline, Lag: p.Lag, Silent: p.Active})
	}
	return st
}

// partitionDrift names the settings of a partition that somebody changed, its limits among them where a record has
// them.
func (e *Engine) partitionDrift(p uint8, cur *jetstream.StreamConfig) []string {
	var limits PartitionOptions
	if r := e.record.Load(); r != nil {
		limits = r.limits()
	}
	want := e.partitionConfig(p, 1, cur, limits)
	names := drift(cur, &want)
	if cur.MaxAge != want.MaxAge {
		names = append(names, "retention")
	}
	if cur.MaxBytes != want.MaxBytes {
		names = append(names, "size")
	}
	return names
}

// inStep says whether a copy has everything, but for what is on its way to it: under load that is a little most of the
// time. NATS tells of a server what it knew before the server went away: one that was replaced with an empty disk still
// has everything until it is heard of. Nothing is known of one that has never been.
func inStep(p *jetstream.PeerInfo) bool {
	return !p.Offline && p.Active < silentPeer && (p.Current || p.Active > 0 && p.Lag <= lagOnTheWay)
}

const (
	lagOnTheWay = 100             // operations (arbitrary)
	silentPeer  = 3 * time.Second // servers let hear of them each second
)

// Leases returns the leases that somebody has, by name. The value of each is the ID of the engine that has it.
func (e *Engine) Leases(ctx context.Context) ([]Entry, error) {
	b, err := e.leaseBucket(ctx)
	if err != nil {
		return nil, err
	}
	all, _, err := b.All(ctx)
	slices.SortFunc(all, func(a, b Entry) int { return cmp.Compare(a.Key, b.Key) })
	return all, err
}

// Facts are what a client can see of the servers.
type Facts struct {
	Version    string // of the server that this process is connected to
	Cluster    string // its name; empty for a server of its own
	Servers    int    // how many it names, those that this process was told of among them
	MaxPayload int64  // bytes of the largest message
	Used       int64  // bytes that the account has stored
	Limit      int64  // bytes that it may store; 0 is no limit, or one that only the servers know
}

// LeastPayload is what max_payload of the servers must be at least, for the largest request in its frame; the embedded
// engine has it.
const LeastPayload = maxPayload

// Facts asks the server what it is.
func (e *Engine) Facts(ctx context.Context) (Facts, error) {
	used, limit, err := e.Storage(ctx)
	if err != nil {
		return Facts{}, err
	}
	return Facts{
		Version: e.nc.ConnectedServerVersion(), Cluster: e.nc.ConnectedClusterName(), Servers: len(e.nc.Servers()),
		MaxPayload: e.nc.MaxPayload(), Used: used, Limit: limit,
	}, nil
}
