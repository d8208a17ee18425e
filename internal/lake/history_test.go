package lake

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/apache/iceberg-go"

	"sluice/internal/identifier"
)

// tableDocument is what tests look at of a table's metadata document.
type tableDocument struct {
	Location        string
	UUID            string `json:"table-uuid"`
	CurrentSnapshot *int64 `json:"current-snapshot-id"`
	Properties      map[string]string
	Snapshots       []struct {
		ID           int64  `json:"snapshot-id"`
		TimestampMS  int64  `json:"timestamp-ms"`
		ManifestList string `json:"manifest-list"`
	}
	Log []struct {
		File string `json:"metadata-file"`
	} `json:"metadata-log"`
}

const hintName = "metadata/version-hint.text"

func hintOf(t testing.TB, dir, table string) string {
	t.Helper()
	hint, err := os.ReadFile(filepath.Join(dir, table, hintName))
	if err != nil {
		t.Fatal(err)
	}
	return string(hint)
}

// document is the newest metadata of a table as another program finds it: by the hint.
func document(t testing.TB, dir, table string) *tableDocument {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, table, "metadata", "v"+hintOf(t, dir, table)+".metadata.json"))
	if err != nil {
		t.Fatal(err)
	}
	var m tableDocument
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	return &m
}

func TestHintFromTheFirstVersionOn(t *testing.T) {
	dir := t.TempDir()
	l := openLake(t, Options{Store: at(t, dir)})
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
	openLake(t, Options{Store: at(t, dir)})
	if m := document(t, dir, eventsTable); m.CurrentSnapshot == nil {
		t.Error("got no snapshot through the hint after opening")
	}
}

// Snapshots are kept for a day, and so are their files.
func TestSnapshotsAreKeptByAge(t *testing.T) {
	now := noon
	dir := t.TempDir()
	l := openLake(t, Options{Store: at(t, dir), Now: func() time.Time { return now }})
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
	for _, snap := range document(t, dir, eventsTable).Snapshots {
		if n := locations(t, dir, snap.ManifestList); n == 0 {
			t.Errorf("got no files in snapshot %d", snap.ID)
		}
	}
	if n := len(files(t, filepath.Join(dir, eventsTable, "data"))); n < eventsOf(l).Files+10 {
		t.Errorf("got %d data files, want those of older snapshots, too", n)
	}
}

func TestLogNamesNoDeletedVersion(t *testing.T) {
	dir := t.TempDir()
	l := openLake(t, Options{Store: at(t, dir)})
	s := newSampler(1, 1, 1)
	for range 5 {
		commit(t, l, s.rows(3, noon))
	}
	marked := s.rows(3, noon)
	marked[1].PartnerID = "marked"
	commit(t, l, marked)
	if _, err := l.Erase(t.Context(), carrying(identifier.Partner, "marked"), nil); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		commit(t, l, s.rows(3, noon))
		for _, e := range document(t, dir, eventsTable).Log {
			if _, err := os.Stat(strings.TrimPrefix(e.File, "file://")); err != nil {
				t.Errorf("got %v, want every version that the log names", err)
			}
		}
	}
}

// A lake that was moved names its new place everywhere, in older snapshots, too, and keeps its history.
func TestMovedLake(t *testing.T) {
	old := t.TempDir()
	l := openLake(t, Options{Store: at(t, old)})
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
	l = openLake(t, Options{Store: at(t, dir)})
	after := document(t, dir, eventsTable)
	if len(after.Snapshots) != len(before.Snapshots) || *after.CurrentSnapshot != *before.CurrentSnapshot || after.UUID != before.UUID {
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
	if m := document(t, dir, eventsTable); m.Location != "file://"+filepath.Join(dir, eventsTable) {
		t.Errorf("got location %s", m.Location)
	}
	version := hintOf(t, dir, eventsTable)
	openLake(t, Options{Store: at(t, dir)})
	if again := hintOf(t, dir, eventsTable); again != version {
		t.Errorf("got version %s after opening it again, want %s", again, version)
	}
}

// locations reads a list, its manifests and the files they name by their locations, and says how many files there are.
func locations(t testing.TB, dir, list string) (files int) {
	t.Helper()
	read := func(location string) []byte {
		name, ok := strings.CutPrefix(location, "file://")
		if !ok || !strings.HasPrefix(name, dir) {
			t.Fatalf("got location %s, want one below file://%s", location, dir)
		}
		b, err := os.ReadFile(name)
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
				if id < 1 || id > 31 {
					t.Fatalf("got column sizes with id %d, which no column has", id)
				}
			}
		}
	}
	return files
}
