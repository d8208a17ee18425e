package lake

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/iceberg-go"

	"sluice/event"
)

// document is the newest metadata of a table as another program finds it: by the hint.
func document(t testing.TB, dir, table string) *metadata {
	t.Helper()
	hint, err := os.ReadFile(filepath.Join(dir, table, hintName))
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, table, "metadata", "v"+string(hint)+".metadata.json"))
	if err != nil {
		t.Fatal(err)
	}
	var m metadata
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	return &m
}

func TestHintFromTheFirstVersionOn(t *testing.T) {
	dir := t.TempDir()
	l := openLake(t, Options{Dir: dir})
	for _, table := range []string{eventsTable, hoursTable, rejectionsTable} {
		if m := document(t, dir, table); m.CurrentSnapshot != nil || len(m.Snapshots) != 0 {
			t.Errorf("%s: got %+v, want a table without snapshots", table, m)
		}
	}
	commit(t, l, newSampler(1, 1, 1).rows(1, noon))
	if m := document(t, dir, eventsTable); m.CurrentSnapshot == nil {
		t.Error("got no snapshot through the hint after a commit")
	}
	// A hint that was lost in a crash comes back when the table is opened.
	if err := os.Remove(filepath.Join(dir, eventsTable, hintName)); err != nil {
		t.Fatal(err)
	}
	openLake(t, Options{Dir: dir})
	if m := document(t, dir, eventsTable); m.CurrentSnapshot == nil {
		t.Error("got no snapshot through the hint after opening")
	}
}

// With a commit every five seconds the number of snapshots levels off, and none is missing that spacings promises.
func TestSpacings(t *testing.T) {
	table := &table{keep: 24 * time.Hour}
	var kept []snapshot
	most := 0
	begun := noon.UnixMilli()
	now := begun
	for id := range int64(2 * 17280) {
		now += 5000
		last := snapshot{ID: id, TimestampMS: now}
		kept = append(table.unexpired(kept, &last, false, now), last)
		most = max(most, len(kept))
	}
	if most < 400 || most > 520 {
		t.Errorf("got up to %d snapshots, want about 480", most)
	}
	for i := range kept[1:] {
		age := now - kept[i+1].TimestampMS
		gap := time.Duration(kept[i+1].TimestampMS-kept[i].TimestampMS) * time.Millisecond
		if allowed := max(5*time.Second, 2*spacing(age)); gap > allowed && gap > 10*time.Minute {
			t.Errorf("got a gap of %v at an age of %v", gap, time.Duration(age)*time.Millisecond)
		}
	}
	if span := now - kept[0].TimestampMS; span < (24*time.Hour).Milliseconds()-600_000 {
		t.Errorf("got snapshots of %v, want a day", time.Duration(span)*time.Millisecond)
	}
}

// Snapshots are kept for a day, and so are their files.
func TestSnapshotsAreKeptByAge(t *testing.T) {
	now := noon
	dir := t.TempDir()
	l := openLake(t, Options{Dir: dir, Now: func() time.Time { return now }})
	rows := newSampler(1, 1, 1).rows(1, noon)
	for range 160 {
		commit(t, l, rows)
		now = now.Add(10 * time.Minute) // for more than a day
	}
	snapshots := document(t, dir, eventsTable).Snapshots
	if len(snapshots) < 140 || len(snapshots) > 150 {
		t.Errorf("got %d snapshots, want those of a day", len(snapshots))
	}
	if span := time.UnixMilli(snapshots[len(snapshots)-1].TimestampMS).Sub(time.UnixMilli(snapshots[0].TimestampMS)); span < 23*time.Hour+45*time.Minute {
		t.Errorf("got snapshots of %v, want a day", span)
	}
	// Every file of a kept snapshot is there, whatever compaction and the sweep did.
	compactAll(t, l)
	if _, err := l.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := l.events.state.Load()
	used, err := l.events.used(s)
	if err != nil {
		t.Fatal(err)
	}
	for name := range used {
		if _, err := os.Stat(filepath.Join(dir, eventsTable, name)); err != nil {
			t.Fatalf("got %v, want every file that a snapshot lists", err)
		}
	}
	if n := len(files(t, filepath.Join(dir, eventsTable, "data"))); n < eventsOf(l).Parts+10 {
		t.Errorf("got %d data files, want those of older snapshots, too", n)
	}
}

