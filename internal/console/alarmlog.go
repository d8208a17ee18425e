package console

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/engine"
)

// historyMax is how many alarms are remembered.
const historyMax = 1000

// episode is an alarm from its beginning to its end, as it is in the engine.
type episode struct {
	ID       string    `json:"id"`
	Alarm    string    `json:"alarm"`
	Severity string    `json:"severity"`
	Dataset  string    `json:"dataset,omitempty"`
	Node     string    `json:"node,omitempty"` // whose alarm it is in a cluster; empty for those of all nodes
	Since    time.Time `json:"since"`
	Until    time.Time `json:"until,omitzero"` // zero while it lasts
	Summary  string    `json:"summary"`
	Do       string    `json:"do"`
	Path     string    `json:"path,omitempty"`
	Told     string    `json:"told,omitempty"` // what the webhook was told last: stateFiring or stateResolved
}

// The states of an alarm as the webhook is told.
const (
	stateFiring   = "firing"
	stateResolved = "resolved"
)

// kept is an episode and what the engine has of it.
type kept struct {
	episode
	revision uint64 // in the engine; 0 while it is not there
	dirty    bool   // the engine has an older one
}

// alarmLog remembers when alarms began and ended, over restarts and on all nodes, and says so in the log, once each. The
// episodes are in memory; keep writes them into the engine. The zero value remembers nothing.
type alarmLog struct {
	mu       sync.Mutex
	bucket   *engine.Bucket // nil before open
	all      map[string]*kept
	gone     []*kept // to be deleted
	revision uint64  // of the bucket when it was last read
}

// open reads what was remembered.
func (h *alarmLog) open(ctx context.Context, e *engine.Engine) error {
	b, err := e.Bucket(ctx, engine.Alarms)
	if err != nil {
		return err
	}
	h.mu.Lock()
	h.bucket = b
	h.mu.Unlock()
	return h.read(ctx)
}

// read takes over what other nodes have written. What this node has not written yet stays.
func (h *alarmLog) read(ctx context.Context) error {
	last, err := h.bucket.Revision(ctx)
	if err != nil || last == h.revision {
		return err
	}
	entries, revision, err := h.bucket.All(ctx)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	there := map[string]bool{}
	for _, entry := range entries {
		k := &kept{revision: entry.Revision}
		if json.Unmarshal(entry.Value, &k.episode) != nil || k.ID != entry.Key {
			continue // of another version
		}
		there[k.ID] = true
		if own := h.all[k.ID]; own != nil && own.dirty {
			own.revision = entry.Revision
			continue
		}
		h.put(k)
	}
	for id, k := range h.all {
		if !there[id] && !k.dirty {
			delete(h.all, id)
		}
	}
	h.revision = revision
	return nil
}

func (h *alarmLog) put(k *kept) {
	if h.all == nil {
		h.all = map[string]*kept{}
	}
	h.all[k.ID] = k
}

// look compares the alarms that are on with those that were. mine says which episodes this node decides about, and owner
// whose an alarm is.
func (h *alarmLog) look(now time.Time, on []raised, mine func(*episode) bool, owner func(*raised) string, log *slog.Logger) {
	h.mu.Lock()
	defer h.mu.Unlock()
	type key struct{ alarm, dataset, node string }
	open := map[key]*kept{}
	for _, k := range h.all {
		if k.Until.IsZero() && mine(&k.episode) {
			open[key{k.Alarm, k.Dataset, k.Node}] = k
		}
	}
	for i := range on {
		a := &on[i]
		at := key{a.Name, a.Subject, owner(a)}
		if k := open[at]; k != nil {
			k.Summary = a.Say // written with the end: not every second
			delete(open, at)
			continue
		}
		e := episode{
			ID: strings.ToLower(rand.Text()), Alarm: a.Name, Severity: a.Level, Dataset: a.Subject, Node: at.node,
			Since: now.UTC().Truncate(time.Second), Summary: a.Say, Do: a.Do, Path: a.Path,
		}
		log.Warn("alarm", "alarm", a.Name, "severity", a.Level, "says", a.Say)
		h.put(&kept{episode: e, dirty: true})
	}
	for _, k := range open {
		k.Until, k.dirty = now.UTC().Truncate(time.Second), true
		log.Info("alarm is over", "alarm", k.Alarm, "lasted", now.Sub(k.Since).Round(time.Second))
	}
	h.forget()
}

// forget drops the oldest episodes that have ended. The lock is held.
func (h *alarmLog) forget() {
	for _, k := range h.sorted() {
		if len(h.all) <= historyMax {
			return
		}
		if !k.Until.IsZero() {
			delete(h.all, k.ID)
			h.gone = append(h.gone, k)
		}
	}
}

// sorted are all, oldest first. The lock is held.
func (h *alarmLog) sorted() []*kept {
	out := make([]*kept, 0, len(h.all))
	for _, k := range h.all {
		out = append(out, k)
	}
	slices.SortFunc(out, func(a, b *kept) int { return cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.ID, b.ID)) })
	return out
}

// write brings the engine up to what is remembered. What it does not take is written the next time.
func (h *alarmLog) write(ctx context.Context) error {
	h.mu.Lock()
	var due []kept
	for _, k := range h.sorted() {
		if k.dirty {
			due = append(due, *k)
		}
	}
	gone := h.gone
	h.gone = nil
	h.mu.Unlock()
	for i, k := range gone {
		if err := h.bucket.Delete(ctx, k.ID, 0); err != nil {
			h.mu.Lock()
			h.gone = append(gone[i:], h.gone...)
			h.mu.Unlock()
			return err
		}
	}
	for i := range due {
		if err := h.writeOne(ctx, &due[i]); err != nil {
			return err
		}
	}
	return nil
}

