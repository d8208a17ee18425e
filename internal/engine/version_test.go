package engine

import (
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
)

// What a later version made is left as it is, and the error says which program knows it.
func TestLaterVersion(t *testing.T) {
	e := open(t, Options{Dir: t.TempDir()})
	ctx := t.Context()
	later := map[string]string{versionName: "2", keyedPartitions: "1"}
	bucket := e.bucketConfig(Datasets, 1)
	bucket.Metadata = later
	if _, err := e.js.CreateKeyValue(ctx, bucket); err != nil {
		t.Fatal(err)
	}
	journal, partition := e.journalConfig(), e.partitionConfig(0, 1, nil, PartitionOptions{})
	for _, cfg := range []jetstream.StreamConfig{journal, partition} {
		cfg.Metadata = later
		if _, err := e.js.CreateStream(ctx, cfg); err != nil {
			t.Fatal(err)
		}
	}
	_, bucketErr := e.Bucket(ctx, Datasets)
	_, journalErr := e.Journal(ctx)
	_, partitionErr := e.Partitions(ctx, PartitionOptions{})
	for what, err := range map[string]error{"bucket": bucketErr, "journal": journalErr, "partition": partitionErr} {
		const want = `version "2", this program knows 1: use the sluice that wrote it, or a newer one`
		if !errors.Is(err, ErrVersion) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", what, err, want)
		}
	}
}

// Everything that is made has the version, and keeps it when it is corrected.
func TestEverythingHasAVersion(t *testing.T) {
	e := open(t, Options{Dir: t.TempDir()})
	ctx := t.Context()
	for k := range buckets {
		if _, err := e.Bucket(ctx, Kind(k)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := e.Journal(ctx); err != nil {
		t.Fatal(err)
	}
	partitions(t, e, PartitionOptions{Count: 2})
	partitions(t, e, PartitionOptions{MaxBytes: 1 << 30})
	n := 0
	for info := range e.js.ListStreams(ctx).Info() {
		n++
		if got := info.Config.Metadata[versionName]; got != "1" {
			t.Errorf("%s: got version %q, want 1", info.Config.Name, got)
		}
	}
	if n != len(buckets)+3 {
		t.Errorf("got %d streams and buckets, want %d", n, len(buckets)+3)
	}
}
