package stream

import (
	"context"
	"os"
	"sync"
	"testing"
	"time"

	"sluice/internal/engine"
	"sluice/internal/enginetest"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		os.Exit(child(dir))
	}
	os.Exit(enginetest.Main(m))
}

// backend is an engine under test, with a way to take it away and bring it back.
type backend struct {
	engine *engine.Engine
	bounce func(t *testing.T)
}

// onEveryEngine runs a test over the embedded engine and over a server of its own.
func onEveryEngine(t *testing.T, test func(t *testing.T, b backend)) {
	t.Run("embedded", func(t *testing.T) {
		e := openEngine(t, t.TempDir())
		test(t, backend{e, func(t *testing.T) {
			if err := e.Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
		}})
	})
	t.Run("external", func(t *testing.T) {
		srv := enginetest.Start(t, "")
		test(t, backend{openExternal(t, srv), func(*testing.T) { srv.Restart() }})
	})
}

func openEngine(t testing.TB, dir string) *engine.Engine {
	t.Helper()
	return openOptions(t, engine.Options{Dir: dir})
}

func openExternal(t testing.TB, srv *enginetest.Server) *engine.Engine {
	t.Helper()
	return openOptions(t, engine.Options{URL: srv.URL(), Token: enginetest.Token})
}

func openOptions(t testing.TB, o engine.Options) *engine.Engine {
	t.Helper()
	e, err := engine.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// openStream opens a stream for reading. Unless a test is about it, no write is given up: the disk may be busy.
func openStream(t testing.TB, e *engine.Engine, o Options) *Stream {
	t.Helper()
	if o.AckTimeout == 0 {
		o.AckTimeout = 20 * time.Second
	}
	s, err := Open(t.Context(), e, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// runStream opens a stream and runs it until the test ends.
func runStream(t testing.TB, e *engine.Engine, o Options) *Stream {
	t.Helper()
	s := openStream(t, e, o)
	t.Cleanup(run(t, s))
	return s
}

// run runs a stream until the function it returns is called.
func run(t testing.TB, s *Stream) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := s.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	return func() { cancel(); wg.Wait() }
}

// runEngine watches over an engine until the test ends.
func runEngine(t testing.TB, e *engine.Engine) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := e.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
}

// eventually waits for a condition that other goroutines bring about.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("no %s in time", what)
		}
	}
}

// contents returns all records of a partition, and fails on damage or gaps.
func contents(t testing.TB, s *Stream, partition uint8) map[Position]string {
	t.Helper()
	all := map[Position]string{}
	err := s.Scan(t.Context(), partition, 1, func(f Frame) error {
		if f.Missing > 0 || f.Damaged != nil {
			t.Errorf("frame %d: missing %d before it, damaged %v", f.Seq, f.Missing, f.Damaged)
		}
		for i, r := range f.Records {
			all[Position{Partition: partition, Seq: f.Seq, Slot: uint16(i)}] = string(r)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// ledger is what callers were promised.
type ledger struct {
	mu    sync.Mutex
	acked map[Position]string
}

func (l *ledger) add(t testing.TB, at Position, record string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.acked == nil {
		l.acked = map[Position]string{}
	}
	if other, twice := l.acked[at]; twice {
		t.Errorf("%q and %q are both at %v", other, record, at)
	}
	l.acked[at] = record
}

func (l *ledger) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.acked)
}

// check compares the promises with what is stored.
func (l *ledger) check(t testing.TB, stored map[Position]string) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for at, want := range l.acked {
		if got, ok := stored[at]; !ok || got != want {
			t.Errorf("acknowledged record %q at %v: found %q", want, at, got)
		}
	}
}
