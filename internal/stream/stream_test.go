package stream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestAppendReadScan(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, b backend) {
		s := runStream(t, b.engine, Options{Partitions: 2})
		const callers, each = 32, 20
		var promised ledger
		var wg sync.WaitGroup
		for c := range callers {
			wg.Go(func() {
				for i := range each {
					rec := fmt.Sprintf("record %d/%d", c, i)
					buf := []byte(rec)
					at, err := s.Append(t.Context(), buf)
					if err != nil {
						t.Error(err)
						return
					}
					clear(buf) // it is the caller's again
					promised.add(t, at, rec)
				}
			})
		}
		wg.Wait()
		for at, want := range promised.acked {
			got, err := s.Read(t.Context(), at)
			if err != nil || string(got) != want {
				t.Fatalf("Read(%v): got %q, %v, want %q", at, got, err, want)
			}
		}
		stored := contents(t, s, 0)
		if n := len(stored); n == 0 || n == callers*each {
			t.Errorf("%d of %d records in partition 0, want a share", n, callers*each)
		}
		for at, r := range contents(t, s, 1) {
			stored[at] = r
		}
		promised.check(t, stored)
		if len(stored) != callers*each {
			t.Errorf("%d records stored, want %d", len(stored), callers*each)
		}
		st := s.Stats()
		if st.Records != callers*each || st.Frames == 0 || st.Frames >= st.Records || st.Queued != 0 || !st.Ready {
			t.Errorf("stats %+v", st)
		}
	})
}

func TestAppendKeyed(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, b backend) {
		s := runStream(t, b.engine, Options{})
		var wg sync.WaitGroup
		var mu sync.Mutex
		stored, rejected := 0, 0
		for i := range 64 {
			wg.Go(func() {
				_, err := s.AppendKeyed(t.Context(), "key", []byte(fmt.Sprint("record ", i)))
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					stored++
				case errors.Is(err, ErrExists):
					rejected++
				default:
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if stored != 1 || rejected != 63 {
			t.Errorf("stored %d, rejected %d, want 1 and 63", stored, rejected)
		}
		first, at, err := s.ReadKeyed(t.Context(), "key")
		if err != nil {
			t.Fatal(err)
		}
		b.bounce(t)
		eventually(t, "readiness", func() bool { return s.Ready() == nil })
		eventually(t, "second rejection", func() bool {
			_, err := s.AppendKeyed(t.Context(), "key", []byte("another"))
			if err == nil {
				t.Fatal("the key was taken twice")
			}
			return errors.Is(err, ErrExists)
		})
		again, err := s.Read(t.Context(), at)
		if err != nil || !bytes.Equal(again, first) {
			t.Errorf("Read(%v) = %q, %v, want %q", at, again, err, first)
		}
		if _, _, err := s.ReadKeyed(t.Context(), "Key"); !errors.Is(err, ErrNotFound) {
			t.Errorf("ReadKeyed of an unknown key: %v, want ErrNotFound", err)
		}
		if n := len(contents(t, s, 0)); n != 1 {
			t.Errorf("%d records, want 1", n)
		}
	})
}

func TestBounceWhileAppending(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, b backend) {
		s := runStream(t, b.engine, Options{AckTimeout: 900 * time.Millisecond})
		stop := make(chan struct{})
		var wg sync.WaitGroup
		var promised ledger
		for c := range 8 {
			wg.Go(func() {
				for i := 0; ; i++ {
					rec := fmt.Sprintf("%d/%d", c, i)
					at, err := s.Append(t.Context(), []byte(rec))
					if err == nil {
						promised.add(t, at, rec)
					}
					pause := time.Duration(0)
					if err != nil {
						pause = time.Millisecond // as a sender would
					}
					select {
					case <-stop:
						return
					case <-time.After(pause):
					}
				}
			})
		}
		// A follower lives through it and sees everything once.
		var followed ledger
		var reached atomic.Uint64
		ctx, cancel := context.WithCancel(t.Context())
		var following sync.WaitGroup
		following.Go(func() {
			err := s.Follow(ctx, 0, 1, 10*time.Millisecond, func(f Frame) error {
				defer reached.Store(f.Seq)
				for i, r := range f.Records {
					followed.add(t, Position{Seq: f.Seq, Slot: uint16(i)}, string(r))
				}
				return nil
			})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("Follow: %v, want the end of its context", err)
			}
		})
		eventually(t, "appends", func() bool { return promised.len() > 100 })
		for range 2 {
			b.bounce(t)
			n := promised.len()
			eventually(t, "appends after the bounce", func() bool { return promised.len() > n+100 })
		}
		close(stop)
		wg.Wait()
		last := uint64(0)
		for at := range promised.acked {
			last = max(last, at.Seq)
		}
		eventually(t, "end of following", func() bool { return reached.Load() >= last })
		cancel()
		following.Wait()
		promised.check(t, contents(t, s, 0))
		promised.check(t, followed.acked)
	})
}

