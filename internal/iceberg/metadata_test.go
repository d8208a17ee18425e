package iceberg

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A snapshot of another program has no watermark, and the one before it may be gone: the properties still have it.
func TestWatermarksSurviveOthers(t *testing.T) {
	id, parent := int64(2), int64(1)
	m := &metadata{
		CurrentSnapshot: &id, Snapshots: []snapshot{{ID: 2, Parent: &parent, Summary: map[string]string{"operation": "replace"}}},
		Properties: map[string]string{"sluice.watermark": "0:17,3:4", "sluice.stream": "a"},
	}
	if got := m.progress(); got.Stream != "a" || !maps.Equal(got.Watermarks, map[uint8]uint64{0: 17, 3: 4}) {
		t.Errorf("got %v, want those of the properties", got)
	}
	m.Snapshots = append(m.Snapshots, snapshot{ID: 1, Summary: map[string]string{"sluice.watermark": "0:16", "sluice.stream": "a"}})
	if got := m.progress(); got.Stream != "a" || !maps.Equal(got.Watermarks, map[uint8]uint64{0: 16}) {
		t.Errorf("got %v, want those of the snapshot before", got)
	}
}

// A table of a later version is left as it is, and the error says which program knows it.
func TestTableOfALaterVersion(t *testing.T) {
	dir := t.TempDir()
	table := openSamples(t, dir)
	appendSamples(t, table, 1, 10, func(int, []sample) {})
	s := table.state.Load()
	later := *s.meta
	later.Properties = maps.Clone(later.Properties)
	later.Properties[versionProperty] = "2"
	b, err := later.encode()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, metadataName(s.version+1)), b, 0o600); err != nil {
		t.Fatal(err)
	}
	const want = `version "2", this program knows 1: use the sluice that wrote it, or a newer one`
	if _, err := table.refresh(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
	if err := New(sampleSchema, Options{Store: table.store, Now: table.now}).Open(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}
