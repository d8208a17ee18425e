package iceberg

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/internal/metadata"
)

// A table of a later version is left as it is, and the error says which program knows it.
func TestTableOfALaterVersion(t *testing.T) {
	dir := t.TempDir()
	table := openSamples(t, dir)
	appendSamples(t, table, 1, 10, func(int, []sample) {})
	s := table.state.Load()
	later := *s.meta
	later.Properties = maps.Clone(later.Properties)
	later.Properties[metadata.VersionProperty] = "2"
	b, err := later.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, metadata.Name(s.version+1)), b, 0o600); err != nil {
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
