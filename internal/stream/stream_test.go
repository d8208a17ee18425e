package stream

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"sluice/internal/engine"
)

func openEngine(t testing.TB, dir string) *engine.Engine {
	t.Helper()
	e, err := engine.Open(t.Context(), engine.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

func runStream(t testing.TB, e *engine.Engine, o Options) *Stream {
	t.Helper()
	s, err := Open(t.Context(), e, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := s.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); wg.Wait(); s.Close() })
	return s
}

func TestAppendReadScan(t *testing.T) {
	e := openEngine(t, t.TempDir())
	s := runStream(t, e, Options{})
	const callers, each = 32, 50
	var mu sync.Mutex
	at := map[Position]string{}
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for i := range each {
				rec := fmt.Sprintf("record %d/%d", c, i)
				pos, err := s.Append(t.Context(), []byte(rec))
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				if other, dup := at[pos]; dup {
					t.Errorf("%q and %q both at %v", other, rec, pos)
				}
				at[pos] = rec
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for pos, want := range at {
		got, err := s.Read(t.Context(), pos)
		if err != nil || string(got) != want {
			t.Fatalf("Read(%v): got %q, %v, want %q", pos, got, err, want)
		}
	}
	seen := 0
	err := s.Scan(t.Context(), 0, 0, func(f Frame) error {
		if f.Missing != 0 || f.Damaged != nil {
			t.Errorf("frame %d: missing %d, damaged %v", f.Seq, f.Missing, f.Damaged)
		}
		for i, r := range f.Records {
			if want := at[Position{Seq: f.Seq, Slot: uint16(i)}]; string(r) != want {
				t.Errorf("frame %d slot %d: got %q, want %q", f.Seq, i, r, want)
			}
			seen++
		}
		return nil
	})
	if err != nil || seen != callers*each {
		t.Fatalf("Scan: %v, saw %d records, want %d", err, seen, callers*each)
	}
	t.Logf("%+v", s.Stats())
}

func TestAppendOnce(t *testing.T) {
	e := openEngine(t, t.TempDir())
	s := runStream(t, e, Options{})
	var wg sync.WaitGroup
	var mu sync.Mutex
	stored, exists := 0, 0
	for i := range 64 {
		wg.Go(func() {
			_, err := s.AppendOnce(t.Context(), "key", []byte(fmt.Sprint("record ", i)))
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				stored++
			case errors.Is(err, ErrExists):
				exists++
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if stored != 1 || exists != 63 {
		t.Errorf("stored %d, refused %d, want 1 and 63", stored, exists)
	}
	if _, _, err := s.ReadOnce(t.Context(), "another"); !errors.Is(err, ErrNotFound) {
		t.Errorf("ReadOnce of an unknown key: %v, want ErrNotFound", err)
	}
	rec, pos, err := s.ReadOnce(t.Context(), "key")
	if err != nil {
		t.Fatal(err)
	}
	again, err := s.Read(t.Context(), pos)
	if err != nil || string(again) != string(rec) {
		t.Errorf("Read(%v) = %q, %v, want %q", pos, again, err, rec)
	}
}

func TestRestartWhileAppending(t *testing.T) {
	e := openEngine(t, t.TempDir())
	s := runStream(t, e, Options{})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var mu sync.Mutex
	acked := map[string]Position{}
	for c := range 8 {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				rec := fmt.Sprintf("%d/%d", c, i)
				pos, err := s.Append(ctx, []byte(rec))
				if err != nil {
					continue
				}
				mu.Lock()
				acked[rec] = pos
				mu.Unlock()
			}
		})
	}
	count := func() int { mu.Lock(); defer mu.Unlock(); return len(acked) }
	eventually(t, "first appends", func() bool { return count() > 100 })
	for range 2 {
		if err := e.Restart(ctx); err != nil {
			t.Fatal(err)
		}
		n := count()
		eventually(t, "appends after the restart", func() bool { return count() > n+100 })
	}
	close(stop)
	wg.Wait()
	have := map[string]bool{}
	if err := s.Scan(ctx, 0, 1, func(f Frame) error {
		if f.Missing > 0 || f.Damaged != nil {
			t.Errorf("frame %d: missing %d, damaged %v", f.Seq, f.Missing, f.Damaged)
		}
		for _, r := range f.Records {
			have[string(r)] = true
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for rec, pos := range acked {
		if !have[rec] {
			t.Errorf("acknowledged record %s at %v is gone", rec, pos)
		}
	}
	t.Logf("%+v", s.Stats())
}

// eventually waits for a condition that other goroutines bring about.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("no %s in time", what)
		}
	}
}
