package engine

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/enginetest"
)

var errStopped = errors.New("stopped")

// fillWith stores a dataset, a setting, a partition and entries of the journal, and ends with an error, nil for none.
func fillWith(e *Engine, dataset string, err error) func(context.Context, *Record) error {
	return func(ctx context.Context, r *Record) error {
		for _, k := range []Kind{Datasets, Settings} {
			b, err := e.Bucket(ctx, k)
			if err == nil {
				_, err = b.Put(ctx, dataset, []byte("value"))
			}
			if err != nil {
				return err
			}
		}
		entries := [][]byte{[]byte("entry 3"), []byte("entry 4")}
		err := errors.Join(err, e.RestoreJournal(ctx, AuditJournal, JournalCopy{First: 3}, func() ([][]byte, error) {
			now := entries
			entries = nil
			return now, nil
		}))
		ps, pErr := e.MakePartitions(ctx, 2, []PartitionCopy{{Stream: "the stream", First: 6, Last: 7, MaxAge: time.Hour, MaxBytes: -1}})
		if pErr != nil {
			return errors.Join(err, pErr)
		}
		defer ps.Close()
		r.Stream, r.Partitions, r.StreamRetention, r.MaxStream = ps.ID, 2, time.Hour, -1
		return errors.Join(err, ps.List[0].StoreRun(ctx, 5, [][]byte{[]byte("frame 6"), []byte("frame 7")}))
	}
}

// restoring opens an engine for a restore.
func restoring(t *testing.T, srv *enginetest.Server) *Engine {
	t.Helper()
	return open(t, Options{URL: srv.URL(), Token: enginetest.Token, Replicas: 1, Restore: true})
}

// A restore that did not finish leaves an engine that nobody opens. The next one begins anew, and leaves nothing of the first.
func TestRestore(t *testing.T) {
	srv := enginetest.Start(t, "")
	node := Options{URL: srv.URL(), Token: enginetest.Token}
	e := restoring(t, srv)
	if err := e.Restore(t.Context(), fillWith(e, "first", errStopped)); !errors.Is(err, errStopped) {
		t.Fatalf("got %v, want that it stopped", err)
	}
	for range 2 {
		if _, err := Open(t.Context(), node); !errors.Is(err, ErrUnfinished) {
			t.Fatalf("got %v, want %v", err, ErrUnfinished)
		}
		e = restoring(t, srv)
		if err := e.Restore(t.Context(), fillWith(e, "second", errStopped)); !errors.Is(err, errStopped) {
			t.Fatalf("got %v, want that it stopped", err)
		}
	}
	e = restoring(t, srv)
	if err := e.Restore(t.Context(), fillWith(e, "third", nil)); err != nil {
		t.Fatal(err)
	}

	used := open(t, node)
	r, err := used.Record(t.Context())
	if err != nil || r.Cluster == "" || r.Replicas != 1 || r.Partitions != 2 || r.MaxKeys == 0 {
		t.Errorf("got %+v, %v, want the record of a cluster", r, err)
	}
	for _, k := range []Kind{Datasets, Settings} {
		b, err := used.Bucket(t.Context(), k)
		if err != nil {
			t.Fatal(err)
		}
		all, _, err := b.All(t.Context())
		var keys []string
		for _, entry := range all {
			if entry.Key != recordKey {
				keys = append(keys, entry.Key)
			}
		}
		if err != nil || !slices.Equal(keys, []string{"third"}) {
			t.Errorf("got %v, %v, want what the last restore stored", keys, err)
		}
	}
	ps := partitions(t, used, PartitionOptions{})
	if st, err := ps.List[0].State(t.Context()); err != nil || st.FirstSeq != 6 || st.LastSeq != 7 || ps.ID != "the stream" || len(ps.List) != 2 {
		t.Errorf("got %+v of %s, %v, want frames 6 and 7", st, ps.ID, err)
	}
	j, err := used.Journal(t.Context(), AuditJournal)
	if err != nil {
		t.Fatal(err)
	}
	if first, last, err := j.Ends(t.Context()); err != nil || first != 3 || last != 4 {
		t.Errorf("got entries %d to %d, %v, want 3 and 4", first, last, err)
	}
	if err := j.Append(t.Context(), []byte("entry 5"), 4); err != nil {
		t.Error(err)
	}
}

// Nothing is restored into servers that hold something, nor by two at once.
func TestRestoreOccupied(t *testing.T) {
	for name, occupy := range map[string]func(t *testing.T, e *Engine){
		"a cluster": func(t *testing.T, e *Engine) {
			if _, err := e.Agree(t.Context(), Record{}); err != nil {
				t.Fatal(err)
			}
		},
		"a stream": func(t *testing.T, e *Engine) { partitions(t, e, PartitionOptions{}) },
		"a bucket": func(t *testing.T, e *Engine) {
			if _, err := e.Bucket(t.Context(), Datasets); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			srv := enginetest.Start(t, "")
			occupy(t, open(t, Options{URL: srv.URL(), Token: enginetest.Token}))
			e := restoring(t, srv)
			before, err := e.ourStreams(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := e.Restore(t.Context(), fillWith(e, "shop", nil)); !errors.Is(err, ErrOccupied) {
				t.Errorf("got %v, want %v", err, ErrOccupied)
			}
			if after, err := e.ourStreams(t.Context()); err != nil || !slices.Equal(before, after) {
				t.Errorf("got %v, %v, want %v as before", after, err, before)
			}
		})
	}
	srv := enginetest.Start(t, "")
	e := restoring(t, srv)
	err := e.Restore(t.Context(), func(ctx context.Context, r *Record) error {
		other := restoring(t, srv)
		err := other.Restore(ctx, fillWith(other, "other", nil))
		if !errors.Is(err, ErrLeaseLost) || !strings.Contains(err.Error(), "another restore") {
			t.Errorf("a second restore: got %v, want %v", err, ErrLeaseLost)
		}
		return fillWith(e, "shop", nil)(ctx, r)
	})
	if err != nil {
		t.Fatal(err)
	}
}