func TestLogNamesNoDeletedVersion(t *testing.T) {
	dir := t.TempDir()
	l := openLake(t, Options{Dir: dir})
	s := newSampler(1, 1, 1)
	for range 5 {
		commit(t, l, s.rows(3, noon))
	}
	marked := s.rows(3, noon)
	marked[1].PartnerID = "marked"
	commit(t, l, marked)
	if _, err := l.Erase(t.Context(), Predicate{PartnerID: "marked"}); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		commit(t, l, s.rows(3, noon))
		for _, e := range document(t, dir, eventsTable).MetadataLog {
			if _, err := os.Stat(e.File); err != nil {
				t.Errorf("got %v, want every version that the log names", err)
			}
		}
	}
}

// A lake that was moved names its new place everywhere, in older snapshots, too, and keeps its history.
func TestMovedLake(t *testing.T) {
	old := t.TempDir()
	l := openLake(t, Options{Dir: old})
	s := newSampler(1, 2, 5)
	all := s.rows(50, noon)
	commit(t, l, all)
	for range 20 {
		rows := s.rows(50, noon)
		all = append(all, rows...)
		commit(t, l, rows)
	}
	before := document(t, old, eventsTable)
	dir := filepath.Join(t.TempDir(), "elsewhere")
	if err := os.Rename(old, dir); err != nil {
		t.Fatal(err)
	}
	l = openLake(t, Options{Dir: dir})
	after := document(t, dir, eventsTable)
	if len(after.Snapshots) != len(before.Snapshots) || *after.CurrentSnapshot != *before.CurrentSnapshot || after.TableUUID != before.TableUUID {
		t.Errorf("got %d snapshots, want the %d from before", len(after.Snapshots), len(before.Snapshots))
	}
	for i, snap := range after.Snapshots {
		if snap.ID != before.Snapshots[i].ID {
			t.Errorf("got snapshot %d, want %d", snap.ID, before.Snapshots[i].ID)
		}
		if n := locations(t, dir, snap.ManifestList); n == 0 {
			t.Errorf("got no files in snapshot %d", snap.ID)
		}
	}
	same(t, collect(t, l, Query{}), all)
	if m := document(t, dir, eventsTable); m.Location != filepath.Join(dir, eventsTable) {
		t.Errorf("got location %s", m.Location)
	}
	version := l.events.state.Load().version
	if again := openLake(t, Options{Dir: dir}); again.events.state.Load().version != version {
		t.Error("got another version, want nothing to do")
	}
}

// locations reads a list, its manifests and the files they name by their locations, and says how many files there are.
func locations(t testing.TB, dir, list string) (files int) {
	t.Helper()
	read := func(location string) []byte {
		if !strings.HasPrefix(location, dir) {
			t.Fatalf("got location %s, want one below %s", location, dir)
		}
		b, err := os.ReadFile(location)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	manifests, err := iceberg.ReadManifestList(bytes.NewReader(read(list)))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range manifests {
		entries, err := iceberg.ReadManifest(m, bytes.NewReader(read(m.FilePath())), true)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			read(e.DataFile().FilePath())
			files++
			for id := range e.DataFile().ColumnSizes() {
				if !slices.ContainsFunc(eventColumns, func(c column[event.Row]) bool { return c.id == id || c.element == id }) {
					t.Fatalf("got column sizes with id %d, which no column has", id)
				}
			}
		}
	}
	return files
}
