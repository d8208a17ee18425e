package loader

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/event"
	"sluice/internal/erasure"
	"sluice/internal/identifier"
	"sluice/internal/lake"
	"sluice/internal/submission"
)

// reloading is a service whose tables lost something.
type reloading struct {
	*service
	tombstones *erasure.Tombstones
}

func startReloading(t *testing.T, sent *[]*submission.Submission) *reloading {
	t.Helper()
	s := serve(t, t.TempDir(), t.TempDir(), sent)
	tombstones, err := erasure.Open(t.Context(), s.engine)
	if err != nil {
		t.Fatal(err)
	}
	return &reloading{s, tombstones}
}

// sendNow appends submissions that are received now, one by one, each into a file of its own.
func (s *reloading) sendNow(n int) {
	s.t.Helper()
	s.sendAt(time.Now(), n)
}

// sendAt is sendNow at another time.
func (s *reloading) sendAt(now time.Time, n int) {
	s.t.Helper()
	for range n {
		sub := made(4, "shop")
		sub.Base, sub.ReceivedAt = submission.NewBase(now), now.Unix()
		for i := range sub.Rows {
			sub.Rows[i].ReceivedAt = now.Unix()
		}
		at, err := s.stream.Append(s.t.Context(), record(sub))
		if err != nil {
			s.t.Fatal(err)
		}
		*s.sent = append(*s.sent, placed(s.t, sub, at.Seq, at.Slot))
		s.loaded(at)
	}
}

func (s *reloading) files() (out []string) {
	s.t.Helper()
	err := filepath.WalkDir(filepath.Join(s.tables, "events", "data"), func(name string, e fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(name, ".parquet") {
			out = append(out, name)
		}
		return err
	})
	if err != nil || len(out) < 3 {
		s.t.Fatalf("got %d files, %v, want three at least", len(out), err)
	}
	return out
}

// reload runs one in what could be a process of its own.
func (s *reloading) reload(dryRun bool, step func(string) error) (Reloaded, error) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 20*time.Second) // arbitrary; it takes a second
	defer cancel()
	o := s.options(step)
	o.DryRun = dryRun
	return Reload(ctx, o)
}

func (s *reloading) options(step func(string) error) ReloadOptions {
	s.t.Helper()
	return ReloadOptions{Stream: s.stream, Lake: s.open(step), IDs: testIDs, Erasures: s.tombstones}
}

// open opens the tables as another process would.
func (s *reloading) open(step func(string) error) *lake.Lake {
	s.t.Helper()
	l, err := lake.OpenDir(s.t.Context(), s.tables, lake.Options{Now: time.Now, Stream: s.stream.ID(), Step: step})
	if err != nil {
		s.t.Fatal(err)
	}
	return l
}

// stone notes that a person is being erased.
func (s *reloading) stone() (erasure.Tombstone, error) {
	l := s.tombstones.NewList()
	l.Put(identifier.IFA, "ifa-3")
	stones, err := s.tombstones.Add(s.t.Context(), l, "", time.Now(), time.Hour)
	return append(stones, erasure.Tombstone{})[0], err
}

// erase deletes what a tombstone names from tables, as a command does.
func (s *reloading) erase(l *lake.Lake, stone erasure.Tombstone) error {
	ctx := s.t.Context()
	return s.tombstones.Pass(ctx, l.ErasedMark, func(ctx context.Context, w *erasure.Writer) error {
		set := s.tombstones.Set([]erasure.Tombstone{stone})
		if _, err := l.Erase(ctx, lake.Choice{Kinds: set.Kinds(), Match: set.Erased}, w); err != nil {
			return err
		}
		return s.tombstones.Finish(ctx, stone, l.EventsUpdated())
	})
}

// carrying counts the rows of the table with an IFA.
func (s *reloading) carrying(ifa string) (n int) {
	s.t.Helper()
	for row, err := range openLake(s.t, s.tables, nil).Scan(s.t.Context(), lake.Query{}) {
		if err != nil {
			s.t.Fatal(err)
		}
		if row.IFA == ifa {
			n++
		}
	}
	return n
}

