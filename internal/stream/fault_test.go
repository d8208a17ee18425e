package stream

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"sluice/internal/durable"
	"sluice/internal/engine"
	"sluice/internal/enginetest"
)

// TestWriteErrorHealsItself lets writes to large files fail, as a broken disk would: the engine then accepts nothing
// until it is restarted.
func TestWriteErrorHealsItself(t *testing.T) {
	signal.Ignore(syscall.SIGXFSZ)
	t.Cleanup(func() { signal.Reset(syscall.SIGXFSZ) })
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	limit := func(l syscall.Rlimit) {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &l); err != nil {
			t.Fatal(err)
		}
	}
	e := openEngine(t, t.TempDir())
	runEngine(t, e)
	s := runStream(t, e, Options{AckTimeout: 900 * time.Millisecond})
	var promised ledger
	add := func(size int) error {
		rec := fmt.Sprintf("%*d", size, promised.len())
		at, err := s.Append(t.Context(), []byte(rec))
		if err == nil {
			promised.add(t, at, rec)
		}
		return err
	}
	for range 4 {
		if err := add(600_000); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.AppendKeyed(t.Context(), "key", []byte("once")); err != nil {
		t.Fatal(err)
	}

	limit(syscall.Rlimit{Cur: 1 << 20, Max: before.Max})
	t.Cleanup(func() { limit(before) })
	start := time.Now()
	if err := add(600_000); err == nil {
		t.Error("acknowledged without being written")
	}
	if took := time.Since(start); took > 1500*time.Millisecond {
		t.Errorf("the error took %v, want about a second", took)
	}
	if err := s.Ready(); !errors.Is(err, ErrUnavailable) {
		t.Errorf("ready after a write error: %v", err)
	}
	start = time.Now()
	if err := add(10); !errors.Is(err, ErrUnavailable) {
		t.Errorf("append after a write error: %v, want ErrUnavailable", err)
	}
	if took := time.Since(start); took > 200*time.Millisecond {
		t.Errorf("that rejection took %v, want none at all", took)
	}
	limit(before)

	eventually(t, "recovery", func() bool { return s.Ready() == nil })
	if err := add(1000); err != nil {
		t.Errorf("append after recovery: %v", err)
	}
	if _, err := s.AppendKeyed(t.Context(), "key", []byte("twice")); !errors.Is(err, ErrExists) {
		t.Errorf("key after recovery: %v, want ErrExists", err)
	}
	promised.check(t, contents(t, s, 0))
	eventually(t, "restart of the engine", func() bool { return e.Stats().Restarts > 0 }) // counted when it is over
	if st := s.Stats(); st.Revived == 0 || st.RejectedDown == 0 {
		t.Errorf("stats %+v", st)
	}
}

func TestDiskHeadroom(t *testing.T) {
	var free, files atomic.Int64
	free.Store(1 << 30)
	files.Store(1000)
	var broken atomic.Bool
	s := runStream(t, openEngine(t, t.TempDir()), Options{Headroom: 100 << 20, Disk: func() (durable.Disk, error) {
		if broken.Load() {
			return durable.Disk{}, errors.New("no disk")
		}
		return durable.Disk{Size: 10 << 30, Free: free.Load(), Files: files.Load()}, nil
	}})
	try := func() error { _, err := s.Append(t.Context(), []byte("x")); return err }
	for name, c := range map[string]struct{ take, giveBack func() }{
		"bytes":     {func() { free.Store(100<<20 - 1) }, func() { free.Store(100 << 20) }},
		"files":     {func() { files.Store(3) }, func() { files.Store(-1) }},
		"no answer": {func() { broken.Store(true) }, func() { broken.Store(false) }},
	} {
		eventually(t, name+": readiness", func() bool { return s.Ready() == nil })
		if err := try(); err != nil {
			t.Errorf("%s: append with free space: %v", name, err)
		}
		c.take()
		eventually(t, name+": rejection", func() bool { return errors.Is(try(), ErrNoSpace) })
		if err := s.Ready(); !errors.Is(err, ErrNoSpace) {
			t.Errorf("%s: ready without free space: %v", name, err)
		}
		c.giveBack()
	}
	eventually(t, "readiness", func() bool { return s.Ready() == nil })
	if s.Stats().RejectedSpace == 0 {
		t.Error("rejections were not counted")
	}
}

