package lake

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"sluice/event"
	"sluice/internal/identifier"
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
	if done, err := l.Erase(t.Context(), carrying(identifier.Email, digest(1<<41)), nil); err != nil || done != (Erased{}) {
		t.Fatalf("got %+v, %v for an identifier that no row has, want nothing done", done, err)
	}
	if got := eventsOf(l).Snapshots; got != before {
		t.Errorf("got %d snapshots after an erasure that found nothing, want %d", got, before)
	}
	raw, _ := hex.DecodeString(marked)
	if len(holding(t, dir, raw)) == 0 {
		t.Fatal("got no file with the identifier, so the test proves nothing")
	}
	if done, err := l.Erase(t.Context(), carrying(identifier.Email, marked), nil); err != nil || done.Rows != 0 || done.Files == 0 {
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
	p := carrying(identifier.Email, marked)
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
			if _, err := l.Erase(t.Context(), p, nil); i > 0 && !errors.Is(err, objectstore.ErrUncertain) || i == 0 && err != nil {
				t.Fatalf("got %v", err)
			}
			l = openLake(t, Options{Store: at(t, dir)})
			if _, err := l.Erase(t.Context(), p, nil); err != nil {
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

// witness is told of rows, and marks each commit with how many it was told of.
type witness struct {
	l    *Lake
	told map[event.ID]bool
	done int
}

func (w *witness) Rows(_ context.Context, rows []event.Row) error {
	for i := range rows {
		w.told[rows[i].EventID] = true
	}
	return nil
}

func (w *witness) Mark(ctx context.Context, done bool) (string, error) {
	if done {
		w.done++
	}
	there, err := w.l.Count(ctx, carrying(identifier.Partner, "marked"), nil)
	if !done && there == 0 {
		err = errors.Join(err, errors.New("rows were deleted before their mark"))
	}
	return strconv.Itoa(len(w.told)), err
}

// A witness is told of every row before it is gone, and what it says is noted in the snapshot and in those that follow.
func TestErasureWitness(t *testing.T) {
	dir := t.TempDir()
	o := Options{Store: at(t, dir), Now: func() time.Time { return noon }}
	l := openLake(t, o)
	all := newSampler(3, 2, 5).rows(300, noon)
	for i := range all {
		all[i].PartnerID = ""
		if i%3 == 0 {
			all[i].PartnerID = "marked"
		}
	}
	commit(t, l, all[:150])
	commit(t, l, all[150:299])
	w := &witness{l: l, told: map[event.ID]bool{}}
	done, err := l.Erase(t.Context(), carrying(identifier.Partner, "marked"), w)
	if err != nil || done.Rows != 100 || len(w.told) != 100 || w.done != 1 {
		t.Fatalf("got %+v, %v, told of %d, done %d times; want 100, done once", done, err, len(w.told), w.done)
	}
	commit(t, l, all[299:])
	for range 2 {
		mark, err := l.ErasedMark(t.Context())
		snap, snapErr := l.Snapshot(t.Context(), 0)
		if err != nil || snapErr != nil || mark != "100" || snap.Deleted != "100" {
			t.Errorf("got %q and %q, %v, %v; want 100", mark, snap.Deleted, err, snapErr)
		}
		l = openLake(t, o)
	}
}
