package cluster

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"sluice/internal/arrival"
	"sluice/internal/engine"
	"sluice/internal/enginetest"
)

func TestMain(m *testing.M) { os.Exit(enginetest.Main(m)) }

type node struct {
	*Member
	stop func()
}

func start(t *testing.T, url, host string, loads func() ([]Load, *Failure)) node {
	t.Helper()
	e, err := engine.Open(t.Context(), engine.Options{URL: url, Token: enginetest.Token})
	if err != nil {
		t.Fatal(err)
	}
	m, err := Open(t.Context(), Options{Engine: e, Now: time.Now, Loads: loads, Node: Node{Host: host, Version: "v", Started: time.Now()}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = m.Run(ctx)
	}()
	stop := func() { cancel(); <-done; e.Close() }
	t.Cleanup(stop)
	return node{m, stop}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("no %s after 20 s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// Nodes see each other come, drain and go. How far a partition is loaded stays known when its loader is gone.
func TestNodesSeeEachOther(t *testing.T) {
	srv := enginetest.Start(t, "")
	a := start(t, srv.URL(), "a", func() ([]Load, *Failure) {
		return []Load{{Partition: 2, Watermark: 17}}, &Failure{Since: time.Unix(7, 0).UTC(), Error: "no answer"}
	})
	b := start(t, srv.URL(), "b", nil)
	eventually(t, "view of both", func() bool { return b.View().Live() == 2 && a.View().Live() == 2 })
	if n := b.View().Loader(2); n == nil || n.Host != "a" || b.View().Loaded[2] != 17 {
		t.Errorf("loader of partition 2: got %+v, %v, want a at 17", n, b.View().Loaded)
	}
	if n := b.View().Failed(); n == nil || n.Host != "a" || *n.Failure != (Failure{time.Unix(7, 0).UTC(), "no answer"}) {
		t.Errorf("got %+v, want the failure of a", n)
	}
	if n := b.View().Loader(0); n != nil {
		t.Errorf("loader of partition 0: got %+v, want none", n)
	}
	a.Drain(t.Context())
	eventually(t, "drained node", func() bool { return b.View().Live() == 1 && len(b.View().Nodes) == 2 })
	a.stop()
	eventually(t, "end of a node", func() bool { return len(b.View().Nodes) == 1 })
	if n := b.View().Loader(2); n != nil || b.View().Loaded[2] != 17 {
		t.Errorf("after its end: got loader %+v and watermark %d, want none and 17", n, b.View().Loaded[2])
	}
}

// What a node says about itself is dated by the engine: its own clock may be hours ahead or behind.
func TestTimesAreTheEngines(t *testing.T) {
	srv := enginetest.Start(t, "")
	for _, wrong := range []time.Duration{6 * time.Hour, -6 * time.Hour, 0} {
		e, err := engine.Open(t.Context(), engine.Options{URL: srv.URL(), Token: enginetest.Token})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		clock := func() time.Time { return time.Now().Add(wrong) }
		m, err := Open(t.Context(), Options{
			Engine: e, Now: clock, Node: Node{Host: "a", Started: clock().Add(-time.Hour)},
			Loads: func() ([]Load, *Failure) { return nil, &Failure{Since: clock().Add(-time.Minute), Error: "no answer"} },
		})
		if err != nil {
			t.Fatal(err)
		}
		m.Beat(t.Context())
		view, err := Read(t.Context(), e)
		if err != nil || len(view.Nodes) == 0 {
			t.Fatalf("got %+v, %v", view, err)
		}
		for _, n := range view.Nodes {
			if up := time.Since(n.Started); (up - time.Hour).Abs() > apart {
				t.Errorf("clock wrong by %v: got a node that runs for %v, want an hour", wrong, up)
			}
			if lasts := n.Seen.Sub(n.Failure.Since); (lasts - time.Minute).Abs() > apart {
				t.Errorf("clock wrong by %v: got a failure for %v, want a minute", wrong, lasts)
			}
		}
	}
}

// join makes a node with a clock that stands still.
func join(t *testing.T, srv *enginetest.Server, host string, clock int64) (*Member, *arrival.Desk) {
	t.Helper()
	e, err := engine.Open(t.Context(), engine.Options{URL: srv.URL(), Token: enginetest.Token})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	desk := &arrival.Desk{}
	now := func() time.Time { return time.Unix(clock, 0) }
	m, err := Open(t.Context(), Options{
		Engine: e, Now: now, Node: Node{Host: host}, Oldest: func() int64 { return desk.Oldest(now) }, Raise: desk.Raise,
	})
	if err != nil {
		t.Fatal(err)
	}
	return m, desk
}

// What followers were told holds for a node that joins with a clock behind it, and for one that is restarted.
func TestPromiseOutlivesClocks(t *testing.T) {
	srv := enginetest.Start(t, "")
	a, _ := join(t, srv, "a", 10_000)
	if at, ok := a.Oldest(t.Context()); ok {
		t.Errorf("got %d from a node that nobody knows, want nothing", at)
	}
	a.Beat(t.Context())
	if at, ok := a.Oldest(t.Context()); !ok || at != 10_000 {
		t.Errorf("got %d, %v, want 10000", at, ok)
	}
	b, desk := join(t, srv, "b", 3_000)
	b.Beat(t.Context())
	if at := desk.Enter(func() time.Time { return time.Unix(3_000, 0) }); at.Unix() != 10_000 {
		t.Errorf("the clock of b says 3000: got an event received at %d, want 10000", at.Unix())
	}
	for name, m := range map[string]*Member{"a": a, "b": b} {
		if at, ok := m.Oldest(t.Context()); !ok || at != 10_000 {
			t.Errorf("%s: got %d, %v, want 10000", name, at, ok)
		}
	}
}

// A node that is cut off may have events on their way, and takes new ones when it comes back. Followers are told nothing until the
// first are stored or lost, and it takes none before it knows what they were told meanwhile.
func TestPromiseOutlivesCuts(t *testing.T) {
	srv := enginetest.Start(t, "")
	a, _ := join(t, srv, "a", 10_000)
	b, desk := join(t, srv, "b", 3_000)
	if b.Known() == nil {
		t.Error("got a node that takes events before the others know it")
	}
	a.Beat(t.Context())
	b.Beat(t.Context())
	a.Beat(t.Context())
	if at, ok := a.Oldest(t.Context()); !ok || at != 3_000 || b.Known() != nil {
		t.Errorf("got %d, %v, %v, want 3000", at, ok, b.Known())
	}
	if err := a.nodes.Delete(t.Context(), b.o.Node.ID, 0); err != nil { // as if it had run out
		t.Fatal(err)
	}
	long := time.Now().Add(-time.Minute)
	b.beaten.Store(&long)
	for range 2 {
		a.Beat(t.Context())
		if at, ok := a.Oldest(t.Context()); ok {
			t.Errorf("got %d while events of b may be on their way, want nothing", at)
		}
	}
	if b.Known() == nil {
		t.Error("got a node that is cut off and takes events")
	}
	a.absence = 0
	a.Beat(t.Context())
	a.Beat(t.Context())
	if at, ok := a.Oldest(t.Context()); !ok || at != 10_000 {
		t.Errorf("got %d, %v without b, want 10000", at, ok)
	}
	b.Beat(t.Context())
	if at := desk.Enter(func() time.Time { return time.Unix(3_000, 0) }); at.Unix() != 10_000 || b.Known() != nil {
		t.Errorf("got an event received at %d, %v, want 10000", at.Unix(), b.Known())
	}
	a.Beat(t.Context())
	if at, ok := a.Oldest(t.Context()); !ok || at != 10_000 {
		t.Errorf("got %d, %v with b again, want 10000", at, ok)
	}
}

// What all nodes read is what the oldest of them reads.
func TestReads(t *testing.T) {
	v := View{Nodes: []Node{{Reads: Formats{2, 1, 3}}, {Reads: Formats{1, 2, 3}}}}
	if got := v.Reads(); got != (Formats{1, 1, 3}) {
		t.Errorf("got %+v, want 1, 1 and 3", got)
	}
	if v.Nodes = append(v.Nodes, Node{Host: "does not say"}); v.Reads() != (Formats{}) {
		t.Errorf("got %+v, want nothing", v.Reads())
	}
}

// A node that cannot reach the engine keeps what it knows, and comes back.
func TestEngineAway(t *testing.T) {
	srv := enginetest.Start(t, "")
	a := start(t, srv.URL(), "a", nil)
	eventually(t, "first heartbeat", func() bool { return len(a.View().Nodes) == 1 })
	srv.Kill()
	a.Beat(t.Context())
	if got := len(a.View().Nodes); got != 1 {
		t.Errorf("got %d nodes, want the one of before", got)
	}
	srv.Restart()
	before := a.View()
	eventually(t, "new view", func() bool { a.Beat(t.Context()); return a.View() != before })
}

// A node sees settings of a stream that somebody changed.
func TestChangedSettingsAreSeen(t *testing.T) {
	srv := enginetest.Start(t, "")
	a := start(t, srv.URL(), "a", nil)
	parts, err := a.o.Engine.Partitions(t.Context(), engine.PartitionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	parts.Close()
	js := srv.JetStream()
	s, err := js.Stream(t.Context(), "SLUICE_0")
	if err != nil {
		t.Fatal(err)
	}
	a.watch(t.Context())
	if c := a.Copies(); c.Changed() != 0 || c.Behind() != 0 || len(c.Streams) == 0 {
		t.Errorf("got %+v, want nothing wrong", c)
	}
	config := s.CachedInfo().Config
	config.Discard = jetstream.DiscardOld
	if _, err := js.UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	a.watch(t.Context())
	if c := a.Copies(); c.Changed() != 1 || c.Behind() != 0 || !c.Since.IsZero() {
		t.Errorf("got %+v, want one stream changed", c)
	}
}
