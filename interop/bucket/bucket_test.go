// Package bucket tries the tables in a bucket of a real S3 server, through a proxy that spoils requests.
package bucket

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice/event"
	"sluice/internal/hours"
	"sluice/internal/identifier"
	"sluice/internal/lake"
	"sluice/internal/objectstore"
	"sluice/internal/objectstoretest"
	"sluice/internal/servicetest"
	"sluice/internal/submission"
	s3 "sluice/interop/gateway"
)

var noon = time.Date(2026, 11, 14, 12, 0, 0, 0, time.UTC)

var made atomic.Uint32

// rows makes n events that nobody else made.
func rows(n int) []event.Row {
	out := make([]event.Row, n)
	for i := range out {
		k := made.Add(1)
		sum := sha256.Sum256(fmt.Append(nil, k))
		base := submission.NewBase(noon)
		out[i] = event.Row{
			EventID: submission.EventID(base, int32(i)), SubmissionID: fmt.Sprint("batch.", k), SubmissionIndex: int32(i),
			ReceivedAt: noon.Unix(), DatasetID: "shop", EventTime: noon.Unix() - int64(i), EventType: "purchase", SchemaVersion: "1.0",
		}
		if i%3 == 0 {
			out[i].EmailSHA256 = hex.EncodeToString(sum[:])
		}
	}
	return out
}

