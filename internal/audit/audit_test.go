package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"sluice/internal/engine"
	"sluice/internal/enginetest"
)

var noon = time.Date(2026, 11, 14, 12, 0, 0, 0, time.UTC)

func TestMain(m *testing.M) { os.Exit(enginetest.Main(m)) }

// open returns the log of an engine in a directory, and the engine's directory.
func open(t *testing.T, engineDir, dir string) *Log {
	t.Helper()
	e, err := engine.Open(t.Context(), engine.Options{Dir: engineDir, Listen: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	l, err := Open(t.Context(), e, dir, noon)
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
	l := open(t, t.TempDir(), "")
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
			l := open(t, dir, "")
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
	l := open(t, dir, "")
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
		l, err := Open(t.Context(), e, "", noon)
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
	l, err := Open(t.Context(), e, "", noon)
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
		if n, err := l.Last(t.Context()); err == nil && n > 10 {
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

// files writes n entries as an earlier version did.
func files(t *testing.T, dir string, n int) {
	t.Helper()
	var log []byte
	prev := last{seal: zeroSeal}
	for i := range n {
		line, seal, err := encode(Entry{Seq: prev.Seq + 1, Prev: prev.seal, Time: noon, Actor: "user:old", Action: "old", Object: fmt.Sprint(dir, i)})
		if err != nil {
			t.Fatal(err)
		}
		log = append(append(log, line...), '\n')
		prev = last{prev.Seq + 1, seal}
	}
	write(t, dir, FileName, log)
	write(t, dir, HeadName, fmt.Appendf(nil, "%020d %s\n", prev.Seq, prev.seal))
}

// The file of an earlier version is taken over once, also if that was interrupted at any entry, with its seals; a second
// file, of another node, comes behind it.
func TestTakeOver(t *testing.T) {
	dir, other, at := t.TempDir(), t.TempDir(), t.TempDir()
	files(t, dir, 5)
	files(t, other, 3)
	whole := read(t, dir, FileName)
	l := open(t, at, "")
	lines := bytes.Split(bytes.TrimSpace(whole), []byte("\n"))
	for i := range 2 { // as far as a process came that was killed
		if err := l.journal.Append(t.Context(), lines[i], uint64(i)); err != nil {
			t.Fatal(err)
		}
	}
	take := func(dir string) {
		t.Helper()
		if err := l.takeOver(t.Context(), dir, noon); err != nil {
			t.Fatal(err)
		}
	}
	take(dir)
	s, err := l.Verify(t.Context())
	if err != nil || s.Entries != 5 || s.Seal != sealOf(lines[4]) {
		t.Fatalf("got %+v, %v, want the 5 entries with their seals", s, err)
	}
	// Killed before the file had its new name: everything is there already.
	for _, name := range []string{FileName, HeadName} {
		if err := os.Rename(filepath.Join(dir, takenPrefix+name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	fill(t, l, 1)
	take(dir)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.takeOver(ctx, other, noon); err == nil {
		t.Error("an interrupted takeover was taken for a whole one")
	}
	take(other)
	take(other)
	all, err := l.Tail(t.Context(), 100)
	if err != nil || len(all) != 9 || all[0].Actor != "user:old" || !strings.HasSuffix(all[0].Detail[originKey], "/3") {
		t.Fatalf("got %+v, %v, want 5, 1 and 3 entries", all, err)
	}
	if s, err := l.Verify(t.Context()); err != nil || s.Entries != 9 {
		t.Errorf("got %+v, %v, want 9 entries", s, err)
	}
	if !bytes.Equal(read(t, dir, takenPrefix+FileName), whole) {
		t.Error("the file of the earlier version is not kept as it was")
	}
}

// A file that was changed is kept, and what is wrong with it is in the log.
func TestTakeOverOfDamage(t *testing.T) {
	for name, damage := range map[string]func(log []byte) []byte{
		"one letter": func(log []byte) []byte { return bytes.Replace(log, []byte(`"old"`), []byte(`"odd"`), 1) },
		"tail cut":   func(log []byte) []byte { return log[:bytes.IndexByte(log, '\n')+1] },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			files(t, dir, 3)
			write(t, dir, FileName, damage(read(t, dir, FileName)))
			l := open(t, t.TempDir(), dir)
			all, err := l.Tail(t.Context(), 1)
			if err != nil || len(all) != 1 || all[0].Action != "audit.damaged" {
				t.Errorf("got %+v, %v, want a note of the damage", all, err)
			}
		})
	}
}

// What Save writes is the same log after a restore.
func TestSaveAndTakeOver(t *testing.T) {
	l := open(t, t.TempDir(), "")
	fill(t, l, 4)
	before, err := l.Verify(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := l.Save(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	after, err := open(t, t.TempDir(), dir).Verify(t.Context())
	if err != nil || after != before {
		t.Errorf("got %+v, %v, want %+v", after, err, before)
	}
}

func read(t *testing.T, dir, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func write(t *testing.T, dir, name string, b []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// The file that an earlier version wrote is taken over. That version wrote the action console.login.refused.
func TestEarlierLog(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/version1")); err != nil {
		t.Fatal(err)
	}
	l := open(t, t.TempDir(), dir)
	fill(t, l, 1)
	if s, err := l.Verify(t.Context()); err != nil || s.Entries != 4 {
		t.Fatalf("got %+v, %v", s, err)
	}
	tail, err := l.Tail(t.Context(), 9)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, e := range tail {
		got[e.Action]++
	}
	if len(tail) != 4 || got["console.login.refused"] != 1 || got["dataset.create"] != 2 || got["console.login"] != 1 {
		t.Errorf("got %v", got)
	}
}
