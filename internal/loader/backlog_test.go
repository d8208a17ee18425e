package loader

import (
	"context"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/engine"
	"sluice/internal/enginetest"
	"sluice/internal/stream"
)

func TestMain(m *testing.M) { os.Exit(enginetest.Main(m)) }

// What waits is a fact of the stream and the watermark: nobody has to load. Frames without records are no events, a
// watermark that nobody knows is not one at the end, and an engine that does not answer is not an empty one.
func TestBacklog(t *testing.T) {
	srv := enginetest.Start(t, "")
	e, err := engine.Open(t.Context(), engine.Options{URL: srv.URL(), Token: enginetest.Token})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	parts, err := e.Partitions(t.Context(), engine.PartitionOptions{Count: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer parts.Close()
	put := func(p int, records ...[]byte) (seq uint64) {
		t.Helper()
		if seq, err = parts.List[p].Publish(t.Context(), stream.AppendFrame(nil, records...)); err != nil {
			t.Fatal(err)
		}
		return seq
	}
	var mark atomic.Int64 // of partition 0; -1 is not known
	b := NewBacklog(BacklogOptions{
		Engine: e, Partitions: func() int { return 2 },
		Watermark: func(p uint8) (uint64, bool) {
			if p == 0 {
				return uint64(max(0, mark.Load())), mark.Load() >= 0
			}
			return 0, true
		},
	})
	look := func() BacklogStats { b.Look(t.Context()); return b.Stats() }
	if b.Stats().Known() {
		t.Error("got a backlog that is known before the first look")
	}
	mark.Store(-1)
	put(0)
	if got := look(); got.Waits() || !got.Known() || got.Age() != 0 {
		t.Errorf("an empty frame: got %+v, want nothing that waits", got)
	}
	first := put(0, []byte("one"))
	put(0, []byte("two"))
	stored := time.Now()
	time.Sleep(1500 * time.Millisecond) // it waits before anybody looks
	if got := look(); got[0].First != first || got.Known() ||
		got.Age() < time.Since(stored)-200*time.Millisecond || got.Age() > time.Minute || b.Age() < got.Age() {
		t.Errorf("with a watermark that nobody knows: got %+v, want frame %d, older than this process knows it", got, first)
	}
	mark.Store(0)
	if got := look(); !got.Waits() || !got.Known() {
		t.Errorf("got %+v, want a frame that waits", got)
	}
	mark.Store(int64(first))
	if got := look(); got[0].First != first+1 || got[1].First != 0 {
		t.Errorf("behind the first: got %+v, want frame %d", got, first+1)
	}
	mark.Store(int64(first) + 1)
	if got := look(); got.Waits() || !got.Known() || got.Age() != 0 {
		t.Errorf("at the end: got %+v, want nothing that waits", got)
	}
	mark.Store(int64(first) - 1) // somebody rolled the table back
	if got := look(); got[0].First != first {
		t.Errorf("rolled back: got %+v, want frame %d", got, first)
	}
	mark.Store(int64(first) + 1)
	look()
	srv.Kill()
	begun := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for b.Stats().Known() && ctx.Err() == nil {
		b.Look(ctx)
	}
	if got := b.Stats(); got.Known() || got.Waits() ||
		got.Age() < silentAfter || got.Age() > time.Since(begun)+silentAfter {
		t.Errorf("without the engine: got %+v, want one that is not known", got)
	}
	before := b.Stats()[0].Age
	mark.Add(1) // a commit of what was read before: something behind it may have waited as long
	b.Look(ctx)
	if got := b.Stats()[0].Age; got < before {
		t.Errorf("without the engine, after a commit: got %v, want %v or more", got, before)
	}
}

// A partition is unloaded when its watermark stands still though frames wait.
func TestUnloaded(t *testing.T) {
	at := func(age, moved time.Duration) PartitionBacklog {
		tl := &tail{}
		now := time.Now()
		tl.now.Store(&sight{known: true, first: 7, age: age, seen: now, asked: now, moved: now.Add(-moved)})
		return tl.stats()
	}
	for name, c := range map[string]struct {
		of   PartitionBacklog
		want int
	}{
		"new frame after a quiet hour": {at(time.Second, time.Hour), 0},
		"long backlog that moves":      {at(time.Hour, time.Second), 0},
		"stands still":                 {at(time.Hour, UnloadedAfter+time.Second), 1},
	} {
		if got := (BacklogStats{c.of}).Unloaded(); got != c.want {
			t.Errorf("%s: got %d of %+v, want %d", name, got, c.of, c.want)
		}
	}
}
