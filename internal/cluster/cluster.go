// Package cluster knows which nodes share an engine, what each of them loads, and how far the tables have come.
//
// Every node writes a heartbeat into the engine and reads those of the others. A node that cannot reach the engine
// keeps what it last read.
package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/arrival"
	"sluice/internal/engine"
)

// every is the time between two heartbeats: a fifth of how long a node counts as running after the last one.
const every = engine.NodeAge / 5

// Node is what a node says about itself.
type Node struct {
	ID       string    `json:"id"` // of its engine; leases name it
	Host     string    `json:"host"`
	Version  string    `json:"version"`
	Started  time.Time `json:"started"`
	API      string    `json:"api"` // address of the senders' API
	Loading  bool      `json:"loading"`
	Draining bool      `json:"draining,omitempty"` // it stops: it takes no requests any more
	Loads    []Load    `json:"loads,omitempty"`    // the partitions that it loads
	Failure  *Failure  `json:"failure,omitempty"`  // why it cannot load; nil is none
	Reads    Formats   `json:"reads"`
	Oldest   int64     `json:"oldest,omitempty"` // no event comes that it received before, Unix seconds by its clock
	Sent     time.Time `json:"sent"`             // when it says all of it, by its clock

	Seen time.Time `json:"-"` // when the engine stored its last heartbeat
}

// apart is by how much the clock of a node may differ from the engine's before that counts. Arbitrary: more than a
// heartbeat takes.
const apart = 10 * time.Second

// align brings the times that a node says about itself to the clock of the engine, which may be hours from the node's.
func (n *Node) align() {
	shift := n.Seen.Sub(n.Sent)
	if shift.Abs() < apart {
		return
	}
	n.Started = n.Started.Add(shift)
	if n.Failure != nil {
		n.Failure.Since = n.Failure.Since.Add(shift)
	}
}

// Formats are the latest versions that a node reads. Who writes a later version first asks View.Reads: a node that
// cannot read it would stop loading.
type Formats struct {
	Frame  int `json:"frame"`
	Record int `json:"record"`
	Table  int `json:"table"`
}

// Load is how far a partition is loaded, as the node says that loads it.
type Load struct {
	Partition uint8  `json:"partition"`
	Watermark uint64 `json:"watermark"` // everything up to here is in the table
}

// Failure is why a node cannot load, and since when.
type Failure struct {
	Since time.Time `json:"since"`
	Error string    `json:"error"`
}

// View is what a node knows of all of them.
type View struct {
	Nodes  []Node           // those that run, by start; the one that asks is among them
	Loaded map[uint8]uint64 // the watermark of each partition, as the node says that loads it, or loaded it last

	members []string // nodes that have joined and have not left, by id: also those that do not answer
}

// Live is how many nodes take requests, at least 1.
func (v *View) Live() int {
	n := 0
	for i := range v.Nodes {
		if !v.Nodes[i].Draining {
			n++
		}
	}
	return max(1, n)
}

// Reads is what every node that runs reads; without a node, everything.
func (v *View) Reads() Formats {
	out := Formats{math.MaxInt, math.MaxInt, math.MaxInt}
	for i := range v.Nodes {
		r := &v.Nodes[i].Reads
		out = Formats{min(out.Frame, r.Frame), min(out.Record, r.Record), min(out.Table, r.Table)}
	}
	return out
}

// Loader returns the node that loads a partition; nil when none does.
func (v *View) Loader(partition uint8) *Node {
	for i := range v.Nodes {
		for _, l := range v.Nodes[i].Loads {
			if l.Partition == partition {
				return &v.Nodes[i]
			}
		}
	}
	return nil
}

// Failed returns the node that cannot load for longest; nil when all can.
func (v *View) Failed() (found *Node) {
	for i := range v.Nodes {
		if n := &v.Nodes[i]; n.Failure != nil && (found == nil || n.Failure.Since.Before(found.Failure.Since)) {
			found = n
		}
	}
	return found
}

// Options say who a member is. Engine, Node and Now are required.
type Options struct {
	Engine *engine.Engine
	Node   Node
	Loads  func() ([]Load, *Failure) // what this node loads now, and why it cannot; nil means nothing
	Oldest func() int64              // see Node.Oldest; nil means that it is not known
	// from now on no event is received before that time, Unix seconds; required with Oldest
	Raise func(int64)
	Now   func() time.Time
	Log   *slog.Logger // nil means nothing is logged
}

