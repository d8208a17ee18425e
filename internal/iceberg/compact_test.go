package iceberg

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"sluice/internal/objectstore"
	"sluice/internal/parquetfile"
	"sluice/internal/watermark"
)

// appendSamples commits rows in files of n, whose order is unique, and returns the files.
func appendSamples(t *testing.T, table *Table[sample], files, n int, change func(file int, rows []sample)) []*dataFile {
	t.Helper()
	r := rand.New(rand.NewPCG(3, uint64(files*n)))
	for i := range files {
		rows := randomSamples(r, n)
		for k := range rows {
			rows[k].At = noon.Unix() + int64(r.IntN(1000))*int64(files) + int64(i)
		}
		if change != nil {
			change(i, rows)
		}
		from := watermark.Origin{Spans: []watermark.Span{{From: uint64(i), To: uint64(i + 1)}}}
		if err := table.Append(t.Context(), rows, from, nil); err != nil {
			t.Fatal(err)
		}
	}
	s, err := table.refresh(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s.files()
}

// inOneSet gives rows one set and long notes, so that a file is large beside those of tests.
func inOneSet(file int, rows []sample) {
	for i := range rows {
		rows[i].Set = "set"
		rows[i].Note = fmt.Sprintf("a note that no other row has: %d of %d, and some more text", i, file)
	}
}

// A file that is not sorted says so in its manifest, also after a restart, and deletion finds its rows.
func TestCompactionCopiesGroups(t *testing.T) {
	dir := t.TempDir()
	table := openSamples(t, dir)
	const files, rows = mergeFiles, 400
	appendSamples(t, table, files, rows, inOneSet)
	if did, err := table.Compact(t.Context(), nil); !did || err != nil {
		t.Fatalf("got %v, %v, want a compaction", did, err)
	}
	table = openSamples(t, dir)
	all := table.state.Load().files()
	if len(all) != 1 || !all[0].unsorted || all[0].rows != files*rows || len(all[0].splits) != files {
		t.Fatalf("got %d files, the first %+v, want one of %d row groups that is not sorted", len(all), all[0], files)
	}
	if did, err := table.Compact(t.Context(), nil); did || err != nil {
		t.Errorf("got %v, %v, want nothing left to compact", did, err)
	}
	done, err := table.Delete(t.Context(), Condition[sample]{
		Columns: []string{"small"}, Match: func(r *sample) bool { return r.Small == 7 },
	}, nil)
	if err != nil || done.Rows != files {
		t.Errorf("got %+v, %v, want %d rows deleted", done, err, files)
	}
	all = table.state.Load().files()
	if len(all) != 1 || !all[0].unsorted || all[0].rows != files*(rows-1) {
		t.Errorf("got %d files, the first %+v, want one that does not say it is sorted", len(all), all[0])
	}
}

// What cannot be copied is merged, and a damaged file is passed over.
func TestCopyGroupsOrMerge(t *testing.T) {
	dir := t.TempDir()
	table := openSamples(t, dir)
	files := appendSamples(t, table, 3, 1000, inOneSet)
	made, err := table.copyGroups(t.Context(), files, nil)
	if err != nil || len(made) != 1 || !made[0].unsorted || len(made[0].splits) != len(files) {
		t.Fatalf("got %v, %v, want a copy of %d row groups that is not sorted", made, err, len(files))
	}
	merged, err := table.mergeSorted(t.Context(), append(made, files[0]), parquetfile.PackedPage, nil)
	if err != nil || len(merged) != 1 || !merged[0].unsorted || merged[0].rows != 4000 {
		t.Errorf("got %v, %v, want a merge that does not say it is sorted", merged, err)
	}
	small := openSamples(t, t.TempDir())
	few := appendSamples(t, small, 3, 100, inOneSet)
	if made, err := small.copyGroups(t.Context(), few, nil); made != nil || err != nil {
		t.Errorf("small row groups: got %v, %v, want no copy", made, err)
	}
	name := filepath.Join(dir, files[1].name)
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 4
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if made, err := table.copyGroups(t.Context(), files, nil); !errors.Is(err, errUnreadable) || made != nil {
		t.Errorf("a damaged page: got %v, %v, want errUnreadable", made, err)
	}
	_, first := table.bad.Load(files[0].name)
	if _, second := table.bad.Load(files[1].name); !second || first {
		t.Error("the damaged file is not the one that is noted")
	}
}

// silent is a store that lists its files, and does not give the bytes of one.
type silent struct {
	objectstore.Store
	away *string
}

type silentObject struct {
	objectstore.Object
	away func() bool
}

func (s silent) Open(ctx context.Context, name string) (objectstore.Object, error) {
	o, err := s.Store.Open(ctx, name)
	return silentObject{o, func() bool { return *s.away == name }}, err
}

func (o silentObject) ReadAt(b []byte, off int64) (int, error) {
	if o.away() {
		return 0, errors.New("503")
	}
	return o.Object.ReadAt(b, off)
}

// A file that the store does not give for a while is not damaged: others are merged meanwhile, and it is later.
func TestFilesAreNotDamagedWhileTheStoreIsAway(t *testing.T) {
	table := openSamples(t, t.TempDir())
	now := noon
	table.now = func() time.Time { return now }
	files := appendSamples(t, table, 2*mergeFiles, 400, nil)
	away := files[0].name
	table.store = silent{table.store, &away}
	if did, err := table.Compact(t.Context(), nil); did || err == nil {
		t.Errorf("while it is away: got %v, %v, want an error", did, err)
	}
	if did, err := table.Compact(t.Context(), nil); !did || err != nil {
		t.Errorf("the other files: got %v, %v, want a merge", did, err)
	}
	if damaged := table.DamagedFiles(); len(damaged) > 0 {
		t.Errorf("%d files count as damaged", len(damaged))
	}
	away, now = "", now.Add(avoidFor)
	if did, err := table.Compact(t.Context(), nil); !did || err != nil {
		t.Errorf("afterwards: got %v, %v, want a merge", did, err)
	}
	s, err := table.refresh(t.Context())
	if err != nil || len(s.files()) > 2 {
		t.Errorf("got %d files, %v, want two", len(s.files()), err)
	}
}