// Files of the table are lost while a server runs: a reload brings the events back that the stream holds, each once,
// also if it is ended at any step and run again. What was erased stays erased.
func TestReload(t *testing.T) {
	var sent []*submission.Submission
	s := startReloading(t, &sent)
	s.sendNow(6)
	files := s.files()
	if err := os.Remove(files[0]); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(files[1])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(files[1], b[:len(b)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	want := Reloaded{Frames: 6, Events: 24, Stored: 16, Loaded: 8, Files: 2}
	holds := func(what string, got Reloaded, err error, want Reloaded) {
		t.Helper()
		if got.Frames -= want.Frames; got.Frames < 0 || got.Frames > 6 { // probes are frames without records
			t.Errorf("%s: got %d frames more than %d", what, got.Frames, want.Frames)
		}
		if got.Frames = want.Frames; err != nil || got != want {
			t.Errorf("%s: got %+v, %v, want %+v", what, got, err, want)
		}
	}
	got, err := s.reload(true, nil)
	holds("dry run", got, err, want)
	crash := errors.New("crash")
	for _, at := range []string{"events.manifest", "events.list", "events.metadata"} {
		got, err := s.reload(false, func(step string) error {
			if step == at {
				return crash
			}
			return nil
		})
		if !errors.Is(err, crash) || got.Loaded != 8 {
			t.Errorf("%s: got %+v, %v, want it ended there", at, got, err)
		}
	}
	if _, err := s.stone(); err != nil {
		t.Fatal(err)
	}
	want.Erased, want.Loaded = 2, 6
	got, err = s.reload(false, func(step string) error {
		if step == "events.committed" {
			return crash
		}
		return nil
	})
	if !errors.Is(err, crash) {
		t.Errorf("got %+v, %v, want it ended after the commit", got, err)
	}
	got, err = s.reload(false, nil)
	holds("after it", got, err, Reloaded{Frames: 6, Events: 24, Stored: 22, Erased: 2})

	s.sendNow(1) // loading goes on behind the same watermark
	found := map[event.ID]int{}
	for row, err := range openLake(t, s.tables, nil).Scan(t.Context(), lake.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		found[row.EventID]++
	}
	lacking := 0
	for _, sub := range sent {
		for i := range sub.Rows {
			switch n := found[sub.Rows[i].EventID]; {
			case n == 0 && sub.Rows[i].IFA == "ifa-3":
				lacking++
			case n != 1:
				t.Errorf("got an event %d times, want once", n)
			}
		}
	}
	if lacking != 2 {
		t.Errorf("got %d events less, want the 2 that were lost and erased", lacking)
	}
	wrong := func(f lake.Finding) { t.Errorf("got %+v, want nothing wrong", f) }
	if _, err := openLake(t, s.tables, nil).Check(t.Context(), wrong, func(int, int) {}); err != nil {
		t.Error(err)
	}
}

// What left the tables by retention stays away, while the stream still holds it.
func TestReloadAfterRetention(t *testing.T) {
	var sent []*submission.Submission
	s := startReloading(t, &sent)
	now := time.Now()
	s.sendAt(now.AddDate(0, 0, -3), 2)
	s.sendAt(now, 1)
	expired := s.open(nil).Expired(lake.Retention{Keep: 24 * time.Hour})
	if old := now.AddDate(0, 0, -3); expired("shop", old.Unix()) || !expired("shop", old.AddDate(0, 0, -1).Unix()) {
		t.Error("a day that the table lists counts as gone, which retention may hold back, or one before it does not")
	}
	for name, r := range map[string]lake.Retention{
		"dataset": {Datasets: map[string]time.Duration{"shop": 24 * time.Hour, "other": time.Hour}},
		"tables":  {Keep: 24 * time.Hour},
	} {
		l, err := lake.OpenDir(t.Context(), s.tables, lake.Options{
			Now: time.Now, Stream: s.stream.ID(),
			Retention: func(context.Context) (lake.Retention, error) { return r, nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Retain(t.Context()); err != nil {
			t.Fatal(err)
		}
		o := s.options(nil)
		o.Retention = r
		got, err := Reload(t.Context(), o)
		if err != nil || got.Stored != 4 || got.Expired != 8 || got.Loaded != 0 {
			t.Errorf("%s: got %+v, %v, want 8 events that stay away", name, got, err)
		}
	}
	if got, err := s.reload(true, nil); err != nil || got.Expired != 0 || got.Loaded != 8 {
		t.Errorf("kept for ever: got %+v, %v, want 8 events to load again", got, err)
	}
}

// Of two reloads side by side, which a lost lease lets happen, one loads, and the other finds nothing lacking. A file with
// events from before the stream is given up only if somebody agrees.
func TestReloadSideBySide(t *testing.T) {
	var sent []*submission.Submission
	s := startReloading(t, &sent)
	s.sendNow(4)
	if err := os.Remove(s.files()[0]); err != nil {
		t.Fatal(err)
	}
	inside := false
	got, err := s.reload(false, func(step string) error {
		if step == "events.manifest" && !inside {
			inside = true
			second := &reload{o: s.options(nil)}
			if err := second.run(t.Context()); err != nil || second.out.Loaded != 4 {
				t.Errorf("the second: got %+v, %v, want 4 events", second.out, err)
			}
		}
		return nil
	})
	if err != nil || got.Loaded != 0 || got.Stored != 16 {
		t.Errorf("the first: got %+v, %v, want nothing lacking", got, err)
	}
	check(t, openLake(t, s.tables, nil), sent)

	lost := []lake.Lost{{Oldest: time.Unix(100, 0)}, {Oldest: time.Unix(200, 0)}}
	if older := olderThan(lost, time.Unix(200, 0)); len(older) != 1 || !older[0].Oldest.Equal(time.Unix(100, 0)) {
		t.Errorf("got %v, want the first", older)
	}
}

// An erasure that begins while a reload commits waits for it, and deletes what it has loaded: also where the reload ends
// right after its commit.
func TestReloadBesideErasure(t *testing.T) {
	for name, end := range map[string]error{"done": nil, "ended": errors.New("crash")} {
		t.Run(name, func(t *testing.T) {
			var sent []*submission.Submission
			s := startReloading(t, &sent)
			s.sendNow(4)
			if err := os.Remove(s.files()[0]); err != nil {
				t.Fatal(err)
			}
			erased, deleted := make(chan error, 1), make(chan struct{})
			var once sync.Once
			beside := s.open(func(step string) error {
				if step == "events.forget" { // it has taken the rows out of all files
					once.Do(func() { close(deleted) })
				}
				return nil
			})
			got, err := s.reload(false, func(step string) error {
				switch step {
				case "events.metadata":
					stone, err := s.stone()
					if err != nil {
						return err
					}
					go func() { erased <- s.erase(beside, stone) }()
					select {
					case <-deleted:
						t.Error("the erasure went through the files before the reload had committed")
					case <-time.After(300 * time.Millisecond): // arbitrary; an erasure that does not wait takes 20 ms
					}
				case "events.committed":
					return end
				}
				return nil
			})
			if !errors.Is(err, end) || got.Loaded != 4 {
				t.Errorf("got %+v, %v, want 4 events loaded", got, err)
			}
			if err := <-erased; err != nil {
				t.Error(err)
			}
			if n := s.carrying("ifa-3"); n != 0 {
				t.Errorf("got %d rows that were erased, want none", n)
			}
			log, err := s.tombstones.Log(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			told := 0
			b, err := log.Bounds(t.Context())
			for n := b.First; err == nil && n <= b.Last; n++ {
				var lines []erasure.Line
				lines, err = log.Read(t.Context(), n)
				told += len(lines)
			}
			if err != nil || told != 4 {
				t.Errorf("the log of erased events: got %d rows, %v, want 4", told, err)
			}
		})
	}
}

// A process that was paused may have lost its lease, and somebody else has erased: the reload begins again.
func TestReloadAfterLostLease(t *testing.T) {
	var sent []*submission.Submission
	s := startReloading(t, &sent)
	s.sendNow(4)
	if err := os.Remove(s.files()[0]); err != nil {
		t.Fatal(err)
	}
	once := false
	o := s.options(nil)
	o.Progress = func(int, int) {
		if once {
			return
		}
		once = true
		stone, err := s.stone()
		if err == nil {
			err = s.tombstones.Finish(t.Context(), stone, time.Now())
		}
		if err != nil {
			t.Error(err)
		}
	}
	got, err := Reload(t.Context(), o)
	if err != nil || got.Loaded != 3 || got.Erased != 1 {
		t.Errorf("got %+v, %v, want 3 events loaded and one erased", got, err)
	}
}
