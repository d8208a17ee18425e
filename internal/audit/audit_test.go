package audit

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var noon = time.Date(2026, 11, 14, 12, 0, 0, 0, time.UTC)

func fill(t *testing.T, l *Log, n int) {
	t.Helper()
	for i := range n {
		err := l.Append(Entry{Time: noon.Add(time.Duration(i) * time.Second), Actor: "user:test", Action: "dataset.create", Object: fmt.Sprint("d", i)})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestAppendVerify(t *testing.T) {
	l := Open(t.TempDir())
	if s, err := l.Verify(); err != nil || s.Entries != 0 {
		t.Fatalf("empty: got %+v, %v", s, err)
	}
	fill(t, l, 5)
	s, err := l.Verify()
	if err != nil || s.Entries != 5 || !s.First.Equal(noon) || !s.Last.Equal(noon.Add(4*time.Second)) || len(s.Seal) != 64 {
		t.Fatalf("got %+v, %v", s, err)
	}
	tail, err := l.Tail(2)
	if err != nil || len(tail) != 2 || tail[0].Object != "d4" || tail[1].Object != "d3" {
		t.Fatalf("tail: got %+v, %v", tail, err)
	}
	if tail, _ = l.Tail(99); len(tail) != 5 || tail[4].Seq != 1 {
		t.Fatalf("whole tail: got %+v", tail)
	}
}

// What is done to the files, and whether Verify must notice.
func TestDamage(t *testing.T) {
	lines := func(b []byte) [][]byte { return bytes.SplitAfter(b, []byte("\n")) }
	for name, c := range map[string]struct {
		change  func(log, head []byte) ([]byte, []byte)
		noticed bool
	}{
		"untouched": {func(log, head []byte) ([]byte, []byte) { return log, head }, false},
		"one letter": {func(log, head []byte) ([]byte, []byte) {
			return bytes.Replace(log, []byte("d1"), []byte("d7"), 1), head
		}, true},
		"line removed": {func(log, head []byte) ([]byte, []byte) {
			return bytes.Join(append(lines(log)[:1:1], lines(log)[2:]...), nil), head
		}, true},
		"first removed": {func(log, head []byte) ([]byte, []byte) { return bytes.Join(lines(log)[1:], nil), head }, true},
		"tail cut":      {func(log, head []byte) ([]byte, []byte) { return bytes.Join(lines(log)[:3], nil), head }, true},
		"all cut":       {func(log, head []byte) ([]byte, []byte) { return nil, head }, true},
		"lines swapped": {func(log, head []byte) ([]byte, []byte) {
			l := lines(log)
			l[1], l[2] = l[2], l[1]
			return bytes.Join(l, nil), head
		}, true},
		"line doubled":    {func(log, head []byte) ([]byte, []byte) { return append(log, lines(log)[3]...), head }, true},
		"rubbish added":   {func(log, head []byte) ([]byte, []byte) { return append(log, "{}\n"...), head }, true},
		"torn tail":       {func(log, head []byte) ([]byte, []byte) { return append(log, `{"seq":5,"ti`...), head }, false},
		"head one behind": {func(log, head []byte) ([]byte, []byte) { return log, headOf(lines(log)[2]) }, false},
		"head far behind": {func(log, head []byte) ([]byte, []byte) { return log, headOf(lines(log)[0]) }, true},
		"head lost":       {func(log, head []byte) ([]byte, []byte) { return log, []byte("?") }, true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			l := Open(dir)
			fill(t, l, 4)
			log, head := read(t, dir, FileName), read(t, dir, HeadName)
			log, head = c.change(log, head)
			write(t, dir, FileName, log)
			write(t, dir, HeadName, head)
			_, err := l.Verify()
			if c.noticed != errors.Is(err, ErrTampered) || !c.noticed && err != nil {
				t.Fatalf("got %v, want noticed=%v", err, c.noticed)
			}
		})
	}
}

func headOf(line []byte) []byte {
	e, seal, err := decode(bytes.TrimSpace(line))
	if err != nil {
		panic(err)
	}
	return fmt.Appendf(nil, "%020d %s\n", e.Seq, seal)
}

// A log of an earlier version is verified, read and continued. That version wrote the action console.login.refused.
func TestEarlierLog(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/version1")); err != nil {
		t.Fatal(err)
	}
	l := Open(dir)
	fill(t, l, 1)
	if s, err := l.Verify(); err != nil || s.Entries != 4 {
		t.Fatalf("got %+v, %v", s, err)
	}
	tail, err := l.Tail(9)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range tail {
		got = append(got, e.Action)
	}
	if want := []string{"dataset.create", "console.login", "console.login.refused", "dataset.create"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A torn line was never acknowledged: the next append goes on from the last whole one.
func TestTornTail(t *testing.T) {
	dir := t.TempDir()
	l := Open(dir)
	fill(t, l, 2)
	write(t, dir, FileName, append(read(t, dir, FileName), `{"seq":3,"time":"2026`...))
	if s, err := l.Verify(); err != nil || !s.Torn || s.Entries != 2 {
		t.Fatalf("torn: got %+v, %v", s, err)
	}
	fill(t, l, 1)
	if s, err := l.Verify(); err != nil || s.Torn || s.Entries != 3 {
		t.Fatalf("after append: got %+v, %v", s, err)
	}
}

// Append does not go on from a last line that was changed: it would seal the lie.
func TestAppendAfterTampering(t *testing.T) {
	dir := t.TempDir()
	l := Open(dir)
	fill(t, l, 2)
	write(t, dir, FileName, bytes.ReplaceAll(read(t, dir, FileName), []byte("d1"), []byte("d9")))
	if err := l.Append(Entry{Time: noon, Actor: "user:test", Action: "x"}); !errors.Is(err, ErrTampered) {
		t.Fatalf("got %v, want ErrTampered", err)
	}
}

// Two processes with many goroutines each write one chain.
func TestManyProcesses(t *testing.T) {
	dir := os.Getenv("SLUICE_AUDIT_TEST_DIR")
	child := dir != ""
	if !child {
		dir = t.TempDir()
		cmd := exec.Command(os.Args[0], "-test.run=^TestManyProcesses$")
		cmd.Env = append(os.Environ(), "SLUICE_AUDIT_TEST_DIR="+dir)
		var out strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := cmd.Wait(); err != nil {
				t.Fatalf("child: %v\n%s", err, out.String())
			}
			if s, err := Open(dir).Verify(); err != nil || s.Entries != 80 {
				t.Fatalf("got %+v, %v, want 80 entries", s, err)
			}
		}()
	}
	l, other := Open(dir), Open(dir)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			log := l
			if g%2 == 1 {
				log = other
			}
			for range 10 {
				if err := log.Append(Entry{Time: noon, Actor: "user:test", Action: "key.issue"}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
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
