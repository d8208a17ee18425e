package stream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"sluice/internal/engine"
	"sluice/internal/enginetest"
)

// A partition without a leader takes only itself down: appends go around it, and keys of other partitions work. It is
// taken up again when its server comes back.
func TestOnePartitionDown(t *testing.T) {
	nodes := enginetest.StartCluster(t, 3)
	const home, victim = "n0", "n2"
	e := openCluster(t, engine.Options{URL: nodes[0].URL(), Token: enginetest.Token, Replicas: 1})
	s := runStream(t, e, Options{Partitions: 6, AckTimeout: 3 * time.Second})
	eventually(t, "readiness", func() bool { return s.Ready() == nil && len(s.ailing()) == 0 })

	// Each partition has one copy. The last one moves to a server of its own, which then dies. The connection goes to another.
	leader := func(w *writer) string {
		st, err := w.log.State(t.Context())
		if err != nil {
			return ""
		}
		return st.Leader
	}
	moved, server := s.writers[5], nodes[2]
	for _, w := range s.writers {
		to := home
		if w == moved {
			to = victim
		}
		place(t, server, fmt.Sprint("SLUICE_", w.part), to)
		eventually(t, "move", func() bool { return leader(w) == to })
	}
	eventually(t, "readiness after the move", func() bool { return s.Ready() == nil && len(s.ailing()) == 0 })
	server.Kill()
	// Only a record that is on its way while the server dies may get no answer. Nobody gets one that comes later, so it is
	// stored in another partition.
	unknown := 0
	for i := range 60 {
		at, err := s.Append(t.Context(), []byte(fmt.Sprint("around ", i)))
		if errors.Is(err, ErrTimeout) && unknown == 0 {
			unknown++
		} else if err != nil || at.Partition == moved.part {
			t.Errorf("append %d: got %v, %v, want another partition than %d", i, at, err, moved.part)
		}
	}
	if down := s.ailing(); len(down) != 1 || down[0] != moved {
		t.Errorf("got %d partitions that are down, want partition %d alone", len(down), moved.part)
	}
	if err := s.Ready(); err != nil {
		t.Errorf("got %v, want a stream that is ready", err)
	}
	for i, seen := 0, [2]bool{}; !seen[0] || !seen[1]; i++ { // a key of each kind
		key := fmt.Sprint("key ", i)
		name := keyName(key)
		home := s.writers[name.home(s.parts.Keyed)]
		start := time.Now()
		_, err := s.AppendKeyed(t.Context(), key, []byte(key))
		if home == moved {
			seen[0] = true
			if !errors.Is(err, ErrUnavailable) || time.Since(start) > 500*time.Millisecond {
				t.Errorf("a key of a partition that is away: got %v after %v, want ErrUnavailable at once", err, time.Since(start))
			}
		} else if seen[1] = true; err != nil {
			t.Errorf("a key of another partition: %v", err)
		}
	}
	if failed := s.Stats().Failed; failed > uint64(unknown) {
		t.Errorf("got %d records that count as failed, want %d", failed, unknown)
	}
	server.Restart()
	eventually(t, "partition that is up again", func() bool { return len(s.ailing()) == 0 })
	if lost := s.Stats().Lost; lost != 0 {
		t.Errorf("got %d frames reported as lost, want none", lost)
	}
}

