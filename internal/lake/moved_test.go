package lake

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"sluice/event"
	"sluice/internal/objectstore"
)

// Tables from which a whole commit was erased have a manifest that lists no file. They can be moved and copied as others.
func TestMovedAfterAnErasure(t *testing.T) {
	for name, left := range map[string]int{"other events are left": 1, "nothing is left": 0} {
		t.Run(name, func(t *testing.T) {
			old := t.TempDir()
			l := openLake(t, Options{Store: at(t, old)})
			s := newSampler(1, 2, 5)
			var kept []event.Row
			if left > 0 {
				kept = s.rows(40, noon)
				commit(t, l, kept)
			}
			gone := s.rows(40, noon)
			for i := range gone {
				gone[i].DatasetID = "gone"
			}
			commit(t, l, gone)
			done, err := l.Erase(t.Context(), Choice{Match: func(r *event.Row) bool { return r.DatasetID == "gone" }}, nil)
			if err != nil || done.Rows != 40 {
				t.Fatalf("got %+v, %v, want 40 rows erased", done, err)
			}
			copied := filepath.Join(t.TempDir(), "copy")
			if err := l.CopyTo(t.Context(), at(t, copied), silent); err != nil {
				t.Fatal(err)
			}
			moved := filepath.Join(t.TempDir(), "moved")
			if err := os.Rename(old, moved); err != nil {
				t.Fatal(err)
			}
			for _, dir := range []string{copied, moved} {
				l := openLake(t, Options{Store: at(t, dir)})
				same(t, collect(t, l, Query{}), kept)
				more := s.rows(10, noon)
				commit(t, l, more)
				same(t, collect(t, openLake(t, Options{Store: at(t, dir)}), Query{}), append(more, kept...))
				if found := findings(t, l); len(found) != 0 {
					t.Errorf("got findings %v, want none", found)
				}
			}
		})
	}
}

// entries says of everything below a directory what it is, when it was changed and what is in it.
func entries(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		var b []byte
		if !e.IsDir() {
			b, err = os.ReadFile(name)
		}
		out[name] = fmt.Sprint(info.Mode(), info.ModTime().UnixNano(), string(b))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Tables that are open to be read can be read, checked and copied, also where they were moved or copied to, and nothing is
// written. Whatever writes answers ErrReadOnly.
func TestReadOnly(t *testing.T) {
	old, copied := t.TempDir(), filepath.Join(t.TempDir(), "copy")
	l := openLake(t, Options{Store: at(t, old)})
	rows := newSampler(1, 2, 5).rows(40, noon)
	commit(t, l, rows)
	if err := l.CopyTo(t.Context(), at(t, copied), silent); err != nil {
		t.Fatal(err)
	}
	moved := filepath.Join(t.TempDir(), "moved")
	if err := os.Rename(old, moved); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{moved, copied} {
		before := entries(t, dir)
		store, err := objectstore.OpenDirToRead(dir)
		if err != nil {
			t.Fatal(err)
		}
		l, err := Open(t.Context(), Options{Store: store, Now: func() time.Time { return noon }})
		if err != nil {
			t.Fatal(err)
		}
		same(t, collect(t, l, Query{}), rows)
		if found := findings(t, l); len(found) != 0 {
			t.Errorf("got findings %v, want none", found)
		}
		if files, err := l.Files(t.Context(), eventsTable); err != nil || len(files) != 1 || filepath.Dir(filepath.Dir(files[0])) != filepath.Join(dir, eventsTable, "data") {
			t.Errorf("got files %v, %v, want one in %s", files, err, dir)
		}
		again := filepath.Join(t.TempDir(), "again")
		if err := l.CopyTo(t.Context(), at(t, again), silent); err != nil {
			t.Fatal(err)
		}
		same(t, collect(t, openLake(t, Options{Store: at(t, again)}), Query{}), rows)
		_, eraseErr := l.Erase(t.Context(), Choice{Match: func(*event.Row) bool { return true }}, nil)
		commitErr := l.Commit(t.Context(), Batch{Spans: []Span{{From: Watermarks{Events: 1, Hours: 1, Rejections: 1}, To: 2}}, Events: rows}, 0)
		for did, err := range map[string]error{"erase": eraseErr, "commit": commitErr} {
			if !errors.Is(err, objectstore.ErrReadOnly) {
				t.Errorf("%s: got %v, want ErrReadOnly", did, err)
			}
		}
		if after := entries(t, dir); !maps.Equal(before, after) {
			t.Errorf("%s was changed: got %d entries, want %d", dir, len(after), len(before))
		}
	}
	empty := t.TempDir()
	store, err := objectstore.OpenDirToRead(empty)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), Options{Store: store, Now: time.Now}); err == nil || len(entries(t, empty)) != 1 {
		t.Errorf("got %v and %v, want an error and nothing made", err, entries(t, empty))
	}
	if _, err := objectstore.OpenDirToRead(filepath.Join(empty, "missing")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want a missing directory", err)
	}
}
