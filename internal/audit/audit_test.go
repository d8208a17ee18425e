package audit

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"sluice/internal/engine"
	"sluice/internal/enginetest"
)

var noon = time.Date(2026, 11, 14, 12, 0, 0, 0, time.UTC)

func TestMain(m *testing.M) { os.Exit(enginetest.Main(m)) }

// open returns the log of an engine in a directory.
func open(t *testing.T, dir string) *Log {
	t.Helper()
	e, err := engine.Open(t.Context(), engine.Options{Dir: dir, Listen: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	l, err := Open(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func fill(t *testing.T, l *Log, n int) {
	t.Helper()
	for i := range n {
		err := l.Append(t.Context(), Entry{Time: noon.Add(time.Duration(i) * time.Second), Actor: "user:test", Action: "dataset.create", Object: fmt.Sprint("d", i)})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestAppendVerify(t *testing.T) {
	l := open(t, t.TempDir())
	if s, err := l.Verify(t.Context()); err != nil || s.Entries != 0 {
		t.Fatalf("empty: got %+v, %v", s, err)
	}
	fill(t, l, 5)
	s, err := l.Verify(t.Context())
	if err != nil || s.Entries != 5 || !s.First.Equal(noon) || !s.Last.Equal(noon.Add(4*time.Second)) || len(s.Seal) != 64 {
		t.Fatalf("got %+v, %v", s, err)
	}
	tail, err := l.Tail(t.Context(), 2)
	if err != nil || len(tail) != 2 || tail[0].Object != "d4" || tail[1].Object != "d3" {
		t.Fatalf("tail: got %+v, %v", tail, err)
	}
	if tail, _ = l.Tail(t.Context(), 99); len(tail) != 5 || tail[4].Seq != 1 {
		t.Fatalf("whole tail: got %+v", tail)
	}
}

// What is done to the log and its head, and whether Verify must notice.
func TestDamage(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(lines [][]byte, head string) ([][]byte, string)
		noticed bool
	}{
		"untouched": {func(l [][]byte, head string) ([][]byte, string) { return l, head }, false},
		"one letter": {func(l [][]byte, head string) ([][]byte, string) {
			l[1] = bytes.Replace(l[1], []byte("d1"), []byte("d7"), 1)
			return l, head
		}, true},
		"entry removed": {func(l [][]byte, head string) ([][]byte, string) { return slices.Delete(l, 1, 2), head }, true},
		"first removed": {func(l [][]byte, head string) ([][]byte, string) { return l[1:], head }, true},
		"tail cut":      {func(l [][]byte, head string) ([][]byte, string) { return l[:2], head }, true},
		"all cut":       {func(_ [][]byte, head string) ([][]byte, string) { return nil, head }, true},
		"entries swapped": {func(l [][]byte, head string) ([][]byte, string) {
			l[1], l[2] = l[2], l[1]
			return l, head
		}, true},
		"entry doubled":   {func(l [][]byte, head string) ([][]byte, string) { return append(l, l[3]), head }, true},
		"rubbish added":   {func(l [][]byte, head string) ([][]byte, string) { return append(l, []byte("{}")), head }, true},
		"head one behind": {func(l [][]byte, _ string) ([][]byte, string) { return l, headOf(l[2]) }, false},
		"head far behind": {func(l [][]byte, _ string) ([][]byte, string) { return l, headOf(l[0]) }, true},
		"head lost":       {func(l [][]byte, _ string) ([][]byte, string) { return l, "?" }, true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			l := open(t, dir)
			fill(t, l, 4)
			js := enginetest.Attach(t, dir)
			var lines [][]byte
			if err := l.journal.Scan(t.Context(), 1, func(_ uint64, line []byte) error { lines = append(lines, line); return nil }); err != nil {
				t.Fatal(err)
			}
			now, err := l.settings.Get(t.Context(), headKey)
			if err != nil {
				t.Fatal(err)
			}
			changed, head := c.change(lines, string(now.Value))
			rewrite(t, js, changed)
			if _, err := l.settings.Put(t.Context(), headKey, []byte(head)); err != nil {
				t.Fatal(err)
			}
			_, err = l.Verify(t.Context())
			if c.noticed != errors.Is(err, ErrTampered) || !c.noticed && err != nil {
				t.Fatalf("got %v, want noticed=%v", err, c.noticed)
			}
		})
	}
}

// rewrite replaces everything in the log. The engine lets nobody change an entry, so the stream is made anew.
func rewrite(t *testing.T, js jetstream.JetStream, lines [][]byte) {
	t.Helper()
	const name = "SLUICE_AUDIT"
	s, err := js.Stream(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.DeleteMsg(t.Context(), 1); err == nil {
		t.Error("the engine lets a client delete an entry")
	}
	if err := s.Purge(t.Context()); err == nil {
		t.Error("the engine lets a client purge the log")
	}
	cfg := s.CachedInfo().Config
	if err := js.DeleteStream(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	for _, line := range lines {
		if _, err := js.Publish(t.Context(), cfg.Subjects[0], line); err != nil {
			t.Fatal(err)
		}
	}
}

func headOf(line []byte) string {
	e, seal, err := decode(line)
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf("%d %s", e.Seq, seal)
}

// Append does not go on from a last entry that was changed: the new entry would seal the change.
func TestAppendAfterTampering(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	fill(t, l, 1)
	line, err := l.journal.Get(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	rewrite(t, enginetest.Attach(t, dir), [][]byte{bytes.ReplaceAll(line, []byte("d0"), []byte("d9"))})
	if err := l.Append(t.Context(), Entry{Time: noon, Actor: "user:test", Action: "x"}); !errors.Is(err, ErrTampered) {
		t.Fatalf("got %v, want ErrTampered", err)
	}
}

// Several nodes with many goroutines each write one chain.
func TestManyNodes(t *testing.T) {
	srv := enginetest.Start(t, "")
	var wg sync.WaitGroup
	var one *Log
	for range 3 {
		e, err := engine.Open(t.Context(), engine.Options{URL: srv.URL(), Token: enginetest.Token})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { e.Close() })
		l, err := Open(t.Context(), e)
		if err != nil {
			t.Fatal(err)
		}
		one = l
		for range 4 {
			wg.Go(func() {
				for range 5 {
					if err := l.Append(t.Context(), Entry{Time: noon, Actor: "user:test", Action: "key.issue"}); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	wg.Wait()
	if s, err := one.Verify(t.Context()); err != nil || s.Entries != 60 {
		t.Errorf("got %+v, %v, want 60 entries", s, err)
	}
}

// An append whose answer got lost with its server is in the log once.
func TestServerKilledUnderAppends(t *testing.T) {
	srv := enginetest.Start(t, "")
	e, err := engine.Open(t.Context(), engine.Options{URL: srv.URL(), Token: enginetest.Token})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	l, err := Open(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		for i := range 60 {
			if err := l.Append(t.Context(), Entry{Time: noon, Actor: "user:test", Action: "a", Object: fmt.Sprint(i)}); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for {
		if _, n, err := l.Ends(t.Context()); err == nil && n > 10 {
			break
		}
	}
	srv.Restart()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	all, err := l.Tail(t.Context(), 1000)
	if err != nil || len(all) != 60 {
		t.Errorf("got %d entries, %v, want 60", len(all), err)
	}
	if s, err := l.Verify(t.Context()); err != nil || s.Entries != 60 {
		t.Errorf("got %+v, %v, want 60 entries", s, err)
	}
}

// What Save writes is the same log after a restore, on one machine and in a cluster. A restored log goes on. One whose oldest
// entries are gone begins with the same number.
func TestSaveAndRestore(t *testing.T) {
	l := open(t, t.TempDir())
	fill(t, l, 260) // more than are stored at once
	before, err := l.Verify(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := l.Save(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]engine.Options{
		"embedded": {Dir: t.TempDir()}, "external": {URL: enginetest.Start(t, "").URL(), Token: enginetest.Token},
	} {
		t.Run(name, func(t *testing.T) {
			again := restored(t, o, dir)
			if after, err := again.Verify(t.Context()); err != nil || after != before {
				t.Errorf("got %+v, %v, want %+v", after, err, before)
			}
			fill(t, again, 1)
			if after, err := again.Verify(t.Context()); err != nil || after.Entries != before.Entries+1 {
				t.Errorf("got %+v, %v, want one entry more", after, err)
			}
		})
	}
	t.Run("without its oldest", func(t *testing.T) {
		cut(t, dir, func(log []byte) []byte { return log[bytes.IndexByte(log, '\n')+1:] })
		again := restored(t, engine.Options{Dir: t.TempDir()}, dir)
		if first, last, err := again.Ends(t.Context()); err != nil || first != 2 || last != before.Entries {
			t.Errorf("got entries %d to %d, %v, want 2 to %d", first, last, err, before.Entries)
		}
	})
}

// A log that was changed before the backup, or in it, is restored as it is, and Verify says so.
func TestRestoreOfDamage(t *testing.T) {
	for name, damage := range map[string]func(log []byte) []byte{
		"one letter": func(log []byte) []byte { return bytes.Replace(log, []byte("d1"), []byte("d7"), 1) },
		"tail cut":   func(log []byte) []byte { return log[:bytes.IndexByte(log, '\n')+1] },
		"first line": func(log []byte) []byte { return append([]byte("{}\n"), log...) },
	} {
		t.Run(name, func(t *testing.T) {
			l := open(t, t.TempDir())
			fill(t, l, 3)
			dir := t.TempDir()
			if err := l.Save(t.Context(), dir); err != nil {
				t.Fatal(err)
			}
			cut(t, dir, damage)
			if s, err := restored(t, engine.Options{Dir: t.TempDir()}, dir).Verify(t.Context()); !errors.Is(err, ErrTampered) {
				t.Errorf("got %+v, %v, want %v", s, err, ErrTampered)
			}
		})
	}
}

// restored is the log of an engine, from the files in dir.
func restored(t *testing.T, o engine.Options, dir string) *Log {
	t.Helper()
	e, err := engine.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	if err := Restore(t.Context(), e, dir); err != nil {
		t.Fatal(err)
	}
	l, err := Open(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// cut changes the file of a log.
func cut(t *testing.T, dir string, change func([]byte) []byte) {
	t.Helper()
	path := filepath.Join(dir, fileName)
	b, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, change(b), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
