package alarm

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/cluster"
	"sluice/internal/engine"
	"sluice/internal/hours"
)

// Options say where alarms are written down and who is told.
type Options struct {
	Engine  *engine.Engine
	Hours   *hours.Index         // somebody else runs it
	Cluster func() *cluster.View // the nodes; nil when nobody knows
	URL     string               // of the console
	Webhook string               // the address that is told of alarms; "" for none
	Now     func() time.Time
	Log     *slog.Logger
}

// Watch knows which alarms are on and which were.
type Watch struct {
	o            Options
	history      history
	rates        rates
	found        atomic.Pointer[findings]
	hookFailures atomic.Uint64 // tries to tell the webhook that failed
}

// NewWatch makes a watch that knows nothing before Open.
func NewWatch(o Options) *Watch { return &Watch{o: o} }

// Open reads the alarms that lasted when the service was stopped. Call it before the first request.
func (w *Watch) Open(ctx context.Context) error { return w.history.open(ctx, w.o.Engine) }

// Complete adds to a state what the watch remembers.
func (w *Watch) Complete(s *State) {
	s.last5, s.last10, s.last60 = w.rates.since(s, 5), w.rates.since(s, 10), w.rates.since(s, 60)
	s.lasting = slices.DeleteFunc(w.history.episodes(), func(e Episode) bool { return !e.Until.IsZero() })
	if f := w.found.Load(); f != nil {
		s.found = *f
	}
}

// Count remembers the counters of a state, so that alarms can be about the last minutes. Call it every second.
func (w *Watch) Count(s *State) { w.rates.look(s) }

// Searched says whether Search has looked through the datasets.
func (w *Watch) Searched() bool { return w.found.Load() != nil }

// Search looks for datasets that need somebody, once the hourly numbers are complete: before, every dataset would look
// silent.
func (w *Watch) Search(s *State) {
	if !w.o.Hours.Complete() {
		return
	}
	if !s.found.known { // what the node knew before it was restarted
		s.found.failingSince = map[string]time.Time{}
		for _, e := range s.lasting {
			if e.Alarm == requestsFailing && e.Node == w.nodeName() {
				s.found.failingSince[e.Dataset] = e.Since
			}
		}
	}
	view := w.o.Hours.View()
	defer view.Close()
	w.found.Store(findDatasets(view, s))
}

// Recent are the alarms that are remembered, newest first.
func (w *Watch) Recent() []Episode {
	all := w.history.episodes()
	slices.Reverse(all)
	return all
}

// WebhookFailures are the tries of this node to tell the webhook that failed.
func (w *Watch) WebhookFailures() uint64 { return w.hookFailures.Load() }

// How often alarms are looked at, how often the engine is asked for what other nodes wrote, how long one try to write
// may take, and how long a node waits before it tries again to be the one that tells. Arbitrary.
const (
	everySecond = time.Second
	alarmsRead  = 5 * time.Second
	alarmsWrite = 2 * time.Second
	alarmsTake  = 3 * time.Second
)

// nodeName is this node in the alarms of a cluster; empty where there is one machine.
func (w *Watch) nodeName() string {
	view := w.o.Cluster()
	if w.o.Engine.Mode() != engine.External || view == nil {
		return ""
	}
	for i := range view.Nodes {
		if n := &view.Nodes[i]; n.ID == w.o.Engine.ID() {
			return n.Host + " " + n.API
		}
	}
	return ""
}

// ofCluster says whether all nodes see an alarm alike: then one of them writes it down.
func ofCluster(alarm string) bool {
	switch alarm {
	case requestsFailing, "SluiceDiskFull", "SluiceDiskLow", "SluiceNotReady", "SluiceEngineUnhealthy",
		"SluiceServerErrors", "SluiceSlowSync", "SluiceMemoryShed",
		"SluiceRegistryStale", "SluiceRejectionsLost", "SluiceDamagedFrames", "SluiceSequenceGap", "SluiceLoadStopped":
		return false
	}
	return true
}

// Run writes alarms down and tells the webhook, until ctx ends. In a cluster one node does that for the alarms of all;
// each node writes its own. look gives a completed state.
func (w *Watch) Run(ctx context.Context, look func() *State) {
	var holds atomic.Bool
	var work sync.WaitGroup
	if w.o.Engine.Mode() != engine.External {
		holds.Store(true)
	} else {
		work.Go(func() { w.hold(ctx, &holds) })
	}
	if w.o.Webhook != "" {
		work.Go(func() { w.tellWebhook(ctx, &holds) })
	}
	tick := time.NewTicker(everySecond)
	defer tick.Stop()
	failed := false
	for n := 1; ; n++ {
		err := w.note(ctx, look(), holds.Load(), n%int(alarmsRead/everySecond) == 0)
		if err != nil && !failed && ctx.Err() == nil {
			w.o.Log.Warn("alarms are not written down", "error", err)
		}
		failed = err != nil
		select {
		case <-ctx.Done():
			work.Wait()
			if err := w.write(context.WithoutCancel(ctx)); err != nil {
				w.o.Log.Warn("the last alarms are not written down", "error", err)
			}
			return
		case <-tick.C:
		}
	}
}

// write writes down what nobody has yet.
func (w *Watch) write(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, alarmsWrite)
	defer cancel()
	return w.history.write(ctx)
}

// note looks once.
func (w *Watch) note(ctx context.Context, s *State, holds, read bool) error {
	node := w.nodeName()
	external := w.o.Engine.Mode() == engine.External
	if external && node == "" {
		return nil // not known yet
	}
	live := map[string]bool{"": true, node: true}
	for _, n := range s.Nodes() {
		live[n.Host+" "+n.API] = true
	}
	owner := func(a *Raised) string {
		if !external || ofCluster(a.Name) {
			return ""
		}
		return node
	}
	mine := func(e *Episode) bool { return e.Node == node && node != "" || holds && (e.Node == "" || !live[e.Node]) }
	on := slices.DeleteFunc(s.Raised(), func(a Raised) bool { return owner(&a) == "" && !holds })
	w.history.look(s.Now, on, mine, owner, w.o.Log)
	if err := w.write(ctx); err != nil {
		return err
	}
	if !external || !read {
		return nil
	}
	return w.history.read(ctx)
}

// hold keeps the lease of the alarms of all nodes while it can get it.
func (w *Watch) hold(ctx context.Context, holds *atomic.Bool) {
	for ctx.Err() == nil {
		_ = w.o.Engine.WithLease(ctx, "alarms", func(ctx context.Context) error {
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