func openLake(t *testing.T, s objectstore.Store) *lake.Lake {
	t.Helper()
	l, err := lake.Open(t.Context(), lake.Options{Store: s, Now: func() time.Time { return noon }})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// load commits rows as the loader does: it tries again after an error, and asks for the watermark after a fence.
func load(t *testing.T, l *lake.Lake, partition uint8, some []event.Row) {
	t.Helper()
	w, err := l.Watermarks(t.Context(), partition)
	for deadline := time.Now().Add(time.Minute); err != nil && time.Now().Before(deadline); {
		w, err = l.Watermarks(t.Context(), partition)
	}
	if err != nil {
		t.Fatal(err)
	}
	b := lake.Batch{Spans: []lake.Span{{Partition: partition, From: w, To: w.Events + 1}}, Events: some}
	for deadline := time.Now().Add(2 * time.Minute); ; {
		err := l.Commit(t.Context(), b, 0)
		if err == nil {
			return
		}
		if errors.Is(err, lake.ErrFenced) {
			w, werr := l.Watermarks(t.Context(), partition)
			if werr == nil && w.Events == b.Spans[0].To {
				return
			}
			t.Fatalf("fenced at %+v, want %d: %v", w, b.Spans[0].To, werr)
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// hold says that a lake, opened anew by another process, holds these rows, each once, and nothing is wrong with it.
func hold(t *testing.T, g *gateway, want []event.Row) {
	t.Helper()
	l := openLake(t, open(t, g.url))
	got := map[event.ID]int{}
	for row, err := range l.Scan(t.Context(), lake.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		got[row.EventID]++
	}
	for i := range want {
		if n := got[want[i].EventID]; n != 1 {
			t.Fatalf("got an event %d times, want once", n)
		}
	}
	if len(got) != len(want) {
		t.Fatalf("got %d events, want %d", len(got), len(want))
	}
	_, err := l.Check(t.Context(), func(f lake.Finding) { t.Errorf("got %+v, want nothing wrong", f) }, func(int, int) {})
	if err != nil {
		t.Fatal(err)
	}
}

// Every step of a commit, and everything that a store or the network can do to it: nothing is lost, nothing is there
// twice, and every file that is listed is there.
func TestEveryStepAndEveryAnswer(t *testing.T) {
	everyAnswer(t, startGateway(t), "data file", "manifest", "list", "version")
}

func everyAnswer(t *testing.T, g *gateway, steps ...string) {
	t.Helper()
	p := newSpoiler(t, g)
	l := openLake(t, open(t, p.URL))
	var all []event.Row
	for _, step := range steps {
		for _, what := range []string{"409", "500", "503", "reset", "delay", "late", "twice", "answer lost", "500 after"} {
			for _, times := range []int{1, 3} {
				if times > 1 && what != "answer lost" && what != "500" {
					continue // waits take seconds, and once more shows nothing new
				}
				left := times
				p.Set(func(r *http.Request) string {
					if left > 0 && r.Method == http.MethodPut && s3.KindOf(r) == step && strings.Contains(r.URL.Path, "/events/") {
						left--
						return what
					}
					return ""
				})
				some := rows(20)
				load(t, l, 0, some)
				all = append(all, some...)
				if left == times {
					t.Errorf("%s, %s: got no request to spoil", step, what)
				}
			}
		}
	}
	p.Set(nil)
	hold(t, g, all)
}

// Two processes that commit to one table, each for a partition of its own, while one compacts: the conditional write
// keeps them apart.
func TestTwoCommitters(t *testing.T) { twoCommitters(t, startGateway(t)) }

func twoCommitters(t *testing.T, g *gateway) {
	t.Helper()
	const rounds = 12
	var all [2][]event.Row
	done := make(chan struct{}, 2)
	lakes := []*lake.Lake{openLake(t, open(t, g.url)), openLake(t, open(t, g.url))}
	for part := range 2 {
		for range rounds {
			all[part] = append(all[part], rows(10)...)
		}
		go func() {
			defer func() { done <- struct{}{} }()
			for i := range rounds {
				load(t, lakes[part], uint8(part), all[part][10*i:10*i+10])
				if part == 1 {
					if _, err := lakes[1].Compact(t.Context()); err != nil {
						t.Error(err)
					}
				}
			}
		}()
	}
	<-done
	<-done
	hold(t, g, append(all[0], all[1]...))
}

// A store that ignores conditions is refused at the start.
func TestProbe(t *testing.T) {
	g := startGateway(t)
	p := newSpoiler(t, g)
	p.Set(func(r *http.Request) string {
		if r.Method == http.MethodPut {
			return "unconditional"
		}
		return ""
	})
	if _, err := objectstore.OpenS3(t.Context(), options(p.URL)); err == nil || !strings.Contains(err.Error(), "conditional writes") {
		t.Errorf("got %v, want an error that names conditional writes", err)
	}
	p.Set(nil)
	if _, err := objectstore.OpenS3(t.Context(), options(p.URL)); err != nil {
		t.Errorf("got %v, want the same store with conditions", err)
	}
	o := options(p.URL)
	o.Bucket = "nowhere"
	if _, err := objectstore.OpenS3(t.Context(), o); err == nil {
		t.Error("got a bucket that is not there")
	}
	if left, err := filepath.Glob(filepath.Join(g.dir, "lake", "probe-*")); err != nil || len(left) > 0 {
		t.Errorf("got %v, %v, want no traces of the probe", left, err)
	}
}

// An erasure reaches every object, an export works, and a sweep spares what is young.
func TestMaintenance(t *testing.T) {
	g := startGateway(t)
	now := noon
	l, err := lake.Open(t.Context(), lake.Options{Store: open(t, g.url), Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	var all []event.Row
	for range 18 {
		some := rows(30)
		load(t, l, 0, some)
		all = append(all, some...)
	}
	for more := true; more; {
		if more, err = l.Compact(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	one := all[3]
	done, err := l.Erase(t.Context(), lake.Choice{Kinds: []identifier.Kind{identifier.Email}, Match: identifier.ID{Kind: identifier.Email, Value: one.EmailSHA256}.In}, nil)
	if err != nil || done.Rows != 1 {
		t.Fatalf("got %+v, %v, want one row", done, err)
	}
	all = append(all[:3], all[4:]...)
	hold(t, g, all)
	raw, _ := hex.DecodeString(one.EmailSHA256)
	if left := holding(t, g.dir, raw); len(left) > 0 {
		t.Errorf("got %v, want no object that holds the identifier", left)
	}
	orphan := "lake/events/data/day=2026-11-14/orphan.parquet"
	if err := os.WriteFile(filepath.Join(g.dir, orphan), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	sweep := func(at time.Time) {
		t.Helper()
		now = at
		if _, err := l.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	sweep(time.Now())
	if _, err := os.Stat(filepath.Join(g.dir, orphan)); err != nil {
		t.Errorf("got %v, want a young orphan to stay", err)
	}
	sweep(time.Now().Add(25 * time.Hour))
	if _, err := os.Stat(filepath.Join(g.dir, orphan)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want an old orphan to go", err)
	}
	hold(t, g, all)
	var out bytes.Buffer
	if n, err := l.WriteParquet(t.Context(), lake.Query{Dataset: "shop"}, &out); err != nil || int(n) != len(all) {
		t.Errorf("got %d rows, %v, want %d", n, err, len(all))
	}
}

func holding(t *testing.T, dir string, want []byte) (out []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if bytes.Contains(b, want) {
			out = append(out, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// A bucket does what the interface says, as a directory does.
func TestObjects(t *testing.T) {
	g := startGateway(t)
	n := 0
	objectstoretest.Run(t, func(t *testing.T) objectstore.Store {
		n++
		return open(t, g.url).Sub(fmt.Sprint("store-", n))
	})
	s := open(t, g.url)
	w, err := s.Create(t.Context(), "given-up") // after its first part is on its way
	if err != nil {
		t.Fatal(err)
	}
	_, _ = w.Write(make([]byte, 20<<20))
	w.Abort()
	if there, err := s.Exists(t.Context(), "given-up"); err != nil || there {
		t.Errorf("got %v, %v, want nothing of an object that was given up", there, err)
	}
}

// An open object keeps the blocks that were read last in memory, at most 10 MiB, and asks for others again.
func TestOpenObjectIsBounded(t *testing.T) {
	p := newSpoiler(t, startGateway(t))
	s := open(t, p.URL)
	const block, kept, blocks = 256 << 10, 40, 60
	if err := objectstore.WriteAll(t.Context(), s, "object", make([]byte, blocks*block)); err != nil {
		t.Fatal(err)
	}
	o, err := s.Open(t.Context(), "object")
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	requests := func(i int64) (n int) {
		t.Helper()
		p.Mu.Lock()
		clear(p.Count)
		p.Mu.Unlock()
		if _, err := o.ReadAt(make([]byte, 100), i*block+7); err != nil {
			t.Fatal(err)
		}
		p.Mu.Lock()
		defer p.Mu.Unlock()
		for _, times := range p.Count {
			n += times
		}
		return n
	}
	for i := range int64(blocks - 1) { // the last block came with Open
		if n := requests(i); n != 1 {
			t.Fatalf("block %d: %d requests, want 1", i, n)
		}
	}
	for _, i := range []int64{blocks - 1, blocks - 2, blocks - 1 - kept} {
		if n := requests(i); n != 0 {
			t.Errorf("block %d again: %d requests, want none", i, n)
		}
	}
	for _, i := range []int64{blocks - 2 - kept, 0} {
		if n := requests(i); n != 1 {
			t.Errorf("block %d again: %d requests, want 1", i, n)
		}
	}
}

// A lake keeps to few requests: a commit is four writes to each table, and one look at the version that it builds on.
func TestRequestsOfACommit(t *testing.T) {
	g := startGateway(t)
	p := newSpoiler(t, g)
	l := openLake(t, open(t, p.URL))
	load(t, l, 0, rows(10))
	p.Mu.Lock()
	clear(p.Count)
	p.Mu.Unlock()
	const commits = 10
	for range commits {
		load(t, l, 0, rows(10))
	}
	p.Mu.Lock()
	defer p.Mu.Unlock()
	puts, others := 0, 0
	for kind, n := range p.Count {
		if strings.HasPrefix(kind, "PUT") {
			puts += n
		} else {
			others += n
		}
	}
	if puts > 4*commits || others > commits {
		t.Errorf("got %d writes and %d other requests in %d commits, want %d and %d: %v", puts, others, commits, 4*commits, commits, p.Count)
	}
}

// The process that commits and maintains the tables asks the bucket nothing while it does: by its own commits it knows which
// version is the newest, so neither a commit nor compaction nor the hourly numbers ask for it. Who does not commit asks now
// and then.
func TestCommitterDoesNotAsk(t *testing.T) {
	p := newSpoiler(t, startGateway(t))
	var passed atomic.Int64
	now := func() time.Time { return noon.Add(time.Duration(passed.Load())) }
	l, err := lake.Open(t.Context(), lake.Options{Store: open(t, p.URL), Now: now})
	if err != nil {
		t.Fatal(err)
	}
	index := hours.NewIndex(l)
	var reached uint64 // a loader asks for watermarks when it begins, and then knows them
	minute := func() (asked int) {
		t.Helper()
		p.Mu.Lock()
		clear(p.Count)
		p.Mu.Unlock()
		for range 20 {
			passed.Add(int64(3 * time.Second))
			from := lake.Watermarks{Events: reached, Rejections: reached, Hours: reached}
			reached++
			if err := l.Commit(t.Context(), lake.Batch{Spans: []lake.Span{{From: from, To: reached}}, Events: rows(10)}, 0); err != nil {
				t.Fatal(err)
			}
			if _, err := l.Compact(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := index.Read(t.Context(), now()); err != nil {
				t.Fatal(err)
			}
		}
		p.Mu.Lock()
		defer p.Mu.Unlock()
		for kind, n := range p.Count {
			if strings.HasPrefix(kind, "HEAD") {
				asked += n
			}
		}
		return asked
	}
	if n := minute(); n == 0 {
		t.Error("got no question before the process is the one that commits, so the test shows nothing")
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	servicetest.Eventually(t, 10*time.Second, "a minute without a question", func() error {
		if n := minute(); n > 0 {
			return fmt.Errorf("%d questions", n)
		}
		return nil
	})
}

// Who asks again for what was read lately costs few requests: the ends of files are kept, and a small file is an end.
func TestReadersCostFewRequests(t *testing.T) {
	g := startGateway(t)
	writer := openLake(t, open(t, g.url))
	var all []event.Row
	for range 8 {
		some := rows(50)
		load(t, writer, 0, some)
		all = append(all, some...)
	}
	p := newSpoiler(t, g)
	l := openLake(t, open(t, p.URL))
	requests := func(read func()) (n int) {
		t.Helper()
		p.Mu.Lock()
		clear(p.Count)
		p.Mu.Unlock()
		read()
		p.Mu.Lock()
		defer p.Mu.Unlock()
		for _, k := range p.Count {
			n += k
		}
		return n
	}
	scan := func() {
		n := 0
		for _, err := range l.Scan(t.Context(), lake.Query{Dataset: "shop"}) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		if n != len(all) {
			t.Errorf("got %d rows, want %d", n, len(all))
		}
	}
	if n := requests(scan); n == 0 {
		t.Error("got no request for the first scan, so the test shows nothing")
	}
	find := func() {
		if _, err := l.FindEvent(t.Context(), all[7].EventID); err != nil {
			t.Error(err)
		}
	}
	export := func() {
		if n, err := l.WriteParquet(t.Context(), lake.Query{}, io.Discard); err != nil || int(n) != len(all) {
			t.Errorf("got %d rows, %v, want %d", n, err, len(all))
		}
	}
	for name, again := range map[string]func(){"scan": scan, "look-up": find, "export": export} {
		if n := requests(again); n > 0 {
			t.Errorf("%s: got %d requests for what was read lately, want none", name, n)
		}
	}
	// What is erased is in no cache, either.
	done, err := l.Erase(t.Context(), lake.Choice{Kinds: []identifier.Kind{identifier.Email}, Match: identifier.ID{Kind: identifier.Email, Value: all[0].EmailSHA256}.In}, nil)
	if err != nil || done.Rows != 1 {
		t.Fatalf("got %+v, %v, want one row", done, err)
	}
	all = all[1:]
	scan()
}
