package iceberg

import (
	"context"
	"testing"
	"time"

	"sluice/internal/objectstore"
)

// beforeReading is a store in which something else happens between a look at a directory and what follows.
type beforeReading struct {
	objectstore.Store
	do func()
}

func (s *beforeReading) List(ctx context.Context, dir string, deep bool) ([]objectstore.Entry, error) {
	list, err := s.Store.List(ctx, dir, deep)
	if do := s.do; do != nil {
		s.do = nil
		do()
	}
	return list, err
}

// An erasure deletes every version before it. Who has listed those finds the ones that came.
func TestOpenBesideAnErasure(t *testing.T) {
	dir := t.TempDir()
	other := openSamples(t, dir)
	appendOne(t, other, 1)
	appendOne(t, other, 2)
	store, err := objectstore.OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	erased := int64(0)
	look := func() {
		t.Helper()
		slow := &beforeReading{store, func() {
			gone, err := other.Delete(t.Context(), Condition[sample]{Match: func(*sample) bool { return true }}, nil)
			if err != nil || gone.Files == 0 {
				t.Fatalf("got %+v, %v, want files deleted", gone, err)
			}
			erased += gone.Rows
		}}
		table, err := open(t.Context(), sampleSchema, Options{Store: slow, Now: func() time.Time { return noon }, SnapshotRetention: 24 * time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		if rows := scanned(t, table); len(rows) > 0 || table.damage.Load() > 0 {
			t.Errorf("got %d rows and %d times damage, want none", len(rows), table.damage.Load())
		}
	}
	look()
	appendOne(t, other, 3)
	look()
	if erased == 0 {
		t.Error("got no row erased")
	}
}