// Member is this node among the others.
type Member struct {
	o        Options
	nodes    *engine.Bucket
	ends     *engine.Bucket
	draining atomic.Bool
	view     atomic.Pointer[View]
	copies   atomic.Pointer[Copies]
	beating  sync.Mutex
	failing  bool                      // the last heartbeat did not get through; beating guards it
	joined   atomic.Bool               // the others know this node, and it keeps to what they have promised
	beaten   atomic.Pointer[time.Time] // when the last heartbeat that got through was sent; only differences count
	soon     chan struct{}             // a heartbeat is wanted now
	absent   map[string]time.Time      // since when a member is missed; beating guards it
	absence  time.Duration             // after which it is no longer waited for
	saved    map[uint8]uint64          // what was last saved of Loaded; beating guards it
	uneven   bool                      // servers led unequally many partitions at the last look; only spread touches it
}

// Open makes the member and reads who is there. It writes no heartbeat: Run does.
func Open(ctx context.Context, o Options) (*Member, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.Node.ID = o.Engine.ID()
	m := &Member{
		o: o, saved: map[uint8]uint64{}, absent: map[string]time.Time{}, soon: make(chan struct{}, 1),
		absence: engine.NodeAge + arrival.Doubt,
	}
	m.copies.Store(&Copies{})
	var err error
	if m.nodes, m.ends, err = buckets(ctx, o.Engine); err != nil {
		return nil, err
	}
	view, err := read(ctx, m.nodes, m.ends)
	if err != nil {
		return nil, fmt.Errorf("read the nodes of the cluster: %w", err)
	}
	m.view.Store(view)
	return m, nil
}

func buckets(ctx context.Context, e *engine.Engine) (nodes, ends *engine.Bucket, err error) {
	if nodes, err = e.Bucket(ctx, engine.Nodes); err == nil {
		ends, err = e.Bucket(ctx, engine.StreamEnds)
	}
	return nodes, ends, err
}

// Read returns the view of one that is no node itself.
func Read(ctx context.Context, e *engine.Engine) (*View, error) {
	nodes, ends, err := buckets(ctx, e)
	if err != nil {
		return nil, err
	}
	return read(ctx, nodes, ends)
}

// View is what this node knows of the others. It asks nobody.
func (m *Member) View() *View { return m.view.Load() }

// Run sends heartbeats until ctx ends, then takes this node off the list. Meanwhile it spreads the leaders of
// partitions, and watches the copies.
func (m *Member) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	if m.o.Engine.Mode() == engine.External { // an embedded engine has one of everything
		wg.Go(func() {
			select { // servers that are restarted one after the other should be done first
			case <-ctx.Done():
			case <-time.After(spreadEvery):
				repeat(ctx, spreadEvery, func() { m.spread(ctx) })
			}
		})
		wg.Go(func() { repeat(ctx, watchEvery, func() { m.watch(ctx) }) })
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		m.Beat(ctx)
		select {
		case <-ctx.Done():
			bye, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			m.beating.Lock()
			defer m.beating.Unlock()
			m.saveLoaded(bye)
			if m.o.Oldest != nil && m.o.Oldest() >= m.o.Now().Unix() { // else something may still be stored
				_ = m.ends.Delete(bye, memberKey(m.o.Node.ID), 0)
			}
			_ = m.nodes.Delete(bye, m.o.Node.ID, 0) // else it runs out
			return nil
		case <-tick.C:
		case <-m.soon:
			select { // every request asks for one while none gets through
			case <-ctx.Done():
			case <-time.After(every / 10):
			}
		}
	}
}

// repeat calls do at once and then again and again, until ctx ends.
func repeat(ctx context.Context, every time.Duration, do func()) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		do()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// errUnknown says that the other nodes do not count with this one.
var errUnknown = errors.New("the other nodes do not hear from this one")

// Known says whether the other nodes count with this one: nil, or that they do not. A node that they do not know takes
// no events: they may tell followers of the feed that none comes. It asks nobody.
func (m *Member) Known() error {
	if m.o.Engine.Mode() != engine.External || m.joined.Load() && !m.stale() {
		return nil
	}
	select {
	case m.soon <- struct{}{}:
	default:
	}
	return errUnknown
}

