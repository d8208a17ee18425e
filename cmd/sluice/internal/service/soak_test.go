package service

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice/cmd/sluice/internal/tables"
	"sluice/internal/engine"
	"sluice/internal/lake"
	"sluice/internal/traffictest"
)

// TestSoak shows that nothing grows with every commit: it runs the whole service under a simulated clock, does everything
// that senders, readers and operators do, at random, and compares what the process and its directory hold after a quarter of
// the commits with what they hold after all of them. SOAK_COMMITS is how many there are; make soak makes 20,000.
//
// The clock is a function of the number of commits. They follow each other by 5 s, with a pause after each 80th part of
// them, so that six such parts take a day. Both looks are at the same time of a day: retention goes by days. Between
// them lie ten days, and before the first more than three: longer than everything here is kept, but for counts, of which an
// hour adds some hundred bytes.
func TestSoak(t *testing.T) {
	commits, seed := int64(1200), uint64(time.Now().UnixNano())
	for name, set := range map[string]func(uint64){
		"SOAK_COMMITS": func(n uint64) { commits = int64(n) }, "SEED": func(n uint64) { seed = n },
	} {
		if text := os.Getenv(name); text != "" {
			n, err := strconv.ParseUint(text, 10, 63)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			set(n)
		}
	}
	t.Logf("SEED=%d", seed)
	s := startSoak(t, commits, seed)
	var first, last figures
	t.Log(figuresHead)
	for part := int64(1); part <= soakParts; part++ {
		for s.commits.Load() < part*s.part {
			s.round()
		}
		if part != soakFirst && part != soakParts && (!s.long || part < soakFirst || (part-soakFirst)%soakDay != 0) {
			continue
		}
		last = s.look()
		if t.Log(last); part == soakFirst {
			first = last
		}
	}
	last.within(t, first)
	if st := s.loader.Stats(); st.Damaged+st.Missing > 0 {
		t.Errorf("got %d damaged and %d missing frames, want none", st.Damaged, st.Missing)
	}
	for name, did := range s.done {
		t.Logf("%6d × %s", did, name)
	}
}

const (
	soakParts = 80
	soakDay   = 6  // parts of a day
	soakFirst = 20 // parts before the first look; the others follow by whole days
)

// soak is a service under a simulated clock, and who uses it. One goroutine uses it.
type soak struct {
	*Service
	t       *testing.T
	dir     string
	begin   time.Time
	part    int64        // commits in a row
	commits atomic.Int64 // what the clock goes by
	long    bool         // many looks, each after a long rest
	upkeep  chan chan struct{}

	rand     *rand.Rand
	source   *traffictest.Source
	senders  []*soakSender
	readers  []soakReader
	last     string   // person of the last event
	stored   string   // person of the last one that was accepted
	receipts []string // submission ids of late
	rejected []string // request ids of late
	cursor   string
	visitors []*visitor
	done     map[string]int
	client   http.Client
}

// soakSender is a dataset and who sends to it.
type soakSender struct {
	id, key, keyID string
	idempotency    int    // keys used
	body           string // sent with the last one
}

// soakReader is a reader of tables and feed.
type soakReader struct{ name, token string }

// now is the simulated time. It is before that of the machine all along: else the frames that the engine stores would look
// old. It is near the end of a second, because an erasure waits for the next one.
func (s *soak) now() time.Time {
	n := s.commits.Load()
	return s.begin.Add(time.Duration(n/s.part)*24*time.Hour/soakDay + time.Duration(n%s.part)*5*time.Second)
}

func startSoak(t *testing.T, commits int64, seed uint64) *soak {
	s := &soak{
		t: t, dir: t.TempDir(), begin: time.Now().UTC().Truncate(24 * time.Hour).Add(-20*24*time.Hour + 999*time.Millisecond), part: commits / soakParts,
		long: commits > 5000, upkeep: make(chan chan struct{}, 1), rand: rand.New(rand.NewPCG(seed, 0)), source: traffictest.New(traffictest.Lively, seed),
		done: map[string]int{},
	}
	transport := &http.Transport{}
	s.client = http.Client{Timeout: 30 * time.Second, Transport: transport}
	t.Setenv("GOGC", "100") // else the service would set the collector of all tests
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var err error
	s.Service, err = Open(ctx, Config{
		Engine: engine.Options{Dir: s.dir}, Listen: "127.0.0.1:0", OpsListen: "127.0.0.1:0", Tables: tables.Location{Dir: filepath.Join(s.dir, "lake")},
		StreamRetention: s.streamRetention(), TableRetention: 24 * time.Hour, SnapshotRetention: 24 * time.Hour,
		Loading: true, CommitEvery: time.Millisecond, Log: slog.New(soakLog{t}), Now: s.now,
		Hooks: Hooks{Maintain: s.maintain, Unsynced: true, Settle: 200 * time.Millisecond},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.hours.CacheMax = 1 // nothing: a cache that fills looks like a leak
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		s.leave(0)
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		s.Close()
		transport.CloseIdleConnections()
	})
	return s
}

// streamRetention goes by the clock of the machine, as the engine does. In the short form nothing gets so old.
func (s *soak) streamRetention() time.Duration {
	if s.long {
		return 20 * time.Second
	}
	return time.Hour
}

// soakLog makes every error that the service logs one of the test.
type soakLog struct{ t *testing.T }

