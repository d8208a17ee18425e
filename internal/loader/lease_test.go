package loader

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/engine"
	"sluice/internal/stream"
	"sluice/internal/submission"
)

func heldBy(l *Loader) (n int) {
	for _, p := range l.Stats().Partitions {
		if p.Held {
			n++
		}
	}
	return n
}

// Of two processes one loads all partitions and maintains the tables. When it stops, the other one does.
func TestOneCommitter(t *testing.T) {
	e, err := engine.Open(t.Context(), engine.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	const partitions = 4
	st, err := stream.Open(t.Context(), e, stream.Options{Partitions: partitions})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- st.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ran; st.Close() })
	until(t, "the stream", func() bool { return st.Ready() == nil })

	var maintaining atomic.Int64
	dir, quarantineDir := t.TempDir(), t.TempDir()
	begin := func() (*Loader, func()) {
		return start(t, Options{
			Stream: st, Lake: openLake(t, dir, nil), Quarantine: quarantineDir, Engine: e, Settle: time.Hour,
			Maintain: func(ctx context.Context) error {
				maintaining.Add(1)
				defer maintaining.Add(-1)
				<-ctx.Done()
				return nil
			},
		})
	}
	var sent []*submission.Submission
	send := func() {
		for range 3 * partitions {
			s := made(2, "shop")
			at, err := st.Append(t.Context(), record(s))
			if err != nil {
				t.Fatal(err)
			}
			decoded, err := testIDs.DecodeRecord(string(record(s)), at.Partition, at.Seq, at.Slot)
			if err != nil {
				t.Fatal(err)
			}
			sent = append(sent, decoded)
		}
	}
	loaded := func(l *Loader) {
		t.Helper()
		for p := range partitions {
			last, err := st.Last(t.Context(), uint8(p))
			if err != nil {
				t.Fatal(err)
			}
			until(t, "all frames", func() bool { return l.Watermark(uint8(p)) >= last })
		}
	}
	first, stopFirst := begin()
	until(t, "one loader of all partitions", func() bool { return heldBy(first) == partitions })
	second, stopSecond := begin()
	for range 3 {
		send()
		loaded(first)
		loaded(second) // it sees what the other one does
	}
	if n := heldBy(second); n != 0 || maintaining.Load() != 1 {
		t.Errorf("got %d partitions of the second and %d that maintain, want none and one", n, maintaining.Load())
	}
	if err := second.Flush(); err == nil {
		t.Error("got a flush from who loads nothing, want an error")
	}
	stopFirst()
	until(t, "the other one to load all partitions", func() bool { return heldBy(second) == partitions })
	send()
	loaded(second)
	stopSecond()
	check(t, openLake(t, dir, nil), sent)
}

// A committer that cannot write to the tables leaves loading to another process that can.
func TestCommitterResigns(t *testing.T) {
	e, err := engine.Open(t.Context(), engine.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	st, err := stream.Open(t.Context(), e, stream.Options{Partitions: 2})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- st.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ran; st.Close() })
	until(t, "the stream", func() bool { return st.Ready() == nil })

	dir, quarantineDir := t.TempDir(), t.TempDir()
	var cut atomic.Bool
	begin := func(step func(string) error) (*Loader, func()) {
		return start(t, Options{
			Stream: st, Lake: openLake(t, dir, step), Quarantine: quarantineDir, Engine: e,
			Settle: time.Hour, Patience: 300 * time.Millisecond,
		})
	}
	first, stopFirst := begin(func(string) error {
		if cut.Load() {
			return errors.New("cut off")
		}
		return nil
	})
	until(t, "a committer", func() bool { return heldBy(first) == 2 })
	second, stopSecond := begin(nil)
	cut.Store(true)
	s := made(2, "shop")
	at, err := st.Append(t.Context(), record(s))
	if err != nil {
		t.Fatal(err)
	}
	until(t, "another committer", func() bool { return second.Watermark(at.Partition) >= at.Seq })
	// It takes each partition on its own.
	until(t, "all partitions of the second, none of the first", func() bool {
		return heldBy(second) == 2 && heldBy(first) == 0
	})
	decoded, err := testIDs.DecodeRecord(string(record(s)), at.Partition, at.Seq, at.Slot)
	if err != nil {
		t.Fatal(err)
	}
	stopSecond()
	cut.Store(false)
	stopFirst()
	check(t, openLake(t, dir, nil), []*submission.Submission{decoded})
}