// stale says whether the last heartbeat has run out.
func (m *Member) stale() bool {
	at := m.beaten.Load()
	return at == nil || time.Since(*at) > engine.NodeAge
}

// promiseKey is where Oldest writes down what it says. A node that joins keeps to it, whatever its clock says.
const promiseKey = "received"

// Oldest is a time, in Unix seconds, before which no node received an event that is still to be stored, or will receive
// one: the least that any of them has said. It is not known while a node does not say it, or the engine cannot be
// asked. A node that does not answer is counted as it was while it counts as running. From then on nothing is known,
// until what it had on its way is stored or lost.
func (m *Member) Oldest(ctx context.Context) (int64, bool) {
	oldest, ok := m.least(ctx)
	if !ok || m.promise(ctx, oldest) != nil {
		return 0, false
	}
	now, ok := m.least(ctx) // a node that came before the promise was written has not read it
	return min(oldest, now), ok
}

func (m *Member) least(ctx context.Context) (int64, bool) {
	if !m.joined.Load() {
		return 0, false
	}
	oldest := m.o.Oldest()
	if m.o.Engine.Mode() != engine.External {
		return oldest, true // the only node; what is left of one that was killed says nothing
	}
	all, _, err := m.nodes.All(ctx)
	if err != nil || m.stale() { // who is a member was read with the last heartbeat
		return 0, false
	}
	missed := map[string]bool{}
	for _, id := range m.View().members {
		missed[id] = true
	}
	for _, entry := range all {
		delete(missed, entry.Key)
		if entry.Key == m.o.Node.ID {
			continue
		}
		var n Node
		if err := json.Unmarshal(entry.Value, &n); err != nil || n.Oldest == 0 {
			return 0, false
		}
		oldest = min(oldest, n.Oldest)
	}
	return oldest, len(missed) == 0
}

// promise writes down that no event is received before a time.
func (m *Member) promise(ctx context.Context, at int64) error {
	return m.ends.Change(ctx, promiseKey, func(before []byte) ([]byte, error) {
		last, err := promised(before)
		if err != nil || last >= at {
			return nil, err
		}
		return strconv.AppendInt(nil, at, 10), nil
	})
}

// promised reads the last promise, 0 if there is none.
func promised(value []byte) (int64, error) {
	if value == nil {
		return 0, nil
	}
	return strconv.ParseInt(string(value), 10, 64)
}

// Drain says to the others that this node takes no more requests.
func (m *Member) Drain(ctx context.Context) {
	m.draining.Store(true)
	m.Beat(ctx)
}

// Beat sends one heartbeat now and reads those of the others: call it before this node takes requests, so that the
// others know of it.
func (m *Member) Beat(ctx context.Context) {
	m.beating.Lock()
	defer m.beating.Unlock()
	ctx, cancel := context.WithTimeout(ctx, every)
	defer cancel()
	view, err := m.exchange(ctx)
	if err == nil {
		m.view.Store(view)
	}
	switch {
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
	case err != nil && !m.failing:
		m.o.Log.Warn("the other nodes do not hear from this one", "error", err)
		m.failing = true
	case err == nil && m.failing:
		m.o.Log.Info("the other nodes hear from this one again")
		m.failing = false
	}
}

// put writes this node's heartbeat.
func (m *Member) put(ctx context.Context, n Node) error {
	if m.joined.Load() && m.o.Engine.Mode() == engine.External { // else nobody asks, and it is no promise
		n.Oldest = m.o.Oldest()
	}
	n.Sent = m.o.Now().UTC()
	data, err := json.Marshal(n)
	if err == nil {
		_, err = m.nodes.Put(ctx, n.ID, data)
	}
	return err
}

