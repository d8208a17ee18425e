package lake

import (
	"errors"
	"path/filepath"
	"sync/atomic"
	"testing"

	"sluice/event"
)

// A copy that is interrupted at any step can be repeated, brought up to date, and then be gone on with, exactly once. Once
// it is in use it is not written over.
func TestCopyIsGoneOnWith(t *testing.T) {
	for fail := range 15 {
		from, to := t.TempDir(), filepath.Join(t.TempDir(), "copy")
		var n atomic.Int64
		l := openLake(t, Options{Store: at(t, from), Step: func(name string) error {
			switch filepath.Ext(name) {
			case ".copy", ".copied", ".hinted":
				if n.Add(1) == int64(fail) {
					return errCrash
				}
			}
			return nil
		}})
		s := newSampler(5, 2, 9)
		var all []event.Row
		add := func(l *Lake) {
			rows := s.rows(40, noon)
			all = append(all, rows...)
			commit(t, l, rows)
		}
		for range 5 {
			add(l)
		}
		err := l.CopyTo(t.Context(), at(t, to), silent)
		if crashed := fail > 0 && fail <= 12; errors.Is(err, errCrash) != crashed {
			t.Fatalf("crash %d: got %v", fail, err)
		}
		add(l) // the source goes on meanwhile
		if err := l.CopyTo(t.Context(), at(t, to), silent); err != nil && fail <= 12 {
			t.Fatalf("crash %d: got %v", fail, err)
		} else if err != nil { // the crash came in the second copy
			if err := l.CopyTo(t.Context(), at(t, to), silent); err != nil {
				t.Fatalf("crash %d: got %v", fail, err)
			}
		}
		copied := openLake(t, Options{Store: at(t, to)})
		same(t, collect(t, copied, Query{}), all)
		add(copied)
		same(t, collect(t, copied, Query{}), all)
		if found := findings(t, copied); len(found) != 0 {
			t.Errorf("got findings %v, want none", found)
		}
		if err := l.CopyTo(t.Context(), at(t, to), silent); !errors.Is(err, ErrInUse) {
			t.Errorf("got %v for a place that is in use, want an error", err)
		}
	}
}

// A copy has the identity of its source, before and after it is used; other tables have another. To ask makes no tables.
func TestIdentity(t *testing.T) {
	from, to, empty := at(t, t.TempDir()), at(t, t.TempDir()), at(t, t.TempDir())
	l := openLake(t, Options{Store: from})
	commit(t, l, newSampler(5, 2, 9).rows(40, noon))
	if err := l.CopyTo(t.Context(), to, silent); err != nil {
		t.Fatal(err)
	}
	source, err := Identity(t.Context(), from)
	want := source.ID
	if err != nil || want == "" || source.Watermarks[0] == 0 || source.Version != Version {
		t.Fatalf("got %+v, %v, want an identity, a watermark and this version", source, err)
	}
	for range 2 {
		if got, err := Identity(t.Context(), to); err != nil || got.ID != want {
			t.Errorf("the copy: got %+v, %v, want %q", got, err, want)
		}
		commit(t, openLake(t, Options{Store: to}), newSampler(6, 2, 9).rows(10, noon))
	}
	for range 2 {
		if got, err := Identity(t.Context(), empty); err != nil || got.ID != "" {
			t.Errorf("an empty place: got %+v, %v, want none", got, err)
		}
	}
	openLake(t, Options{Store: empty})
	if got, err := Identity(t.Context(), empty); err != nil || got.ID == "" || got.ID == want {
		t.Errorf("other tables: got %+v, %v, want another identity than %q", got, err, want)
	}
}