func TestDiskIsAskedByBytesToo(t *testing.T) {
	var asked atomic.Int64
	var d disk
	free := int64(1 << 40)
	d.init(nil, Options{Disk: func() (durable.Disk, error) {
		asked.Add(1)
		return durable.Disk{Size: 1 << 40, Free: free, Files: -1}, nil
	}}, nil)
	look := func() {
		if _, err := d.look(); err != nil {
			t.Fatal(err)
		}
	}
	look()
	for range 10 {
		if d.wrote(spaceStep / 4) {
			look()
		}
	}
	if n := asked.Load(); n != 3 {
		t.Errorf("asked %d times at the start and after 2.5 steps, want 3", n)
	}
	// What was free when it was last asked may be used up before a step is.
	free = d.need.Load() + 1000
	look()
	if d.wrote(999) {
		t.Error("it is time to look before what was free is written")
	}
	if !d.wrote(1) {
		t.Error("it is not time to look when what was free is written")
	}
}

// An external engine that does not answer must not be taken for one without a limit: what it said last counts.
func TestStorageThatDoesNotAnswer(t *testing.T) {
	answers := true
	d := disk{remote: true, headroom: 90, copies: func() int { return 3 }, margin: func() int64 { return 10 }, ask: func() (durable.Disk, error) {
		if !answers {
			return durable.Disk{}, errors.New("no answer")
		}
		return durable.Disk{Size: 10_000, Free: 1000, Files: -1}, nil
	}}
	look := func(want bool) {
		t.Helper()
		if enough, err := d.look(); err != nil || enough != want {
			t.Errorf("enough: %v, %v; want %v", enough, err, want)
		}
	}
	look(true)
	answers = false
	if d.wrote(299) || d.usedUp() {
		t.Error("three copies of 299 bytes are too many for 900")
	}
	look(true)
	if !d.wrote(1) || !d.usedUp() {
		t.Error("three copies of 300 bytes are not enough for 900")
	}
	look(false)
	answers = true
	look(true)
}

// The storage of an account ends for events before it ends for leases and the registry.
func TestAccountStorage(t *testing.T) {
	srv := enginetest.Start(t, "max_payload: 8MB\naccounts: {A: {users: [{user: u, password: p}], jetstream: {max_file: 64MB}}}")
	e := openOptions(t, engine.Options{URL: strings.Replace(srv.URL(), "//", "//u:p@", 1)})
	s := runStream(t, e, Options{Headroom: 24 << 20, AckTimeout: 5 * time.Second})
	eventually(t, "writing", func() bool { return s.Ready() == nil })
	// What is written while the account is asked may count twice, so the stream may stop too early and then probe the
	// engine. A sender tries again after that, and so does this one.
	eventually(t, "rejection for want of space", func() bool {
		var err error
		for i := 0; err == nil && i < 10_000; i++ {
			_, err = s.Append(t.Context(), make([]byte, 100_000))
		}
		if err != nil && !errors.Is(err, ErrNoSpace) && !errors.Is(err, ErrUnavailable) {
			t.Fatal(err)
		}
		return errors.Is(err, ErrNoSpace) && errors.Is(s.Ready(), ErrNoSpace)
	})
	used, limit, err := e.Storage(t.Context())
	if err != nil || limit == 0 || used < limit/4 || used > limit-8<<20 {
		t.Errorf("%d of %d bytes are used, %v; want some, and space for other things", used, limit, err)
	}
	if _, err := e.Take(t.Context(), "loader.0"); err != nil {
		t.Errorf("lease: %v", err)
	}
	if _, err := e.Secret(t.Context(), "x"); err != nil {
		t.Errorf("registry: %v", err)
	}
}

