package lake

import (
	"path/filepath"
	"strings"
	"testing"
)

// Every location is a URL of which the path is as it is, whatever is in it; lists of files are paths.
func TestLocations(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "100% of ä lake")
	l := openLake(t, Options{Store: at(t, dir)})
	rows := newSampler(1, 2, 5).rows(40, noon)
	commit(t, l, rows[:20])
	commit(t, l, rows[20:])
	m := document(t, dir, eventsTable)
	if m.Location != "file://"+filepath.Join(dir, eventsTable) || len(m.Snapshots) != 2 {
		t.Errorf("got location %s and %d snapshots", m.Location, len(m.Snapshots))
	}
	for _, e := range m.Log {
		if !strings.HasPrefix(e.File, "file://"+dir) {
			t.Errorf("got an earlier version at %s", e.File)
		}
	}
	for _, snap := range m.Snapshots {
		if n := locations(t, dir, snap.ManifestList); n == 0 {
			t.Errorf("got no files in snapshot %d", snap.ID)
		}
	}
	same(t, collect(t, openLake(t, Options{Store: at(t, dir)}), Query{}), rows)
	if files, err := l.Files(t.Context(), eventsTable); err != nil || len(files) != 2 || !strings.HasPrefix(files[0], dir) {
		t.Errorf("got files %v, %v, want paths below %s", files, err, dir)
	}
}