func TestReadTellsWhyNot(t *testing.T) {
	s := runStream(t, openEngine(t, t.TempDir()), Options{})
	at, err := s.Append(t.Context(), []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		at   Position
		want error
	}{
		"other slot":      {Position{Seq: at.Seq, Slot: 1}, ErrNotFound},
		"later":           {Position{Seq: at.Seq + 1}, ErrNotFound},
		"zero":            {Position{}, ErrNotFound},
		"other partition": {Position{Partition: 1, Seq: 1}, ErrNotFound},
	} {
		if _, err := s.Read(t.Context(), c.at); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func TestRecordsAgeOut(t *testing.T) {
	s := runStream(t, openEngine(t, t.TempDir()), Options{MaxAge: 200 * time.Millisecond})
	old, err := s.AppendKeyed(t.Context(), "key", []byte("old"))
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "ageing", func() bool {
		_, err := s.Read(t.Context(), old)
		return errors.Is(err, ErrGone)
	})
	if _, _, err := s.ReadKeyed(t.Context(), "key"); !errors.Is(err, ErrNotFound) {
		t.Errorf("key of an aged record: %v, want ErrNotFound", err)
	}
	fresh, err := s.AppendKeyed(t.Context(), "key", []byte("new"))
	if err != nil {
		t.Fatal(err)
	}
	scan := func(from uint64) (frames []Frame) {
		t.Helper()
		if err := s.Scan(t.Context(), 0, from, func(f Frame) error { frames = append(frames, f); return nil }); err != nil {
			t.Fatal(err)
		}
		return frames
	}
	if got := scan(1); len(got) != 1 || got[0].Seq != fresh.Seq || got[0].Missing != fresh.Seq-1 {
		t.Errorf("scan from 1: %+v, want frame %d with all before it missing", got, fresh.Seq)
	}
}

func TestScanFromAnywhere(t *testing.T) {
	s := runStream(t, openEngine(t, t.TempDir()), Options{})
	for i := range 700 { // more than two batches
		if _, err := s.Append(t.Context(), []byte(fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	last, err := s.Last(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, from := range []uint64{0, 1, 2, 256, 257, last, last + 1} {
		next := max(from, 1)
		if err := s.Scan(t.Context(), 0, from, func(f Frame) error {
			if f.Seq != next || f.Time.IsZero() {
				t.Fatalf("from %d: frame %d at %v, want %d", from, f.Seq, f.Time, next)
			}
			next++
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if next != last+1 {
			t.Errorf("from %d: scan ended before %d, want %d", from, next, last+1)
		}
	}
	if err := s.Scan(t.Context(), 0, last+2, func(Frame) error { return nil }); !errors.Is(err, ErrBehind) {
		t.Errorf("from behind the end: %v, want ErrBehind", err)
	}
	enough := errors.New("enough")
	if err := s.Scan(t.Context(), 0, 1, func(Frame) error { return enough }); err != enough {
		t.Errorf("scan ended by its reader: %v, want that error", err)
	}
	if err := s.Scan(t.Context(), 9, 1, func(Frame) error { return nil }); !errors.Is(err, ErrNotFound) {
		t.Errorf("unknown partition: %v, want ErrNotFound", err)
	}
}

func TestLargeAndManyRecords(t *testing.T) {
	s := runStream(t, openEngine(t, t.TempDir()), Options{})
	large := bytes.Repeat([]byte("0123456789"), 600_000) // more than a request can carry
	at, err := s.Append(t.Context(), large)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := s.Read(t.Context(), at); err != nil || !bytes.Equal(got, large) {
		t.Errorf("%d bytes came back as %d, %v", len(large), len(got), err)
	}
	if _, err := s.Append(t.Context(), make([]byte, 9<<20)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("9 MiB: %v, want ErrTooLarge", err)
	}
	// More callers at once than a frame has slots.
	var promised ledger
	var wg sync.WaitGroup
	for i := range MaxSlots + 500 {
		wg.Go(func() {
			rec := fmt.Sprint(i)
			at, err := s.Append(t.Context(), []byte(rec))
			if err != nil {
				t.Error(err)
				return
			}
			promised.add(t, at, rec)
		})
	}
	wg.Wait()
	promised.check(t, contents(t, s, 0))
}

func TestPartitionsGrowButNeverShrink(t *testing.T) {
	dir := t.TempDir()
	e := openEngine(t, dir)
	s := openStream(t, e, Options{Partitions: 2, MaxAge: time.Hour})
	stop := run(t, s)
	const keys = 40
	for i := range keys {
		if _, err := s.AppendKeyed(t.Context(), fmt.Sprint("key ", i), []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	if _, err := Open(t.Context(), e, Options{Partitions: 1}); err == nil || !strings.Contains(err.Error(), "2 partitions") {
		t.Errorf("opened with fewer partitions: %v", err)
	}
	if _, err := Open(t.Context(), e, Options{Partitions: MaxPartitions + 1}); err == nil {
		t.Error("opened with too many partitions")
	}
	s = runStream(t, e, Options{Partitions: 3})
	for i := range keys {
		if _, err := s.AppendKeyed(t.Context(), fmt.Sprint("key ", i), []byte("y")); !errors.Is(err, ErrExists) {
			t.Errorf("key %d after growth: %v, want ErrExists", i, err)
		}
	}
	// A command that names no limits leaves them as they are.
	if got := openStream(t, e, Options{}).Partitions(); got != 3 {
		t.Errorf("%d partitions, want 3", got)
	}
	if got, err := s.Retention(t.Context()); err != nil || got != time.Hour {
		t.Errorf("records are kept for %v, %v, want the hour they were given", got, err)
	}
}
