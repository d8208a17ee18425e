package hours

import (
	"context"
	"io/fs"
	"strings"
	"testing"
	"time"

	"sluice/internal/lake"
	"sluice/internal/objectstore"
)

// refusing is a store that takes a moment for each file, and gives none of a month.
type refusing struct {
	objectstore.Store
	month string
}

func (s refusing) Open(ctx context.Context, name string) (objectstore.Object, error) {
	if strings.HasPrefix(name, "data/") && strings.Contains(name, s.month) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(20 * time.Millisecond):
		return s.Store.Open(ctx, name)
	}
}

func (s refusing) Sub(name string) objectstore.Store {
	return refusing{s.Store.Sub(name), s.month}
}

// The months that can be read are read beside one that cannot be, call by call.
func TestMonthIsRefused(t *testing.T) {
	w := newWorld(t, 1, time.Date(2026, 5, 10, 10, 0, 0, 0, time.UTC))
	for range 6 {
		w.commit(w.some(3))
		w.now = w.now.AddDate(0, 1, 0)
	}
	w.must(w.upkeep())
	dir, err := objectstore.OpenDir(w.dir)
	w.must(err)
	w.lake, err = lake.Open(t.Context(), lake.Options{Store: refusing{dir, "2026-10"}, Now: func() time.Time { return w.now }})
	w.must(err)
	w.index = NewIndex(w.lake)
	for range 6 {
		if err := w.index.Read(t.Context(), w.now); err == nil {
			t.Error("got no error, want that of October")
		}
	}
	months := map[int32]bool{}
	for day := range w.index.older {
		months[monthOf(day)] = true
	}
	if len(months) != 5 {
		t.Errorf("got %d months, want all five but October", len(months))
	}
}
