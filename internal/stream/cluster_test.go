package stream

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"sluice/internal/engine"
	"sluice/internal/enginetest"
)

// TestCluster kills the leader of three nodes under load. Nothing acknowledged may be lost, no key taken twice, and the
// stream takes writes again by itself.
func TestCluster(t *testing.T) {
	nodes := enginetest.StartCluster(t, 3)
	o := engine.Options{URL: nodes.URL(), Token: enginetest.Token, Replicas: 3}
	e := openCluster(t, o)
	s := runStream(t, e, Options{AckTimeout: 900 * time.Millisecond})
	eventually(t, "readiness", func() bool { return s.Ready() == nil })

	stop := make(chan struct{})
	var promised ledger
	var wg sync.WaitGroup
	for c := range 8 {
		wg.Go(func() {
			for i := 0; ; i++ {
				rec := fmt.Sprintf("%d/%d", c, i)
				var at Position
				var err error
				if i%2 == 0 {
					at, err = s.AppendKeyed(t.Context(), rec, []byte(rec))
				} else {
					at, err = s.Append(t.Context(), []byte(rec))
				}
				if err == nil {
					promised.add(t, at, rec)
					// Readable the instant it is acknowledged, whichever replica answers.
					if got, err := s.Read(t.Context(), at); string(got) != rec && err == nil {
						t.Errorf("Read(%v): %q, want %q", at, got, rec)
					}
				}
				select {
				case <-stop:
					return
				case <-time.After(5 * time.Millisecond):
				}
			}
		})
	}
	eventually(t, "appends", func() bool { return promised.len() > 100 })
	st, err := s.writers[0].log.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	leader := st.Leader
	for i, n := range nodes {
		if leader == fmt.Sprint("n", i) {
			n.Kill()
		}
	}
	n := promised.len()
	eventually(t, "appends without "+leader, func() bool { return promised.len() > n+100 })
	close(stop)
	wg.Wait()
	stored := contents(t, s, 0)
	promised.check(t, stored)
	seen := map[string]Position{}
	for at, rec := range stored {
		if other, twice := seen[rec]; twice {
			t.Errorf("record %s is at %v and at %v", rec, other, at)
		}
		seen[rec] = at
	}

	// A command that does not say how many replicas there should be leaves them.
	o.Replicas = 0
	openStream(t, openOptions(t, o), Options{})
	if st, err = s.writers[0].log.State(t.Context()); err != nil || st.Replicas != 3 {
		t.Errorf("replicas after a command: %v, %v, want 3", st.Replicas, err)
	}
}

// openCluster waits for the nodes to have found each other.
func openCluster(t testing.TB, o engine.Options) *engine.Engine {
	t.Helper()
	var e *engine.Engine
	eventually(t, "cluster", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		var err error
		if e, err = engine.Open(ctx, o); err != nil {
			return false
		}
		if _, err = e.Bucket(ctx, engine.StreamEnds); err != nil {
			e.Close()
			return false
		}
		return true
	})
	t.Cleanup(func() { e.Close() })
	if err := e.Health(); err != nil {
		t.Fatal(err)
	}
	return e
}
