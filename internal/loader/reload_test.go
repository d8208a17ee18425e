package loader

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/event"
	"sluice/internal/erasure"
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
	for range n {
		now := time.Now()
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
	l, err := lake.OpenDir(s.t.Context(), s.tables, lake.Options{Now: time.Now, Stream: s.stream.ID(), Step: step})
	if err != nil {
		s.t.Fatal(err)
	}
	return Reload(s.t.Context(), ReloadOptions{Stream: s.stream, Lake: l, IDs: testIDs, Erasures: s.tombstones, DryRun: dryRun})
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
	if _, err := s.tombstones.Add(t.Context(), erasure.IFA, "ifa-3", "", time.Now(), time.Hour); err != nil {
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

// Of two reloads side by side one loads, and the other finds nothing lacking. A file with events from before the stream
// is given up only if somebody agrees.
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
			if got, err := s.reload(false, nil); err != nil || got.Loaded != 4 {
				t.Errorf("the second: got %+v, %v, want 4 events", got, err)
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
