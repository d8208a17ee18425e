package engine

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"sluice/internal/enginetest"
)

func partitions(t *testing.T, e *Engine, o PartitionOptions) *Partitions {
	t.Helper()
	ps, err := e.Partitions(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(ps.Close)
	return ps
}

func publish(t *testing.T, p *Partition, data string) uint64 {
	t.Helper()
	seq, err := p.Publish(t.Context(), []byte(data))
	if err != nil {
		t.Fatal(err)
	}
	return seq
}

func TestPartition(t *testing.T) {
	e := open(t, Options{Dir: t.TempDir()})
	p := partitions(t, e, PartitionOptions{}).List[0]
	first := publish(t, p, "one")
	keyed, err := p.PublishNew(t.Context(), "key", []byte("two"))
	if err != nil || keyed != first+1 {
		t.Fatalf("got %d, %v, want the next number", keyed, err)
	}
	if _, err := p.PublishNew(t.Context(), "key", []byte("three")); !errors.Is(err, ErrExists) {
		t.Errorf("the key again: got %v, want ErrExists", err)
	}
	if m, err := p.Get(t.Context(), first); err != nil || string(m.Data) != "one" {
		t.Errorf("by number: got %q, %v, want one", m.Data, err)
	}
	if m, err := p.GetKey(t.Context(), "key"); err != nil || string(m.Data) != "two" || m.Seq != keyed {
		t.Errorf("by key: got %q at %d, %v, want two", m.Data, m.Seq, err)
	}
	if _, err := p.Get(t.Context(), keyed+1); !errors.Is(err, ErrNotFound) {
		t.Errorf("behind the end: got %v, want ErrNotFound", err)
	}
	if _, err := p.GetKey(t.Context(), "other"); !errors.Is(err, ErrNotFound) {
		t.Errorf("unknown key: got %v, want ErrNotFound", err)
	}
	r, err := p.Reader(10, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	got, err := r.Next(t.Context(), first)
	if err != nil || len(got) != 2 || string(got[0].Data) != "one" || string(got[1].Data) != "two" {
		t.Errorf("batch: got %v, %v, want both messages", got, err)
	}
	if got, err := r.Next(t.Context(), keyed+1); err != nil || len(got) != 0 {
		t.Errorf("batch behind the end: got %v, %v, want none", got, err)
	}
	st, err := p.State(t.Context())
	if err != nil || st.FirstSeq != first || st.LastSeq != keyed || st.Messages != 2 || st.MaxAge != frameAge || st.Replicas != 1 {
		t.Errorf("state: got %+v, %v", st, err)
	}
}

// A first start that was interrupted after the first of four partitions goes on where it was.
func TestInterruptedFirstStart(t *testing.T) {
	e := open(t, Options{Dir: t.TempDir()})
	if _, err := e.openPartition(t.Context(), 0, 4, nil, nil, PartitionOptions{Count: 4}); err != nil {
		t.Fatal(err)
	}
	for _, count := range []int{4, 0} {
		ps := partitions(t, e, PartitionOptions{Count: count})
		if len(ps.List) != 4 || ps.Keyed != 4 {
			t.Errorf("asked for %d: got %d partitions, %d with keys, want 4", count, len(ps.List), ps.Keyed)
		}
	}
	if _, err := e.Partitions(t.Context(), PartitionOptions{Count: 1}); !errors.Is(err, ErrPartitions) {
		t.Errorf("asked for 1: got %v, want ErrPartitions", err)
	}
}

// Several nodes that start at once on a fresh server end with the same partitions, and with the limits one of them gave.
func TestFirstStartOfSeveralNodes(t *testing.T) {
	srv := enginetest.Start(t, "")
	const nodes = 4
	var wg sync.WaitGroup
	opened := make([]*Partitions, nodes)
	errs := make([]error, nodes)
	for i := range nodes {
		e := open(t, Options{URL: srv.URL(), Token: enginetest.Token})
		wg.Go(func() {
			if opened[i], errs[i] = e.Partitions(t.Context(), PartitionOptions{Count: 3}); errs[i] == nil {
				_, errs[i] = e.Bucket(t.Context(), Datasets)
			}
		})
	}
	wg.Wait()
	for i := range nodes {
		if errs[i] != nil {
			t.Errorf("node %d: %v", i, errs[i])
			continue
		}
		opened[i].Close()
		if len(opened[i].List) != 3 || opened[i].Keyed != 3 {
			t.Errorf("node %d: got %d partitions, %d with keys, want 3", i, len(opened[i].List), opened[i].Keyed)
		}
	}
}

func TestForeignStreamIsLeftAlone(t *testing.T) {
	e := open(t, Options{Dir: t.TempDir()})
	if _, err := e.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "SLUICE_0", Subjects: []string{"theirs"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Partitions(t.Context(), PartitionOptions{}); err == nil || !strings.Contains(err.Error(), "not made by Sluice") {
		t.Errorf("got %v, want a rejection", err)
	}
}

// Leaving Replicas out takes no copy away. A smaller number does not open anything.
func TestReplicasNeverShrink(t *testing.T) {
	servers := enginetest.StartCluster(t, 3)
	node := func(replicas int) *Engine {
		return open(t, Options{URL: servers.URL(), Token: enginetest.Token, Replicas: replicas})
	}
	e := node(3)
	deadline := time.Now().Add(20 * time.Second)
	for { // the servers have to find each other first
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		_, err := e.Bucket(ctx, Datasets)
		cancel()
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	var wg sync.WaitGroup
	for range 3 { // on a fresh cluster, at the same time
		node := node(3)
		wg.Go(func() {
			ps, err := node.Partitions(t.Context(), PartitionOptions{Count: 2})
			if err != nil {
				t.Error(err)
				return
			}
			ps.Close()
			if len(ps.List) != 2 || ps.Keyed != 2 {
				t.Errorf("got %d partitions, %d with keys, want 2", len(ps.List), ps.Keyed)
			}
		})
	}
	wg.Wait()
	for _, replicas := range []int{1, 2} {
		_, err := node(replicas).Partitions(t.Context(), PartitionOptions{})
		if !errors.Is(err, ErrDisagree) || !strings.Contains(err.Error(), strconv.Itoa(replicas)+" replicas are asked for, there are 3") {
			t.Errorf("asked for %d: got %v, want ErrDisagree with both numbers", replicas, err)
		}
	}
	for _, replicas := range []int{0, 3} {
		e := node(replicas)
		ps := partitions(t, e, PartitionOptions{MaxAge: 100 * time.Hour})
		if st, err := ps.List[0].State(t.Context()); err != nil || st.Replicas != 3 || st.MaxAge != 100*time.Hour {
			t.Errorf("asked for %d: the partition has %d copies, kept for %v, %v; want 3, 100 h", replicas, st.Replicas, st.MaxAge, err)
		}
		b, err := e.Bucket(t.Context(), Datasets)
		if err != nil {
			t.Fatal(err)
		}
		if st, err := b.kv.Status(t.Context()); err != nil || st.Config().Replicas != 3 {
			t.Errorf("asked for %d: the bucket has %d copies, %v; want 3", replicas, st.Config().Replicas, err)
		}
	}
}

// Every answer that means "no more storage" differs from an engine that does not work.
func TestErrorCodes(t *testing.T) {
	for code, want := range map[int]error{
		10002: ErrFull, 10023: ErrFull, 10028: ErrFull, 10047: ErrFull, 10077: ErrFull,
		10071: ErrExists, 10164: ErrExists, 10037: ErrNotFound, 10008: ErrUnavailable,
	} {
		if got := (&apiError{Code: code}).asError(); !errors.Is(got, want) {
			t.Errorf("code %d: got %v, want %v", code, got, want)
		}
	}
}

// A node of several cannot take time or space away from all, only add to it; one that is alone decides.
func TestLimitsOfSharedEngine(t *testing.T) {
	srv := enginetest.Start(t, "")
	shared := func() *Engine { return open(t, Options{URL: srv.URL(), Token: enginetest.Token}) }
	partitions(t, shared(), PartitionOptions{MaxAge: 96 * time.Hour, MaxBytes: 1 << 20})
	for name, o := range map[string]PartitionOptions{"less time": {MaxAge: 72 * time.Hour}, "less space": {MaxBytes: 1 << 19}} {
		if _, err := shared().Partitions(t.Context(), o); !errors.Is(err, ErrDisagree) {
			t.Errorf("%s: got %v, want ErrDisagree", name, err)
		}
	}
	ps := partitions(t, shared(), PartitionOptions{MaxAge: 100 * time.Hour, MaxBytes: 1 << 21})
	if st, err := ps.List[0].State(t.Context()); err != nil || st.MaxAge != 100*time.Hour {
		t.Errorf("got %v, %v, want 100 h", st.MaxAge, err)
	}
	alone := open(t, Options{Dir: t.TempDir()})
	partitions(t, alone, PartitionOptions{MaxAge: 96 * time.Hour})
	ps = partitions(t, alone, PartitionOptions{MaxAge: 72 * time.Hour})
	if st, err := ps.List[0].State(t.Context()); err != nil || st.MaxAge != 72*time.Hour {
		t.Errorf("alone: got %v, %v, want 72 h", st.MaxAge, err)
	}
}

// A stream has an identity of its own: it stays when it is opened again, and a stream that takes its place has another.
func TestStreamIdentity(t *testing.T) {
	e := open(t, Options{Dir: t.TempDir()})
	first, again := partitions(t, e, PartitionOptions{}), partitions(t, e, PartitionOptions{Count: 2})
	if first.ID == "" || again.ID != first.ID {
		t.Errorf("got %q, then %q, want the same", first.ID, again.ID)
	}
	for _, name := range []string{partitionName(0), partitionName(1)} {
		if err := e.js.DeleteStream(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	if other := partitions(t, e, PartitionOptions{}); other.ID == first.ID {
		t.Errorf("a new stream has the identity of the old one, %q", other.ID)
	}
}
