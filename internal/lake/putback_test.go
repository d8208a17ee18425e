package lake

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"sluice/event"
	"sluice/internal/objectstore"
)

// asBucket is a directory that is treated as a bucket: it has no lock, and each look at it costs a request.
type asBucket struct{ objectstore.Store }

func (b asBucket) Grace() time.Duration                          { return 24 * time.Hour }
func (b asBucket) LockShared(context.Context) (func(), error)    { return func() {}, nil }
func (b asBucket) LockExclusive(context.Context) (func(), error) { return func() {}, nil }
func (b asBucket) Sub(name string) objectstore.Store             { return asBucket{b.Store.Sub(name)} }
func inDir(t *testing.T, dir string) objectstore.Store           { return at(t, dir) }
func inBucket(t *testing.T, dir string) objectstore.Store        { return asBucket{at(t, dir)} }
func frame(l *Lake, from uint64, rows []event.Row, b Batch) error {
	return l.Commit(context.Background(), spanOf(from, rows, b), 0)
}

// spanOf is the batch that brings the frame after from to tables that hold everything before it.
func spanOf(from uint64, rows []event.Row, b Batch) Batch {
	b.Spans, b.Events = []Span{{From: Watermarks{from, from, from}, To: from + 1}}, rows
	return b
}

// replace puts what lies in one directory in the place of what lies in another; "" is nothing.
func replace(t *testing.T, dir, by string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	if by != "" {
		if err := os.CopyFS(dir, os.DirFS(by)); err != nil {
			t.Fatal(err)
		}
	}
}

// Tables that somebody else handles while they are open: an older copy in their place, other tables, or none. Nothing is
// continued from memory. What the copy lacks can be loaded again, and then every row is there once.
func TestTablesAreHandledByOthers(t *testing.T) {
	for name, store := range map[string]func(*testing.T, string) objectstore.Store{"directory": inDir, "bucket": inBucket} {
		t.Run(name, func(t *testing.T) {
			now := noon
			var putBack []time.Time
			o := Options{Now: func() time.Time { return now }, PutBack: func(_ context.Context, at time.Time) error {
				putBack = append(putBack, at)
				return nil
			}}
			open := func(dir string) *Lake {
				one := o
				one.Store = store(t, dir)
				return openLake(t, one)
			}
			dir, s := t.TempDir(), newSampler(3, 2, 20)
			rows := [][]event.Row{s.rows(20, noon), s.rows(20, noon), s.rows(20, noon), s.rows(20, noon)}
			l, reader := open(dir), open(dir)
			must := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			is := func(what string, err, want error) {
				t.Helper()
				if !errors.Is(err, want) {
					t.Fatalf("%s: got %v, want %v", what, err, want)
				}
			}
			must(frame(l, 0, rows[0], Batch{}))
			copied := t.TempDir()
			replace(t, copied, dir)
			now = now.Add(time.Minute)
			must(frame(l, 1, rows[1], Batch{}))
			must(frame(l, 2, rows[2], Batch{}))
			if m, err := reader.Watermarks(t.Context(), 0); err != nil || m.Events != 3 {
				t.Fatalf("got %+v, %v, want 3", m, err)
			}

			replace(t, dir, copied)
			hours := Batch{Hours: []Hour{{Hour: noon.Unix(), DatasetID: "d", Kind: "k", Count: 1}}}
			is("counts on tables that were put back", frame(l, 3, rows[3], hours), ErrFenced)
			if n := l.hours.Stats().Version; n != 1 {
				t.Errorf("got version %d of hours, want it as it was put back", n)
			}
			if len(putBack) != 1 || !putBack[0].Equal(noon) {
				t.Errorf("got %v, want the time of the copy, once", putBack)
			}
			now = now.Add(time.Minute)
			for _, who := range []*Lake{l, reader} {
				if m, err := who.Watermarks(t.Context(), 0); err != nil || m.Events != 1 {
					t.Errorf("got %+v, %v, want the watermark of the copy", m, err)
				}
			}
			for i := range rows[1:] {
				must(frame(l, uint64(i+1), rows[i+1], Batch{}))
			}
			all := append(append(append(append([]event.Row{}, rows[0]...), rows[1]...), rows[2]...), rows[3]...)
			same(t, collect(t, open(dir), Query{}), all)

			// Somebody else brings the copy to the same version, with other files.
			replace(t, dir, copied)
			other := open(dir)
			for i := range rows[1:] {
				must(frame(other, uint64(i+1), rows[i+1], Batch{}))
			}
			more := s.rows(20, noon)
			must(frame(l, 4, more, Batch{}))
			same(t, collect(t, open(dir), Query{}), append(all, more...))

			replace(t, dir, "")
			is("no table", frame(l, 5, more, Batch{}), ErrNoTable)
			now = now.Add(time.Minute)
			_, err := reader.Watermarks(t.Context(), 0)
			is("no table to read", err, ErrNoTable)
			open(dir)
			is("another table", frame(l, 5, more, Batch{}), ErrOtherTable)
			_, err = reader.Watermarks(t.Context(), 0)
			is("another table to read", err, ErrOtherTable)
			replace(t, dir, copied)
			if m, err := l.Watermarks(t.Context(), 0); err != nil || m.Events != 1 {
				t.Errorf("got %+v, %v, want the copy taken up", m, err)
			}
		})
	}
}