func (l soakLog) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }
func (l soakLog) WithAttrs([]slog.Attr) slog.Handler               { return l }
func (l soakLog) WithGroup(string) slog.Handler                    { return l }
func (l soakLog) Handle(_ context.Context, r slog.Record) error {
	if r.Level < slog.LevelError {
		return nil
	}
	words := r.Message
	r.Attrs(func(a slog.Attr) bool { words += " " + a.String(); return true })
	l.t.Errorf("the service logs: %s", words)
	return nil
}

// maintain is the upkeep of the lake, whenever the soak asks for it.
func (s *soak) maintain(ctx context.Context, l *lake.Lake) error {
	var swept time.Time
	for {
		var asked chan struct{}
		select {
		case <-ctx.Done():
			return nil
		case asked = <-s.upkeep:
		}
		more, err := true, error(nil)
		for more && err == nil {
			more, err = l.Compact(ctx)
		}
		if now := s.now(); err == nil && now.Sub(swept) >= 5*time.Minute {
			swept = now
			_, retain := l.Retain(ctx)
			expire := l.Expire(ctx)
			_, sweep := l.Sweep(ctx)
			err = errors.Join(retain, expire, sweep)
		}
		if err != nil && ctx.Err() == nil {
			s.t.Errorf("upkeep: %v", err)
		}
		close(asked)
	}
}

// figures are what a process and its directory hold.
type figures struct {
	commits                int64
	heap, goroutines, open int64
	files, tables, engine  int64
}

const figuresHead = "| commits | heap, MB | goroutines | open files | files on disk | tables, MB | engine, MB |"

func (f figures) String() string {
	mb := func(n int64) string { return strconv.FormatFloat(float64(n)/1e6, 'f', 1, 64) }
	return fmt.Sprintf("| %d | %s | %d | %d | %d | %s | %s |", f.commits, mb(f.heap), f.goroutines, f.open, f.files, mb(f.tables), mb(f.engine))
}

// within says what has grown by more than a tenth. What a small figure grows by may be chance, up to least: of files, one for
// each day of counts, and what each of three tables keeps of its older metadata, which a short run has not filled at its first look.
func (f figures) within(t *testing.T, first figures) {
	noise := int64(3 << 19) // buffers find their size; a leak of 2 KB for each commit of a short run is seen
	for _, one := range []struct {
		what            string
		was, now, least int64
	}{
		{"heap", first.heap, f.heap, noise},
		{"goroutines", first.goroutines, f.goroutines, 2},
		{"open files", first.open, f.open, 2},
		{"files on disk", first.files, f.files, 120},
		{"bytes of tables", first.tables, f.tables, 1 << 20},
	} {
		if one.now > one.was+max(one.was/10, one.least) {
			t.Errorf("%s: got %d after %d commits and %d after %d, want at most a tenth more", one.what, one.was, first.commits, one.now, f.commits)
		}
	}
}

// rest is how long it takes until the engine holds no block of a stream in memory: ten seconds after the last message has
// come, or has aged out.
func (s *soak) rest() time.Duration {
	if s.long {
		return 12*time.Second + s.streamRetention()
	}
	return 12 * time.Second
}

// look lets everything come to rest and takes the figures.
func (s *soak) look() figures {
	s.leave(0)
	if err := s.loader.Flush(); err != nil {
		s.t.Fatal(err)
	}
	s.follow()
	for range 2 { // the first may be one that has begun
		asked := make(chan struct{})
		s.upkeep <- asked
		<-asked
	}
	s.client.CloseIdleConnections()
	f := figures{commits: s.commits.Load(), heap: math.MaxInt64, goroutines: math.MaxInt64, open: math.MaxInt64}
	tick := time.NewTicker(s.rest() / 10)
	defer tick.Stop()
	for range 11 {
		<-tick.C
		s.lookAtProcess(&f)
	}
	s.lookAtFiles(&f)
	if dir := os.Getenv("SOAK_PROFILE"); dir != "" {
		s.profile(filepath.Join(dir, fmt.Sprintf("heap-%d.pprof", f.commits)))
	}
	return f
}

// lookAtProcess takes each figure that is less than it was.
func (s *soak) lookAtProcess(f *figures) {
	runtime.GC()
	runtime.GC() // the second empties the pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	open, err := os.ReadDir("/dev/fd")
	if err != nil {
		s.t.Fatal(err)
	}
	f.heap, f.goroutines, f.open = min(f.heap, int64(m.HeapAlloc)), min(f.goroutines, int64(runtime.NumGoroutine())), min(f.open, int64(len(open)))
}

// profile writes down what the heap is made of.
func (s *soak) profile(name string) {
	w, err := os.Create(name)
	if err == nil {
		err = errors.Join(pprof.Lookup("heap").WriteTo(w, 0), w.Close())
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// lookAtFiles counts what lies in the directory. The bytes of the engine are apart: it deletes by the clock of the machine, and
// in steps of megabytes.
func (s *soak) lookAtFiles(f *figures) {
	err := filepath.WalkDir(s.dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return ignoreMissing(err)
		}
		info, err := e.Info()
		if err != nil {
			return ignoreMissing(err)
		}
		f.files++
		switch dir, _, _ := strings.Cut(strings.TrimPrefix(name, s.dir+"/"), "/"); dir {
		case "lake":
			f.tables += info.Size()
		case "engine":
			f.engine += info.Size()
		}
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) { // deleted meanwhile
		return nil
	}
	return err
}