// Records that come one by one take turns over the partitions. Those that come together share frames.
func TestTurns(t *testing.T) {
	srv := enginetest.Start(t, "")
	s := runStream(t, openExternal(t, srv), Options{Partitions: 6})
	const each = 20
	records := map[uint8]int{}
	for range 6 * each {
		at, err := s.Append(t.Context(), []byte("alone"))
		if err != nil {
			t.Fatal(err)
		}
		records[at.Partition]++
	}
	for p, n := range records {
		if len(records) < 6 || n < each/2 || n > each*2 {
			t.Errorf("partition %d has %d of %d records in a row, want about %d in each of 6: %v", p, n, 6*each, each, records)
		}
	}

	const senders, rounds = 64, 20
	var mu sync.Mutex
	frames := map[Position]bool{}
	var wg sync.WaitGroup
	for range senders {
		wg.Go(func() {
			for range rounds {
				at, err := s.Append(t.Context(), []byte("together"))
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				frames[Position{Partition: at.Partition, Seq: at.Seq}] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if got := len(frames); got > senders*rounds/16 {
		t.Errorf("%d records of %d senders are in %d frames, want 16 or more in a frame", senders*rounds, senders, got)
	}
}

// Records go around a partition with a frame that is on its way for long, or with much that waits, unless all are so.
func TestPickGoesAround(t *testing.T) {
	s := openStream(t, openExternal(t, enginetest.Start(t, "")), Options{Partitions: 3})
	picked := func() map[uint8]int {
		got := map[uint8]int{}
		for range 30 {
			got[s.pick().part]++
		}
		return got
	}
	s.writers[1].oldest.Store(&group{born: time.Now().Add(-2 * slowFrame)})
	if got := picked(); got[1] != 0 {
		t.Errorf("one slow partition: got %v, want others", got)
	}
	s.writers[2].waiting.Store(enoughWaiting)
	if got := picked(); got[0] != 30 {
		t.Errorf("a slow partition and a full one: got %v, want the other", got)
	}
	s.writers[0].waiting.Store(enoughWaiting)
	if got := picked(); got[1] != 30 {
		t.Errorf("a slow partition and two full ones: got %v, want the slow one", got)
	}
	s.writers[1].waiting.Store(enoughWaiting)
	if got := picked(); got[0] != 10 || got[1] != 10 || got[2] != 10 {
		t.Errorf("all are full: got %v, want all by turns", got)
	}
	down := errors.New("down")
	s.writers[0].down.Store(&down)
	if got := picked(); got[0] != 0 || len(got) != 2 {
		t.Errorf("all are full and one is down: got %v, want the two others", got)
	}
}

// A record that waits behind a frame which takes long goes to another partition; the frame itself may still be stored.
func TestWaitingRecordGoesElsewhere(t *testing.T) {
	begun, release := make(chan struct{}), make(chan struct{})
	var first atomic.Bool
	s := runStream(t, openExternal(t, enginetest.Start(t, "")), Options{Partitions: 3, AckTimeout: 30 * time.Second, Step: func(name string) error {
		if name == "append.publish" && first.CompareAndSwap(false, true) {
			close(begun)
			<-release
		}
		return nil
	}})
	type answer struct {
		at  Position
		err error
	}
	begin := func() <-chan answer {
		ch := make(chan answer, 1)
		go func() {
			at, err := s.Append(t.Context(), []byte("record"))
			ch <- answer{at, err}
		}()
		return ch
	}
	stuck := begin()
	<-begun
	var slow *writer
	for _, w := range s.writers {
		if w.oldest.Load() != nil {
			slow = w
		}
	}
	var others []<-chan answer
	for range 10 {
		others = append(others, begin())
	}
	s.queued.Add(1)
	g, _, err := slow.add([]byte("x"), nil) // waits there for sure
	if err != nil {
		t.Fatal(err)
	}
	if <-g.done; g.err != errElsewhere {
		t.Errorf("a record that waits behind a slow frame: got %v, want errElsewhere", g.err)
	}
	for _, other := range others {
		if a := <-other; a.err != nil || a.at.Partition == slow.part {
			t.Errorf("got %v, %v, want another partition than %d", a.at, a.err, slow.part)
		}
	}
	close(release)
	if a := <-stuck; a.err != nil || a.at.Partition != slow.part {
		t.Errorf("the frame that took long: got %v, %v, want partition %d", a.at, a.err, slow.part)
	}
	eventually(t, "end of waiting", func() bool { return s.queued.Load() == 0 })
}

// place moves a stream to a server.
func place(t *testing.T, via *enginetest.Server, name, to string) {
	t.Helper()
	js := via.JetStream()
	st, err := js.Stream(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	cfg := st.CachedInfo().Config
	cfg.Placement = &jetstream.Placement{Tags: []string{to}}
	if _, err := js.UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
}

// An end that lies behind is not believed before the leader has stored a frame there.
func TestLossIsConfirmed(t *testing.T) {
	srv := enginetest.Start(t, "")
	e := openExternal(t, srv)
	s := runStream(t, e, Options{})
	at, err := s.Append(t.Context(), []byte("one"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.writers[0].log.PublishAfter(t.Context(), at.Seq-1, lostFrame()); !errors.Is(err, engine.ErrRevision) {
		t.Errorf("a frame after a number that is not the last: got %v, want ErrRevision", err)
	}
	// A frame that this node knows to be stored is not called absent.
	s.writers[0].raise(at.Seq + 10)
	if _, err := s.Read(t.Context(), Position{Seq: at.Seq + 5}); !errors.Is(err, ErrUnavailable) {
		t.Errorf("a number that was given out: got %v, want ErrUnavailable", err)
	}
	if _, err := s.Read(t.Context(), Position{Seq: at.Seq + 1000}); !errors.Is(err, ErrNotFound) {
		t.Errorf("a number far behind the end: got %v, want ErrNotFound", err)
	}
}

// The saved end of a partition is the highest that any node has seen.
func TestSavedEndNeverFalls(t *testing.T) {
	srv := enginetest.Start(t, "")
	s := openStream(t, openExternal(t, srv), Options{})
	for _, high := range []uint64{7, 3, 9} {
		if err := s.raiseEnd(context.Background(), 0, high); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.raiseEnd(t.Context(), 0, 8); err != nil {
		t.Fatal(err)
	}
	if got, err := s.ends.Get(t.Context(), endKey(0)); err != nil || string(got.Value) != "9" {
		t.Errorf("got %q, %v, want 9", got.Value, err)
	}
}

// A node that was started before partitions were added reads what others store there.
func TestAddedPartitionIsRead(t *testing.T) {
	srv := enginetest.Start(t, "")
	before := openStream(t, openExternal(t, srv), Options{})
	after := runStream(t, openExternal(t, srv), Options{Partitions: 3})
	for {
		at, err := after.Append(t.Context(), []byte("new"))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := before.Read(t.Context(), at); err != nil || string(got) != "new" {
			t.Errorf("read %v: got %q, %v, want the record", at, got, err)
		}
		if at.Partition == 2 {
			at.Seq += 1000
			if _, err := before.Read(t.Context(), at); !errors.Is(err, ErrUnavailable) {
				t.Errorf("behind the end of the new partition: got %v, want ErrUnavailable", err)
			}
			return
		}
	}
}

// Another server is tried soon while no partition takes records, and later and later while others do.
func TestSearch(t *testing.T) {
	var f search
	begun := time.Now()
	var moved []time.Duration
	for at := time.Duration(0); at < 3*time.Minute; at += 100 * time.Millisecond {
		down := 0
		switch {
		case at < 8*time.Second:
			down = 3
		case at > time.Minute:
			down = 1
		}
		settled := at < 3*time.Second || at > 4*time.Second // the first move takes a while
		if f.due(begun.Add(at), settled, down, 3) {
			moved = append(moved, at)
		}
	}
	first := time.Minute + 100*time.Millisecond
	want := []time.Duration{tryAll, 4*time.Second + tryAll, first + trySome, first + 3*trySome, first + 7*trySome}
	if !slices.Equal(moved, want) {
		t.Errorf("got moves after %v, want %v", moved, want)
	}
}
