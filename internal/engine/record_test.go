package engine

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"sluice/internal/enginetest"
)

func agree(t *testing.T, e *Engine, want Record) Record {
	t.Helper()
	r, err := e.Agree(t.Context(), want)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// The first node decides. Another one that says nothing follows; one that says something else stops with both values.
func TestRecordDecides(t *testing.T) {
	srv := enginetest.Start(t, "")
	node := func() *Engine { return open(t, Options{URL: srv.URL(), Token: enginetest.Token}) }
	first := node()
	made := agree(t, first, Record{Partitions: 2, StreamRetention: 96 * time.Hour, MaxStream: 1 << 20, Lake: "s3://bucket/lake", LakeID: "one", TableRetention: 30 * 24 * time.Hour})
	if made.Cluster == "" || made.Replicas != 1 || made.Partitions != 2 {
		t.Fatalf("got %+v, want a name, 1 replica and 2 partitions", made)
	}
	partitions(t, first, PartitionOptions{})
	second := node()
	got := agree(t, second, Record{})
	if got.Stream == "" || got.Lake != "s3://bucket/lake" || got.Cluster != made.Cluster || got.StreamRetention != 96*time.Hour || got.TableRetention != 30*24*time.Hour {
		t.Errorf("got %+v, want what the first node said, and the stream's identity", got)
	}
	if ps := partitions(t, second, PartitionOptions{}); len(ps.List) != 2 {
		t.Errorf("got %d partitions, want 2", len(ps.List))
	}
	for name, c := range map[string]struct {
		want   Record
		values []string
	}{
		"replicas":   {Record{Replicas: 3}, []string{"is 1 in", "3 here"}},
		"partitions": {Record{Partitions: 4}, []string{"is 2 in", "4 here"}},
		"fewer":      {Record{Partitions: 1}, []string{"is 2 in", "1 here"}},
		"retention":  {Record{StreamRetention: 72 * time.Hour}, []string{"96h", "72h"}},
		"longer":     {Record{StreamRetention: 100 * time.Hour}, []string{"96h", "100h"}},
		"size":       {Record{MaxStream: -1}, []string{"1048576 bytes", "unlimited"}},
		"keys":       {Record{MaxKeys: 4}, []string{"is 8388608 in", "4 here"}},
		"tables for": {Record{TableRetention: 400 * 24 * time.Hour}, []string{"table retention is 30d in", "400d here", "sluice cluster set"}},
		"for ever":   {Record{TableRetention: -1}, []string{"30d", "for ever here"}},
		"snapshots":  {Record{SnapshotRetention: time.Hour}, []string{"snapshot retention is 1d in", "1h0m0s here"}},
		"lake":       {Record{Lake: "file:///var/lake"}, []string{"s3://bucket/lake", "file:///var/lake"}},
		"tables":     {Record{LakeID: "two"}, []string{"is one in", "two here"}},
		"stream":     {Record{Stream: "another"}, []string{got.Stream, "another"}},
	} {
		_, err := node().Agree(t.Context(), c.want)
		if !errors.Is(err, ErrDisagree) {
			t.Errorf("%s: got %v, want ErrDisagree", name, err)
			continue
		}
		for _, v := range c.values {
			if !strings.Contains(err.Error(), v) {
				t.Errorf("%s: got %q, want %q in it", name, err, v)
			}
		}
	}
	if again, err := first.Record(t.Context()); err != nil || again != got {
		t.Errorf("the record changed: got %+v, %v, want %+v", again, err, got)
	}
}

// Nodes that start at the same time make one record.
func TestFirstRecordOfSeveralNodes(t *testing.T) {
	srv := enginetest.Start(t, "")
	var wg sync.WaitGroup
	got := make([]Record, 4)
	for i := range got {
		e := open(t, Options{URL: srv.URL(), Token: enginetest.Token})
		wg.Go(func() {
			var err error
			if got[i], err = e.Agree(t.Context(), Record{Partitions: 3}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for i := range got {
		if got[i] != got[0] || got[i].Cluster == "" {
			t.Errorf("node %d: got %+v, want %+v", i, got[i], got[0])
		}
	}
}

// A command may have made the stream before the first node starts: its partitions stay, and it gives nothing up.
func TestRecordAfterTheStream(t *testing.T) {
	srv := enginetest.Start(t, "")
	node := func() *Engine { return open(t, Options{URL: srv.URL(), Token: enginetest.Token}) }
	partitions(t, node(), PartitionOptions{Count: 3})
	if _, err := node().Agree(t.Context(), Record{StreamRetention: 48 * time.Hour}); !errors.Is(err, ErrDisagree) {
		t.Errorf("less than is there: got %v, want ErrDisagree", err)
	}
	r := agree(t, node(), Record{StreamRetention: 90 * time.Hour})
	if r.Partitions != 3 || r.StreamRetention != 90*time.Hour || r.MaxStream != -1 {
		t.Errorf("got %+v, want the partitions that are there and what the node says", r)
	}
}

// Only Change changes the record, and with it what is stored.
func TestChange(t *testing.T) {
	srv := enginetest.Start(t, "")
	e := open(t, Options{URL: srv.URL(), Token: enginetest.Token})
	if _, err := e.Change(t.Context(), func(*Record) error { return nil }); err == nil {
		t.Error("a change without a cluster was taken")
	}
	agree(t, e, Record{StreamRetention: 96 * time.Hour})
	partitions(t, e, PartitionOptions{})
	_, err := e.Change(t.Context(), func(r *Record) error {
		r.Partitions, r.StreamRetention = 3, 72*time.Hour
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	other := open(t, Options{URL: srv.URL(), Token: enginetest.Token})
	ps := partitions(t, other, PartitionOptions{})
	if len(ps.List) != 3 || ps.Keyed != 1 {
		t.Errorf("got %d partitions, %d with keys, want 3 and, as before, 1", len(ps.List), ps.Keyed)
	}
	for i, p := range ps.List {
		if st, err := p.State(t.Context()); err != nil || st.MaxAge != 72*time.Hour {
			t.Errorf("partition %d: got %v, %v, want 72 h", i, st.MaxAge, err)
		}
	}
	if _, err := e.Change(t.Context(), func(r *Record) error { r.Partitions = 2; return nil }); !errors.Is(err, ErrPartitions) {
		t.Errorf("fewer partitions: got %v, want ErrPartitions", err)
	}
}

// Settings that somebody changed behind our back are put right where that takes nothing away, and stop the node else.
func TestDriftIsNoticed(t *testing.T) {
	srv := enginetest.Start(t, "")
	e := open(t, Options{URL: srv.URL(), Token: enginetest.Token})
	agree(t, e, Record{MaxStream: 1 << 30})
	partitions(t, e, PartitionOptions{})
	change := func(do func(*jetstream.StreamConfig)) {
		t.Helper()
		s, err := e.js.Stream(t.Context(), partitionName(0))
		if err != nil {
			t.Fatal(err)
		}
		cfg := s.CachedInfo().Config
		do(&cfg)
		if _, err := e.js.UpdateStream(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
	}
	change(func(c *jetstream.StreamConfig) {
		c.Discard, c.MaxAge, c.MaxMsgsPerSubject = jetstream.DiscardOld, time.Hour, 10
	})
	partitions(t, open(t, Options{URL: srv.URL(), Token: enginetest.Token}), PartitionOptions{})
	s, err := e.js.Stream(t.Context(), partitionName(0))
	if err != nil {
		t.Fatal(err)
	}
	if c := s.CachedInfo().Config; c.Discard != jetstream.DiscardNew || c.MaxAge != frameAge || c.MaxMsgsPerSubject > 0 {
		t.Errorf("got discard %v, age %v, %d messages per subject; want them as they were", c.Discard, c.MaxAge, c.MaxMsgsPerSubject)
	}
	change(func(c *jetstream.StreamConfig) { c.MaxAge = 500 * time.Hour })
	_, err = open(t, Options{URL: srv.URL(), Token: enginetest.Token}).Partitions(t.Context(), PartitionOptions{})
	if !errors.Is(err, ErrDisagree) || !strings.Contains(err.Error(), "500h") || !strings.Contains(err.Error(), "72h") {
		t.Errorf("a longer age: got %v, want ErrDisagree with both", err)
	}
}

// A data directory remembers its cluster: it opens neither an engine of its own nor another cluster.
func TestDirectoryOfACluster(t *testing.T) {
	one, two := enginetest.Start(t, ""), enginetest.Start(t, "")
	dir := t.TempDir()
	first := open(t, Options{Dir: dir, URL: one.URL(), Token: enginetest.Token})
	agree(t, first, Record{})
	if err := first.KeepDir(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), "--nats") {
		t.Errorf("without an address: got %v, want a refusal that names --nats", err)
	}
	if _, err := os.Stat(filepath.Join(dir, storeName)); err == nil {
		t.Error("an empty engine was made")
	}
	if _, err := open(t, Options{Dir: dir, URL: two.URL(), Token: enginetest.Token}).Agree(t.Context(), Record{}); err == nil || !strings.Contains(err.Error(), "hold no cluster") {
		t.Errorf("servers without a cluster: got %v, want a refusal", err)
	}
	agree(t, open(t, Options{URL: two.URL(), Token: enginetest.Token}), Record{})
	if _, err := Open(t.Context(), Options{Dir: dir, URL: two.URL(), Token: enginetest.Token}); err == nil || !strings.Contains(err.Error(), "belongs to a node of the cluster") {
		t.Errorf("another cluster: got %v, want a refusal", err)
	}
	if e, err := Open(t.Context(), Options{Dir: dir, URL: one.URL(), Token: enginetest.Token}); err != nil {
		t.Errorf("its cluster: %v", err)
	} else {
		e.Close()
	}
}
