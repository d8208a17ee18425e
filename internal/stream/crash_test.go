package stream

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/internal/engine"
)

const childEnv = "SLUICE_STREAM_TEST_CHILD"

// child is the process that gets killed: it appends without end and prints a line for every acknowledgement. Half the
// records have a key; each key is tried by two callers.
func child(dir string) int {
	ctx := context.Background()
	e, err := engine.Open(ctx, engine.Options{Dir: dir})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	s, err := Open(ctx, e, Options{AckTimeout: 20 * time.Second})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	go s.Run(ctx)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for c := range 16 {
		wg.Go(func() {
			for i := 0; ; i++ {
				rec := fmt.Sprintf("%d:%d:%d", os.Getpid(), c, i)
				var at Position
				var err error
				if key := fmt.Sprintf("%d:%d:%d", os.Getpid(), c/2, i); c < 8 {
					rec += ":" + key
					at, err = s.AppendKeyed(ctx, key, []byte(rec))
				} else {
					at, err = s.Append(ctx, []byte(rec))
				}
				if errors.Is(err, ErrExists) {
					continue
				}
				if err != nil {
					fmt.Fprintln(os.Stderr, err)
					return
				}
				mu.Lock()
				fmt.Println(at.Seq, at.Slot, rec) // one write to a pipe: whole or not at all
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return 1
}

// TestKill kills a process that appends, again and again over one directory. What it got an acknowledgement for must be there,
// at its position, and no key may have been taken twice.
func TestKill(t *testing.T) {
	dir := t.TempDir()
	var promised ledger
	for round := range 5 {
		cmd := exec.Command(os.Args[0], "-test.run=^$")
		cmd.Env = append(os.Environ(), childEnv+"="+dir)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		// Killed after a number of lines that differs by round, then whatever else was said is read.
		lines := bufio.NewScanner(out)
		for n := 0; lines.Scan(); n++ {
			if n == 200+37*round {
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
			at, rec, ok := parseLine(lines.Text())
			if !ok {
				t.Fatalf("unreadable line %q", lines.Text())
			}
			promised.add(t, at, rec)
		}
		_ = cmd.Wait() // it was killed
		checkAfterKill(t, dir, &promised)
	}
	if promised.len() < 1000 {
		t.Errorf("only %d acknowledgements in all rounds", promised.len())
	}
}

func parseLine(line string) (at Position, rec string, ok bool) {
	f := strings.Fields(line)
	if len(f) != 3 || strings.Count(f[2], ":") < 2 {
		return at, "", false
	}
	seq, err1 := strconv.ParseUint(f[0], 10, 64)
	slot, err2 := strconv.ParseUint(f[1], 10, 16)
	return Position{Seq: seq, Slot: uint16(slot)}, f[2], err1 == nil && err2 == nil
}

func checkAfterKill(t *testing.T, dir string, promised *ledger) {
	t.Helper()
	e := openEngine(t, dir)
	defer e.Close()
	s := openStream(t, e, Options{})
	defer s.Close()
	stored := contents(t, s, 0)
	promised.check(t, stored)
	keys := map[string]Position{}
	for at, rec := range stored {
		if parts := strings.Split(rec, ":"); len(parts) == 6 {
			key := strings.Join(parts[3:], ":")
			if other, twice := keys[key]; twice {
				t.Errorf("key %s is at %v and at %v", key, other, at)
			}
			keys[key] = at
			if got, _, err := s.ReadKeyed(t.Context(), key); err != nil || string(got) != rec {
				t.Errorf("ReadKeyed(%s): %q, %v, want %q", key, got, err, rec)
			}
		}
	}
}
