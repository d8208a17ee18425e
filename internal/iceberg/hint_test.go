package iceberg

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"sluice/internal/metadata"
	"sluice/internal/objectstore"
)

// late is a store whose hints come late: something else happens before each.
type late struct {
	objectstore.Store
	before func()
}

func (s *late) Replace(ctx context.Context, name string, data []byte, keep func([]byte) bool) error {
	if before := s.before; before != nil {
		s.before = nil
		before()
	}
	return s.Store.Replace(ctx, name, data, keep)
}

// The hint does not go back when another process commits between a look at the table, or a commit, and its hint.
func TestHintDoesNotGoBack(t *testing.T) {
	dir := t.TempDir()
	hint := func() string {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(dir, metadata.HintName))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	other := openSamples(t, dir)
	appendOne(t, other, 1)
	store, err := objectstore.OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	slow := &late{store, func() { appendOne(t, other, 2) }}
	table, err := open(t.Context(), sampleSchema, Options{Store: slow, Now: func() time.Time { return noon }, SnapshotRetention: 24 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if got := hint(); got != "3" {
		t.Errorf("after another process opened the table: got version %s, want 3", got)
	}
	slow.before = func() { appendOne(t, other, 4) }
	appendOne(t, table, 3)
	if got := hint(); got != "5" {
		t.Errorf("after two commits: got version %s, want 5", got)
	}
	// A hint of versions that are gone is not one to keep.
	if err := os.WriteFile(filepath.Join(dir, metadata.HintName), []byte("99"), 0o600); err != nil {
		t.Fatal(err)
	}
	openSamples(t, dir)
	if got := hint(); got != "5" {
		t.Errorf("after a hint of another table: got version %s, want 5", got)
	}
}