// Several nodes fill an account at once, each without knowing what the others write: space for leases must be left.
func TestAccountOfSeveralNodes(t *testing.T) {
	const nodes = 6
	srv := enginetest.Start(t, "max_payload: 8MB\naccounts: {A: {users: [{user: u, password: p}], jetstream: {max_file: 192MB}}}")
	var all sync.WaitGroup
	var e *engine.Engine
	for range nodes {
		e = openOptions(t, engine.Options{URL: strings.Replace(srv.URL(), "//", "//u:p@", 1)})
		s := runStream(t, e, Options{Nodes: func() int { return nodes }, AckTimeout: 20 * time.Second})
		if err := s.Fits(); err != nil {
			t.Fatal(err)
		}
		for range 4 {
			all.Go(func() {
				for range 10_000 {
					if _, err := s.Append(t.Context(), make([]byte, 500_000)); errors.Is(err, ErrNoSpace) {
						return
					}
				}
				t.Error("the account is never full")
			})
		}
	}
	all.Wait()
	if used, limit, err := e.Storage(t.Context()); err != nil || used > limit-8<<20 {
		t.Errorf("%d of %d bytes are used, %v; want space for other things", used, limit, err)
	}
	if _, err := e.Take(t.Context(), "loader.0"); err != nil {
		t.Errorf("lease: %v", err)
	}
}

// An account that leaves no space for events is too small, and the error says how large it must be.
func TestAccountTooSmall(t *testing.T) {
	srv := enginetest.Start(t, "max_payload: 8MB\naccounts: {A: {users: [{user: u, password: p}], jetstream: {max_file: 64MB}}}")
	e := openOptions(t, engine.Options{URL: strings.Replace(srv.URL(), "//", "//u:p@", 1)})
	var nodes atomic.Int64
	nodes.Store(1)
	s := runStream(t, e, Options{Nodes: func() int { return int(nodes.Load()) }})
	if err := s.Fits(); err != nil {
		t.Errorf("got %v for one node, want nil", err)
	}
	nodes.Store(3)
	if err := s.Fits(); err == nil || !strings.Contains(err.Error(), "98 MiB") { // twice 16 MiB and, for each node, 11 MiB
		t.Errorf("got %v for three nodes, want an error that names 98 MiB", err)
	}
}

func TestFullStreamRejects(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, b backend) {
		s := runStream(t, b.engine, Options{MaxBytes: 100_000})
		var promised ledger
		var err error
		for i := 0; err == nil && i < 1000; i++ {
			var at Position
			rec := fmt.Sprintf("%1000d", i)
			if at, err = s.Append(t.Context(), []byte(rec)); err == nil {
				promised.add(t, at, rec)
			}
		}
		if !errors.Is(err, ErrFull) || promised.len() < 50 {
			t.Errorf("after %d records: %v, want ErrFull", promised.len(), err)
		}
		promised.check(t, contents(t, s, 0))
	})
}