func (h *alarmLog) writeOne(ctx context.Context, k *kept) error {
	b, err := json.Marshal(k.episode)
	if err != nil {
		return err
	}
	var revision uint64
	if k.revision == 0 {
		revision, err = h.bucket.Create(ctx, k.ID, b)
	} else {
		revision, err = h.bucket.Update(ctx, k.ID, b, k.revision)
	}
	if errors.Is(err, engine.ErrRevision) || errors.Is(err, engine.ErrExists) { // an earlier try had arrived, or another node was first
		now, gerr := h.bucket.Get(ctx, k.ID)
		if gerr != nil {
			return gerr
		}
		revision, err = h.bucket.Update(ctx, k.ID, b, now.Revision)
	}
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if own := h.all[k.ID]; own != nil {
		own.revision = revision
		own.dirty = own.episode != k.episode && (own.Until != k.Until || own.Told != k.Told)
	}
	return nil
}

// tell notes what the webhook was told.
func (h *alarmLog) tell(id, state string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if k := h.all[id]; k != nil {
		k.Told, k.dirty = state, true
	}
}

// recent are the alarms, newest first.
func (h *alarmLog) recent() []episode {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []episode
	for _, k := range h.sorted() {
		out = append(out, k.episode)
	}
	slices.Reverse(out)
	return out
}

// lasting are those that have not ended, oldest first.
func (h *alarmLog) lasting() []episode {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []episode
	for _, k := range h.sorted() {
		if k.Until.IsZero() {
			out = append(out, k.episode)
		}
	}
	return out
}

// How often the engine is asked for what other nodes wrote, how long one try to write may take, and how long a node waits
// before it tries again to be the one that tells. Arbitrary.
const (
	alarmsRead  = 5 * time.Second
	alarmsWrite = 2 * time.Second
	alarmsTake  = 3 * time.Second
)

// OpenAlarms reads the alarms that lasted when the service was stopped. Call it before the first request.
func (c *Console) OpenAlarms(ctx context.Context) error { return c.history.open(ctx, c.s.Engine) }

// nodeName is this node in the alarms of a cluster; empty where there is one machine.
func (c *Console) nodeName() string {
	if c.s.Engine.Mode() != engine.External || c.s.Cluster == nil {
		return ""
	}
	view := c.s.Cluster()
	if view == nil {
		return ""
	}
	for i := range view.Nodes {
		if n := &view.Nodes[i]; n.ID == c.s.Engine.ID() {
			return n.Host + " " + n.API
		}
	}
	return ""
}

// ofCluster says whether all nodes see an alarm alike: then one of them writes it down.
func ofCluster(alarm string) bool {
	switch alarm {
	case requestsFailing, "SluiceDiskFull", "SluiceDiskLow", "SluiceNotReady", "SluiceEngineUnhealthy", "SluiceServerErrors", "SluiceSlowSync", "SluiceMemoryShed",
		"SluiceRegistryStale", "SluiceRejectionsLost", "SluiceDamagedFrames", "SluiceSequenceGap", "SluiceLoadStopped":
		return false
	}
	return true
}

// keepAlarms writes alarms down and tells the webhook, until ctx ends. In a cluster one node does that for the alarms of all;
// each node writes its own.
func (c *Console) keepAlarms(ctx context.Context) {
	var holds atomic.Bool
	var work sync.WaitGroup
	defer work.Wait()
	if c.s.Engine.Mode() != engine.External {
		holds.Store(true)
	} else {
		work.Go(func() { c.holdAlarms(ctx, &holds) })
	}
	if c.o.Webhook != "" {
		work.Go(func() { c.tellWebhook(ctx, &holds) })
	}
	tick := time.NewTicker(everySecond)
	defer tick.Stop()
	failed := false
	for n := 1; ; n++ {
		err := c.noteAlarms(ctx, holds.Load(), n%int(alarmsRead/everySecond) == 0)
		if err != nil && !failed && ctx.Err() == nil {
			c.log.Warn("alarms are not written down", "error", err)
		}
		failed = err != nil
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// noteAlarms looks once.
func (c *Console) noteAlarms(ctx context.Context, holds, read bool) error {
	if c.history.bucket == nil {
		return nil // a test without them
	}
	s := c.look()
	node := c.nodeName()
	external := c.s.Engine.Mode() == engine.External
	if external && node == "" {
		return nil // not known yet
	}
	live := map[string]bool{"": true, node: true}
	for _, n := range s.nodes() {
		live[n.Host+" "+n.API] = true
	}
	owner := func(a *raised) string {
		if !external || ofCluster(a.Name) {
			return ""
		}
		return node
	}
	mine := func(e *episode) bool { return e.Node == node && node != "" || holds && (e.Node == "" || !live[e.Node]) }
	on := slices.DeleteFunc(s.alarms(), func(a raised) bool { return owner(&a) == "" && !holds })
	c.history.look(s.now, on, mine, owner, c.log)
	ctx, cancel := context.WithTimeout(ctx, alarmsWrite)
	defer cancel()
	if err := c.history.write(ctx); err != nil {
		return err
	}
	if !external || !read {
		return nil
	}
	return c.history.read(ctx)
}

// holdAlarms keeps the lease of the alarms of all nodes while it can get it.
func (c *Console) holdAlarms(ctx context.Context, holds *atomic.Bool) {
	for ctx.Err() == nil {
		_ = c.s.Engine.WithLease(ctx, "alarms", func(ctx context.Context) error {
			holds.Store(true)
			defer holds.Store(false)
			<-ctx.Done()
			return nil
		})
		select {
		case <-ctx.Done():
		case <-time.After(alarmsTake):
		}
	}
}
