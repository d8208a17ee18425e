package loader

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"sluice/internal/engine"
)

// A node takes its own lease up again at once, for it may have crashed; another has to wait for it to run out.
func TestLeaseAfterACrash(t *testing.T) {
	e, err := engine.Open(t.Context(), engine.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	kv, err := e.JetStream().CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: leaseBucket, TTL: leaseTime})
	if err != nil {
		t.Fatal(err)
	}
	first, err := take(t.Context(), kv, "loader.0", "a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := take(t.Context(), kv, "loader.0", "b"); !errors.Is(err, errLeaseLost) {
		t.Errorf("got %v for another node, want no lease", err)
	}
	again, err := take(t.Context(), kv, "loader.0", "a")
	if err != nil || again <= first {
		t.Errorf("got revision %d, %v, want the lease again", again, err)
	}
	if _, err := kv.Update(t.Context(), "loader.0", []byte("a"), first); !errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
		t.Errorf("got %v for a renewal of the old lease, want a refusal", err)
	}
	if _, err := take(t.Context(), kv, "loader.1", ""); err != nil {
		t.Errorf("got %v for another partition, want its lease", err)
	}
	if _, err := take(t.Context(), kv, "loader.1", ""); !errors.Is(err, errLeaseLost) {
		t.Errorf("got %v for a node without a name, want no lease", err)
	}
}