// TestStalledEngine stops the engine's process in its tracks, so that writes go unanswered.
func TestStalledEngine(t *testing.T) {
	srv := enginetest.Start(t, "")
	s := runStream(t, openExternal(t, srv), Options{AckTimeout: 700 * time.Millisecond, MaxQueue: 10_500})
	if _, err := s.Append(t.Context(), []byte("before")); err != nil {
		t.Fatal(err)
	}
	srv.Pause()
	var timeouts, overloads atomic.Int64
	var wg sync.WaitGroup
	start := time.Now()
	for range 20 {
		wg.Go(func() {
			switch _, err := s.Append(t.Context(), make([]byte, 1000)); {
			case errors.Is(err, ErrTimeout):
				timeouts.Add(1)
			case errors.Is(err, ErrOverloaded):
				overloads.Add(1)
			default:
				t.Errorf("append to a stalled engine: %v", err)
			}
		})
	}
	wg.Wait()
	if took := time.Since(start); took > 3*time.Second {
		t.Errorf("answers took %v, want about 700 ms", took)
	}
	if timeouts.Load() != 10 || overloads.Load() != 10 {
		t.Errorf("%d timeouts and %d overloads, want 10 of each", timeouts.Load(), overloads.Load())
	}
	if err := s.Ready(); !errors.Is(err, ErrUnavailable) {
		t.Errorf("ready while stalled: %v", err)
	}
	srv.Resume()
	eventually(t, "readiness", func() bool { return s.Ready() == nil })
	if _, err := s.Append(t.Context(), []byte("after")); err != nil {
		t.Error(err)
	}
	eventually(t, "empty queue", func() bool { return s.Stats().Queued == 0 })
}

func TestOneCallerGivesUp(t *testing.T) {
	srv := enginetest.Start(t, "")
	s := runStream(t, openExternal(t, srv), Options{AckTimeout: 10 * time.Second})
	if _, err := s.Append(t.Context(), []byte("before")); err != nil {
		t.Fatal(err)
	}
	srv.Pause()
	ctx, cancel := context.WithCancel(t.Context())
	patient := make(chan error, 8)
	for range cap(patient) {
		go func() { _, err := s.Append(t.Context(), []byte("patient")); patient <- err }()
	}
	hasty := make(chan error, 1)
	go func() { _, err := s.Append(ctx, []byte("hasty")); hasty <- err }()
	eventually(t, "queue", func() bool { return s.queued.Load() == int64(8*len("patient")+len("hasty")) })
	cancel()
	if err := <-hasty; !errors.Is(err, context.Canceled) {
		t.Errorf("who gave up got %v", err)
	}
	short, cancelShort := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancelShort()
	if _, err := s.AppendKeyed(short, "key", []byte("hasty")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("who gave little time got %v", err)
	}
	if err := s.Ready(); err != nil {
		t.Errorf("a caller's impatience took the stream down: %v", err)
	}
	srv.Resume()
	for range cap(patient) {
		if err := <-patient; err != nil {
			t.Errorf("who waited got %v", err)
		}
	}
}

func TestStopFinishesWhatItTook(t *testing.T) {
	e := openEngine(t, t.TempDir())
	s := openStream(t, e, Options{})
	stop := run(t, s)
	var promised ledger
	var wg sync.WaitGroup
	for c := range 16 {
		wg.Go(func() {
			for i := 0; ; i++ {
				rec := fmt.Sprintf("%d/%d", c, i)
				var at Position
				var err error
				if i%4 == 0 {
					at, err = s.AppendKeyed(t.Context(), rec, []byte(rec))
				} else {
					at, err = s.Append(t.Context(), []byte(rec))
				}
				if err != nil {
					if !errors.Is(err, ErrClosed) {
						t.Errorf("append while stopping: %v, want ErrClosed", err)
					}
					return
				}
				promised.add(t, at, rec)
			}
		})
	}
	eventually(t, "appends", func() bool { return promised.len() > 200 })
	stop()
	wg.Wait()
	stored := contents(t, s, 0)
	promised.check(t, stored)
	if len(stored) != promised.len() {
		t.Errorf("%d stored, %d acknowledged: nothing was uncertain here", len(stored), promised.len())
	}
}

func TestAppendBeforeRun(t *testing.T) {
	e := openEngine(t, t.TempDir())
	s := openStream(t, e, Options{AckTimeout: 100 * time.Millisecond})
	if err := s.Ready(); !errors.Is(err, ErrUnavailable) {
		t.Errorf("ready before Run: %v", err)
	}
	if _, err := s.Append(t.Context(), []byte("x")); !errors.Is(err, ErrUnavailable) {
		t.Errorf("append without Run: %v, want ErrUnavailable", err)
	}
}
