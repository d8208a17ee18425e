package lake

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice/event"
	"sluice/internal/iceberg"
	"sluice/internal/identifier"
	"sluice/internal/objectstore"
)

// compactAll compacts until there is nothing left to do.
func compactAll(t testing.TB, l *Lake) {
	t.Helper()
	for {
		more, err := l.Compact(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !more {
			return
		}
	}
}

func eventsOf(l *Lake) iceberg.Stats { return l.Stats().Tables[2] }

// files lists everything below a directory.
func files(t testing.TB, dir string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			out = append(out, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// holding lists the files that hold a byte string.
func holding(t testing.TB, dir string, want []byte) []string {
	t.Helper()
	return slices.DeleteFunc(files(t, dir), func(path string) bool {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return !bytes.Contains(b, want)
	})
}

func TestCompactionKeepsRowsAndOrder(t *testing.T) {
	now := noon
	dir := t.TempDir()
	l := openLake(t, Options{Store: at(t, dir), Now: func() time.Time { return now }})
	s := newSampler(3, 4, 9)
	var all []event.Row
	for i := range 40 {
		rows := s.rows(50, noon.Add(time.Duration(i)*time.Minute))
		commit(t, l, rows)
		all = append(all, rows...)
	}
	compactAll(t, l)
	if n := eventsOf(l).Files; n > 16 {
		t.Errorf("got %d files on the day itself, want at most 16", n)
	}
	same(t, collect(t, l, Query{}), all)
	now = noon.Add(48 * time.Hour) // the day is over
	compactAll(t, l)
	if n := eventsOf(l).Files; n != 1 {
		t.Errorf("got %d files afterwards, want 1", n)
	}
	same(t, collect(t, l, Query{}), all)
	var last *event.Row
	for row, err := range l.Scan(t.Context(), Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		if last != nil && (last.DatasetID > row.DatasetID || last.DatasetID == row.DatasetID && last.EventTime > row.EventTime) {
			t.Fatal("got rows out of order in a file")
		}
		copied := *row
		last = &copied
	}
	if m, err := l.Watermarks(t.Context(), 0); err != nil || m.Events != 40 {
		t.Errorf("got marks %+v, %v, want 40", m, err)
	}

	// What was replaced stays for a while, then goes.
	if _, err := l.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(files(t, dir+"/events/data")); n < 2 {
		t.Errorf("got %d data files, want the replaced ones still there", n)
	}
	now = now.Add(25 * time.Hour)
	if err := l.Expire(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(files(t, dir+"/events/data")); n != 1 {
		t.Errorf("got %d data files, want 1", n)
	}
	same(t, collect(t, openLake(t, Options{Store: at(t, dir)}), Query{}), all)
}

func TestHoursAreAddedUp(t *testing.T) {
	now := noon
	l := openLake(t, Options{Now: func() time.Time { return now }})
	hour := noon.Unix()
	for i := range uint64(20) {
		err := l.Commit(t.Context(), Batch{Spans: []Span{{From: Watermarks{i, i, i}, To: i + 1}}, Hours: []Hour{
			{hour, "a", "events", "purchase", "accepted", 2, 0.5}, {hour, "b", "events", "lead", "accepted", 1, 0},
		}}, 0)
		if err != nil {
			t.Fatal(err)
		}
	}
	now = noon.Add(48 * time.Hour)
	compactAll(t, l)
	var got []Hour
	err := l.ScanHours(t.Context(), NumberQuery{}, func(h *Hour) error { got = append(got, *h); return nil })
	want := []Hour{{hour, "a", "events", "purchase", "accepted", 40, 10}, {hour, "b", "events", "lead", "accepted", 20, 0}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
}

func TestEraseLeavesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		mark func(*event.Row)
		p    Choice
		raw  string
	}{
		"email":   {func(r *event.Row) { r.EmailSHA256 = digest(1 << 40) }, carrying(identifier.Email, strings.ToUpper(digest(1<<40))), ""},
		"ip":      {func(r *event.Row) { r.IPSHA256 = digest(1 << 40) }, carrying(identifier.IP, digest(1<<40)), ""},
		"ifa":     {func(r *event.Row) { r.IFA = "6D92078a-8246-4ba4-ae5b-76104861e7dc" }, carrying(identifier.IFA, "6d92078A-8246-4BA4-AE5B-76104861E7DC"), "6D92078a-8246-4ba4-ae5b-76104861e7dc"},
		"partner": {func(r *event.Row) { r.PartnerID = "marked-partner-77" }, carrying(identifier.Partner, "marked-partner-77"), "marked-partner-77"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			l := openLake(t, Options{Store: at(t, dir)})
			s := newSampler(5, 2, 9)
			var keep []event.Row
			for i := range 20 {
				rows := s.rows(30, noon.Add(time.Duration(i)*time.Hour))
				if i%5 == 0 {
					c.mark(&rows[7])
				}
				commit(t, l, rows)
				if i%5 == 0 {
					rows = slices.Delete(slices.Clone(rows), 7, 8)
				}
				keep = append(keep, rows...)
			}
			compactAll(t, l)
			raw := []byte(c.raw)
			if c.raw == "" {
				raw, _ = hex.DecodeString(digest(1 << 40))
			}
			if len(holding(t, dir, raw)) == 0 && c.raw == "" {
				t.Fatal("got no file with the identifier, so the test proves nothing")
			}
			done, err := l.Erase(t.Context(), c.p, nil)
			if err != nil || done.Rows != 4 {
				t.Fatalf("got %+v, %v, want 4 rows", done, err)
			}
			if left := holding(t, dir, raw); len(left) > 0 {
				t.Errorf("got %v, want no file that holds the identifier", left)
			}
			same(t, collect(t, l, Query{}), keep)
			same(t, collect(t, openLake(t, Options{Store: at(t, dir)}), Query{}), keep)
			if done, err := l.Erase(t.Context(), c.p, nil); err != nil || done.Rows != 0 {
				t.Errorf("got %+v, %v the second time, want nothing to do", done, err)
			}
			if n := eventsOf(l).Snapshots; n != 1 {
				t.Errorf("got %d snapshots, want 1", n)
			}
		})
	}
}

// carrying chooses the rows with an identifier.
func carrying(k identifier.Kind, value string) Choice {
	return Choice{Kinds: []identifier.Kind{k}, Match: identifier.ID{Kind: k, Value: k.Fold(value)}.In}
}

// errCrash ends a step and, like a crash, leaves everything lying as it is.
var errCrash = errors.Join(objectstore.ErrUncertain, errors.New("crash"))

// A crash at any step of upkeep, then another process: the rows are the same and the work can be finished.
func TestUpkeepCrashesAtEveryStep(t *testing.T) {
	marked := digest(1 << 40)
	raw, _ := hex.DecodeString(marked)
	// One lake is filled and then copied: that a copy opens elsewhere is a promise, too.
	filled := t.TempDir()
	var keep []event.Row
	l, s := openLake(t, Options{Store: at(t, filled)}), newSampler(5, 2, 9)
	for i := range 17 {
		rows := s.rows(20, noon)
		if i == 3 {
			rows[5].EmailSHA256 = marked
		}
		commit(t, l, rows)
		if i == 3 {
			rows = slices.Delete(slices.Clone(rows), 5, 6)
		}
		keep = append(keep, rows...)
	}
	copied := func(t *testing.T) string {
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS(filled)); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	work := func(ctx context.Context, o Options) error {
		o.Now = func() time.Time { return noon }
		l, err := Open(ctx, o) // the copy is relocated
		if err != nil {
			return err
		}
		if _, err := l.Compact(ctx); err != nil {
			return err
		}
		if _, err := l.Erase(ctx, carrying(identifier.Email, marked), nil); err != nil {
			return err
		}
		_, err = l.Sweep(ctx)
		return err
	}
	var steps []string
	err := work(t.Context(), Options{Store: at(t, copied(t)), Step: func(name string) error {
		steps = append(steps, name)
		return nil
	}})
	if err != nil || len(steps) < 12 {
		t.Fatalf("got %v, %v, want the steps of a compaction, an erasure and a sweep", steps, err)
	}
	for i, name := range steps {
		if i > 0 && steps[i-1] == name && i%8 != 0 {
			continue // one removed file is much like the next
		}
		t.Run(fmt.Sprint(i, name), func(t *testing.T) {
			t.Parallel() // they wait for the disk most of the time
			dir := copied(t)
			var n atomic.Int64
			err := work(t.Context(), Options{Store: at(t, dir), Step: func(string) error {
				if n.Add(1) > int64(i) {
					return errCrash
				}
				return nil
			}})
			if !errors.Is(err, objectstore.ErrUncertain) {
				t.Fatalf("got %v, want the crash", err)
			}
			l := openLake(t, Options{Store: at(t, dir)})
			got := collect(t, l, Query{})
			same(t, slices.DeleteFunc(got, func(r event.Row) bool { return r.EmailSHA256 == marked }), keep)
			if err := work(t.Context(), Options{Store: at(t, dir)}); err != nil {
				t.Fatal(err)
			}
			same(t, collect(t, l, Query{}), keep)
			if left := holding(t, dir, raw); len(left) > 0 {
				t.Errorf("got %v, want no file that holds the identifier", left)
			}
			if n, want := len(files(t, dir+"/events/data")), eventsOf(l).Files; n != want {
				t.Errorf("got %d data files, want %d", n, want)
			}
		})
	}
}

// Loading, compaction, erasure and scans at the same time, from two processes' worth of lakes.
func TestEverythingAtOnce(t *testing.T) {
	dir := t.TempDir()
	loader, keeper := openLake(t, Options{Store: at(t, dir), FileBytes: 1 << 20}), openLake(t, Options{Store: at(t, dir), FileBytes: 1 << 20})
	s := newSampler(5, 3, 9)
	const rounds = 60
	var batches [][]event.Row
	var keep []event.Row
	for range rounds {
		rows := s.rows(40, noon)
		rows[3].PartnerID = "marked"
		batches = append(batches, rows)
		keep = append(keep, slices.Delete(slices.Clone(rows), 3, 4)...)
	}
	ctx, cancel := context.WithCancel(t.Context())
	upkeep := make(chan error, 2)
	go func() {
		for ctx.Err() == nil {
			if _, err := keeper.Compact(ctx); err != nil && ctx.Err() == nil {
				upkeep <- err
				return
			}
		}
		upkeep <- nil
	}()
	go func() {
		for ctx.Err() == nil {
			if _, err := keeper.Erase(ctx, carrying(identifier.Partner, "marked"), nil); err != nil && ctx.Err() == nil {
				upkeep <- err
				return
			}
			for _, err := range keeper.Scan(ctx, Query{}) {
				if err != nil && ctx.Err() == nil {
					upkeep <- err
					return
				}
			}
		}
		upkeep <- nil
	}()
	for _, rows := range batches {
		commit(t, loader, rows)
	}
	cancel()
	for range 2 {
		if err := <-upkeep; err != nil {
			t.Error(err)
		}
	}
	l := openLake(t, Options{Store: at(t, dir)})
	if _, err := l.Erase(t.Context(), carrying(identifier.Partner, "marked"), nil); err != nil {
		t.Fatal(err)
	}
	same(t, collect(t, l, Query{}), keep)
}

// Compaction waits while a backlog is loaded, but not for ever.
func TestCompactionWaitsForABacklog(t *testing.T) {
	var b backlog
	at := noon
	if b.alone(at) {
		t.Error("compaction waits before the first commit")
	}
	for ; at.Before(noon.Add(backlogAlone)); at = at.Add(time.Second) {
		b.note(at)
		if !b.alone(at.Add(time.Millisecond)) {
			t.Fatalf("compaction does not wait %v after the beginning", at.Sub(noon))
		}
	}
	b.note(at)
	if b.alone(at) {
		t.Error("compaction waits for longer than it should")
	}
	if at = at.Add(2 * maintainEvery); b.alone(at) {
		t.Error("compaction waits after the end")
	}
	if b.note(at); !b.alone(at) {
		t.Error("compaction does not wait for the next backlog")
	}
}

// However numbers come, they are in the order of the table.
func TestSortedHours(t *testing.T) {
	s := newSampler(1, 1, 1)
	name := func(n int) string { return string(rune('a' + s.rand.IntN(n))) }
	for _, grouped := range []bool{true, false} {
		rows := make([]Hour, 500)
		for i := range rows {
			rows[i] = Hour{Hour: int64(s.rand.IntN(3)), DatasetID: name(5), Kind: name(3), Name: name(9), Field: name(4)}
		}
		if grouped {
			slices.SortStableFunc(rows, func(a, b Hour) int {
				return cmp.Or(strings.Compare(a.DatasetID, b.DatasetID), cmp.Compare(a.Hour, b.Hour))
			})
		}
		places := sortedHours(rows)
		if !slices.IsSortedFunc(places, func(a, b int32) int { return compareHours(&rows[a], &rows[b]) }) {
			t.Errorf("grouped %t: the rows are not in order", grouped)
		}
		slices.Sort(places)
		if len(slices.Compact(places)) != len(rows) {
			t.Errorf("grouped %t: a row is missing", grouped)
		}
	}
}
