package engine

import (
	"errors"
	"strings"
	"testing"
	"time"

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
	journal, err := e.journalConfig(ctx, AuditJournal)
	if err != nil {
		t.Fatal(err)
	}
	partition := e.partitionConfig(0, 1, nil, PartitionOptions{})
	for _, cfg := range []jetstream.StreamConfig{journal, partition} {
		cfg.Metadata = later
		if _, err := e.js.CreateStream(ctx, cfg); err != nil {
			t.Fatal(err)
		}
	}
	_, bucketErr := e.Bucket(ctx, Datasets)
	_, journalErr := e.Journal(ctx, AuditJournal)
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
	for k := range journals {
		if _, err := e.Journal(ctx, JournalKind(k)); err != nil {
			t.Fatal(err)
		}
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
	if n != len(buckets)+len(journals)+2 {
		t.Errorf("got %d streams and buckets, want %d", n, len(buckets)+len(journals)+2)
	}
}

// The journal of erased events lasts as long as frames, also after somebody changes that. The audit log has no age.
func TestAgeOfJournals(t *testing.T) {
	e := open(t, Options{Dir: t.TempDir()})
	ctx := t.Context()
	for _, age := range []time.Duration{5 * time.Hour, 9 * time.Hour} {
		partitions(t, e, PartitionOptions{Count: 1, MaxAge: age})
		for k, want := range map[JournalKind]time.Duration{ErasedJournal: age, AuditJournal: 0} {
			j, err := e.Journal(ctx, k)
			if err != nil {
				t.Fatal(err)
			}
			if st, err := j.State(ctx); err != nil || st.MaxAge != want {
				t.Errorf("journal %d: got %v, %v; want %v", k, st.MaxAge, err, want)
			}
		}
	}
}
