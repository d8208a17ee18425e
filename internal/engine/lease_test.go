package engine

import (
	"context"
	"errors"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"sluice/internal/enginetest"
)

// Two processes with the same host name and process id are two owners: the second one waits.
func TestLease(t *testing.T) {
	srv := enginetest.Start(t, "")
	node := func() *Engine { return open(t, Options{URL: srv.URL(), Token: enginetest.Token}) }
	a, b := node(), node()
	held, err := a.Take(t.Context(), "loader.0")
	if err != nil {
		t.Fatal(err)
	}
	for name, e := range map[string]*Engine{"another process": b, "the same process": a} {
		if _, err := e.Take(t.Context(), "loader.0"); !errors.Is(err, ErrLeaseLost) {
			t.Errorf("%s took the lease: got %v, want ErrLeaseLost", name, err)
		}
	}
	if _, err := b.Take(t.Context(), "loader.1"); err != nil {
		t.Errorf("lease of another name: got %v, want it", err)
	}
	old := *held
	if err := held.Renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := old.Renew(t.Context()); !errors.Is(err, ErrLeaseLost) {
		t.Errorf("renewal of a lease that was renewed since: got %v, want ErrLeaseLost", err)
	}
	if err := old.Release(t.Context()); !errors.Is(err, ErrRevision) {
		t.Errorf("release of a lease that was renewed since: got %v, want ErrRevision", err)
	}
	if err := held.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Take(t.Context(), "loader.0"); err != nil {
		t.Errorf("lease after its release: got %v, want it", err)
	}
}

// WithLease ends the work when another process has taken the lease away, and gives the lease back when the work ends.
func TestWithLease(t *testing.T) {
	e := open(t, Options{Dir: t.TempDir()})
	if err := e.WithLease(t.Context(), "job", func(context.Context) error {
		return e.WithLease(t.Context(), "job", func(context.Context) error { return errors.New("ran twice") })
	}); !errors.Is(err, ErrLeaseLost) {
		t.Errorf("work inside work: got %v, want ErrLeaseLost", err)
	}
	err := e.WithLease(t.Context(), "job", func(ctx context.Context) error {
		if _, err := e.leases.Put(ctx, "job", []byte("somebody else")); err != nil {
			return err
		}
		<-ctx.Done() // the next renewal finds out
		return ctx.Err()
	})
	if !errors.Is(err, ErrLeaseLost) {
		t.Errorf("work whose lease was taken: got %v, want ErrLeaseLost", err)
	}
}

// Leases leave another program's bucket alone, and do not write the configuration of their own bucket.
func TestLeaseBucketIsOurs(t *testing.T) {
	e := open(t, Options{Dir: t.TempDir()})
	theirs, err := e.js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "leases"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := theirs.Put(t.Context(), "k", []byte("v")); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Take(t.Context(), "loader.0"); err != nil {
		t.Fatal(err)
	}
	st, err := theirs.Status(t.Context())
	if err != nil || st.TTL() != 0 || st.Values() != 1 {
		t.Errorf("bucket of another program: TTL %v, %d values, %v; want 0, 1", st.TTL(), st.Values(), err)
	}
	updates, err := e.nc.SubscribeSync("$JS.API.STREAM.UPDATE.>")
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := e.Take(t.Context(), "loader.0"); !errors.Is(err, ErrLeaseLost) {
			t.Errorf("got %v, want ErrLeaseLost", err)
		}
	}
	if err := e.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	if n, _, err := updates.Pending(); err != nil || n != 0 {
		t.Errorf("%d changes of configurations (%v), want 0", n, err)
	}
}