func (m *Member) exchange(ctx context.Context) (*View, error) {
	n := m.o.Node
	n.Draining = m.draining.Load()
	if m.o.Loads != nil {
		n.Loads, n.Failure = m.o.Loads()
	}
	if m.stale() { // the others may have promised without it
		m.joined.Store(false)
	}
	begun := time.Now()
	if err := m.put(ctx, n); err != nil {
		return nil, err
	}
	m.beaten.Store(&begun)
	if m.o.Oldest != nil && !m.joined.Load() {
		if m.o.Engine.Mode() == engine.External {
			if _, err := m.ends.Put(ctx, memberKey(n.ID), nil); err != nil {
				return nil, err
			}
		}
		last, err := m.ends.Get(ctx, promiseKey)
		if err != nil && !errors.Is(err, engine.ErrNotFound) {
			return nil, err
		}
		at, err := promised(last.Value)
		if err != nil {
			return nil, err
		}
		m.o.Raise(at)
		m.joined.Store(true)
		if ahead := time.Unix(at, 0).Sub(m.o.Now()); ahead > time.Minute {
			m.o.Log.Warn("the clock of this node is behind what followers of the feed were told: until it has caught up, "+
				"events count as received at the time that they were told; set the clock", "behind", ahead.Round(time.Second))
		}
		if err := m.put(ctx, n); err != nil {
			return nil, err
		}
	}
	m.saveLoaded(ctx)
	view, err := read(ctx, m.nodes, m.ends)
	if err == nil {
		m.miss(ctx, view)
	}
	return view, err
}

// miss lets go of members that left without a word so long ago that nothing of theirs is on its way.
func (m *Member) miss(ctx context.Context, v *View) {
	before := m.absent
	m.absent = map[string]time.Time{}
	for _, id := range v.members {
		if slices.ContainsFunc(v.Nodes, func(n Node) bool { return n.ID == id }) {
			continue
		}
		since, missed := before[id]
		if !missed {
			since = time.Now()
		}
		if m.absent[id] = since; time.Since(since) > m.absence {
			_ = m.ends.Delete(ctx, memberKey(id), 0) // else the next time
		}
	}
}

// saveLoaded writes down how far the partitions of this node are loaded: the others read it there when it is gone.
func (m *Member) saveLoaded(ctx context.Context) {
	if m.o.Loads == nil {
		return
	}
	loads, _ := m.o.Loads()
	for _, l := range loads {
		if before, saved := m.saved[l.Partition]; saved && before == l.Watermark {
			continue
		}
		key := loadedPrefix + strconv.Itoa(int(l.Partition))
		if _, err := m.ends.Put(ctx, key, strconv.AppendUint(nil, l.Watermark, 10)); err == nil {
			m.saved[l.Partition] = l.Watermark
		}
	}
}

const (
	loadedPrefix = "loaded." // before the numbers of partitions
	memberPrefix = "node."   // before the ids of nodes that have joined and have not left
)

func memberKey(id string) string { return memberPrefix + id }

// read returns the nodes that run and how far each partition is loaded.
func read(ctx context.Context, nodes, ends *engine.Bucket) (*View, error) {
	all, _, err := nodes.All(ctx)
	if err != nil {
		return nil, err
	}
	v := &View{Loaded: map[uint8]uint64{}}
	for _, entry := range all {
		var n Node
		if err := json.Unmarshal(entry.Value, &n); err != nil {
			continue // a node of a later version, which says it otherwise
		}
		n.Seen = entry.Time
		n.align()
		v.Nodes = append(v.Nodes, n)
	}
	slices.SortFunc(v.Nodes, func(a, b Node) int { return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.ID, b.ID)) })
	if all, _, err = ends.All(ctx); err != nil {
		return nil, err
	}
	for _, entry := range all {
		if id, ok := strings.CutPrefix(entry.Key, memberPrefix); ok {
			v.members = append(v.members, id)
		}
		number, ok := strings.CutPrefix(entry.Key, loadedPrefix)
		p, err1 := strconv.ParseUint(number, 10, 8)
		seq, err2 := strconv.ParseUint(string(entry.Value), 10, 64)
		if ok && err1 == nil && err2 == nil {
			v.Loaded[uint8(p)] = seq
		}
	}
	// Who loads a partition knows its watermark better than what was written down: a table may have been rolled back.
	held := map[uint8]uint64{}
	for i := range v.Nodes {
		for _, l := range v.Nodes[i].Loads {
			held[l.Partition] = max(held[l.Partition], l.Watermark)
		}
	}
	maps.Copy(v.Loaded, held)
	return v, nil
}
