package lake

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"sluice/internal/objectstore"
)

// An erasure ends older snapshots only where one of them, or the newest, held a row.
func TestEraseEndsSnapshotsThatHoldRows(t *testing.T) {
	dir, now := t.TempDir(), noon
	l := openLake(t, Options{Store: at(t, dir), Now: func() time.Time { return now }, Retention: Keep(24 * time.Hour), SnapshotRetention: 1000 * time.Hour})
	marked := digest(1 << 40)
	s := newSampler(3, 2, 5)
	old := s.rows(30, noon)
	old[4].EmailSHA256 = marked
	commit(t, l, old)
	now = noon.Add(96 * time.Hour)
	young := s.rows(30, now)
	commit(t, l, young)
	if n, err := l.Retain(t.Context()); err != nil || n != 30 {
		t.Fatalf("got %d rows, %v, want 30 past their retention", n, err)
	}
	same(t, collect(t, l, Query{}), young)

	before := eventsOf(l).Snapshots
	if before != 3 {
		t.Fatalf("got %d snapshots, want 3", before)
	}
	if done, err := l.Erase(t.Context(), Predicate{EmailSHA256: digest(1 << 41)}); err != nil || done != (Erased{}) {
		t.Fatalf("got %+v, %v for an identifier that no row has, want nothing done", done, err)
	}
	if got := eventsOf(l).Snapshots; got != before {
		t.Errorf("got %d snapshots after an erasure that found nothing, want %d", got, before)
	}
	raw, _ := hex.DecodeString(marked)
	if len(holding(t, dir, raw)) == 0 {
		t.Fatal("got no file with the identifier, so the test proves nothing")
	}
	if done, err := l.Erase(t.Context(), Predicate{EmailSHA256: marked}); err != nil || done.Rows != 0 || done.Files == 0 {
		t.Fatalf("got %+v, %v, want no row of the newest snapshot and files of older ones", done, err)
	}
	if left := holding(t, dir, raw); len(left) > 0 {
		t.Errorf("got %v, want no file that holds the identifier", left)
	}
	if got := eventsOf(l).Snapshots; got != 1 {
		t.Errorf("got %d snapshots after an erasure from older ones, want 1", got)
	}
	same(t, collect(t, l, Query{}), young)
}

// An erasure that crashed at any step is finished by the same erasure again, without a sweep.
func TestEraseAgainFinishes(t *testing.T) {
	marked := digest(1 << 40)
	raw, _ := hex.DecodeString(marked)
	p := Predicate{EmailSHA256: marked}
	var steps []string
	for i := 0; i <= len(steps); i++ { // the first round only notes the steps
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			dir, taken := t.TempDir(), 0
			l := openLake(t, Options{Store: at(t, dir)})
			s := newSampler(3, 2, 5)
			for k := range 3 {
				rows := s.rows(10, noon)
				rows[k].EmailSHA256 = marked
				commit(t, l, rows)
			}
			l = openLake(t, Options{Store: at(t, dir), Step: func(name string) error {
				if i == 0 {
					steps = append(steps, name)
				} else if taken++; taken >= i {
					return errCrash
				}
				return nil
			}})
			if _, err := l.Erase(t.Context(), p); i > 0 && !errors.Is(err, objectstore.ErrUncertain) || i == 0 && err != nil {
				t.Fatalf("got %v", err)
			}
			l = openLake(t, Options{Store: at(t, dir)})
			if _, err := l.Erase(t.Context(), p); err != nil {
				t.Fatal(err)
			}
			if left := holding(t, dir, raw); len(left) > 0 {
				t.Errorf("got %v, want no file that holds the identifier", left)
			}
			if n := len(collect(t, l, Query{})); n != 27 || eventsOf(l).Snapshots != 1 {
				t.Errorf("got %d rows, %d snapshots, want 27 and 1", n, eventsOf(l).Snapshots)
			}
		})
	}
	if !slices.Contains(steps, "events.forget") || !slices.Contains(steps, "events.sweep") {
		t.Errorf("got the steps %v, want those of an erasure", steps)
	}
}
