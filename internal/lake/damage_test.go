package lake

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/event"
	"sluice/internal/iceberg"
	"sluice/internal/identifier"
)

// newestFile is the file of a pattern that was written last, or n before that.
func nth(t *testing.T, dir, pattern string, n int) string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(list) <= n {
		t.Fatalf("got %d files for %s, %v", len(list), pattern, err)
	}
	slices.SortFunc(list, func(a, b string) int {
		x, _ := os.Stat(a)
		y, _ := os.Stat(b)
		return y.ModTime().Compare(x.ModTime())
	})
	return list[n]
}

// stamp gives every file that is new the time n, in seconds: what was written quickly has the same time otherwise, and
// nth could not tell which is newer.
func stamp(t *testing.T, dir string, n int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		if info, err := e.Info(); err != nil || info.ModTime().Unix() < 1000 {
			return err
		}
		return os.Chtimes(path, time.Time{}, time.Unix(n, 0))
	})
	if err != nil {
		t.Fatal(err)
	}
}

func flip(t *testing.T, path string, at float64) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[int(at*float64(len(b)-1))] ^= 0x10
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func truncate(t *testing.T, path string) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, info.Size()/2); err != nil {
		t.Fatal(err)
	}
}

// Damage at rest is found, said and survived: what it does not touch is served, and what the stream still has is
// asked for again, because the watermark is that of what can be read.
func TestDamageAtRest(t *testing.T) {
	const commits, each = 6, 50
	for name, c := range map[string]struct {
		do    func(t *testing.T, dir string)
		rows  int    // that are served
		mark  uint64 // from where the loader goes on
		noisy bool   // a scan says that something is missing
	}{
		"nothing":             {func(*testing.T, string) {}, 300, 6, false},
		"file truncated":      {func(t *testing.T, d string) { truncate(t, nth(t, d, "data/*/*.parquet", 2)) }, 250, 6, true},
		"file gone":           {func(t *testing.T, d string) { os.Remove(nth(t, d, "data/*/*.parquet", 2)) }, 250, 6, true},
		"file footer flipped": {func(t *testing.T, d string) { flip(t, nth(t, d, "data/*/*.parquet", 2), 0.8) }, 250, 6, true},
		"file middle flipped": {func(t *testing.T, d string) { flip(t, nth(t, d, "data/*/*.parquet", 2), 0.3) }, 250, 6, true},
		"file empty":          {func(t *testing.T, d string) { os.Truncate(nth(t, d, "data/*/*.parquet", 2), 0) }, 250, 6, true},
		"metadata flipped":    {func(t *testing.T, d string) { flip(t, nth(t, d, "metadata/v*.json", 0), 0.5) }, 250, 5, true},
		"metadata truncated":  {func(t *testing.T, d string) { truncate(t, nth(t, d, "metadata/v*.json", 0)) }, 250, 5, true},
		"metadata empty":      {func(t *testing.T, d string) { os.Truncate(nth(t, d, "metadata/v*.json", 0), 0) }, 250, 5, true},
		"two metadata damaged": {func(t *testing.T, d string) {
			truncate(t, nth(t, d, "metadata/v*.json", 0))
			flip(t, nth(t, d, "metadata/v*.json", 1), 0.7)
		}, 200, 4, true},
		"hint wrong":          {func(t *testing.T, d string) { os.WriteFile(d+"/metadata/version-hint.text", []byte("x"), 0o600) }, 300, 6, false},
		"list truncated":      {func(t *testing.T, d string) { truncate(t, nth(t, d, "metadata/snap-*.avro", 0)) }, 250, 5, true},
		"list gone":           {func(t *testing.T, d string) { os.Remove(nth(t, d, "metadata/snap-*.avro", 0)) }, 250, 5, true},
		"manifest truncated":  {func(t *testing.T, d string) { truncate(t, nth(t, d, "metadata/*-m0.avro", 0)) }, 250, 5, true},
		"first manifest gone": {func(t *testing.T, d string) { os.Remove(nth(t, d, "metadata/*-m0.avro", commits-1)) }, 0, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			l := openLake(t, Options{Store: at(t, dir)})
			s := newSampler(5, 2, 9)
			var all [][]event.Row
			for i := range commits {
				rows := s.rows(each, noon)
				commit(t, l, rows)
				stamp(t, dir, int64(i))
				all = append(all, rows)
			}
			c.do(t, dir+"/events")
			l = openLake(t, Options{Store: at(t, dir)})
			n := 0
			var said error
			for _, err := range l.Scan(t.Context(), Query{}) {
				if err != nil {
					said = err
					break
				}
				n++
			}
			if n != c.rows || errors.Is(said, ErrDamaged) != c.noisy {
				t.Errorf("got %d rows and %v, want %d", n, said, c.rows)
			}
			marks, err := l.Watermarks(t.Context(), 0)
			if err != nil || marks.Events != c.mark {
				t.Fatalf("got mark %d, %v, want %d", marks.Events, err, c.mark)
			}
			st := l.Stats()
			if noise := int64(len(l.DamagedFiles())) + st.Tables[2].Damaged; (noise > 0) != c.noisy {
				t.Errorf("got %d counted, want noise %v", noise, c.noisy)
			}
			// Loading goes on where it stands, and a new process sees the same.
			for _, rows := range all[marks.Events:] {
				commit(t, l, rows)
			}
			more := s.rows(each, noon)
			commit(t, l, more)
			l = openLake(t, Options{Store: at(t, dir)})
			n = 0
			for _, err := range l.Scan(t.Context(), Query{}) {
				if err == nil {
					n++
				}
			}
			if want := c.rows + (commits-int(c.mark)+1)*each; n != want {
				t.Errorf("got %d rows in the end, want %d", n, want)
			}
			if c.noisy && strings.HasPrefix(name, "file") && !strings.Contains(name, "middle") {
				compactAll(t, l) // leaves the damaged file alone
				if _, err := l.Erase(t.Context(), carrying(identifier.Partner, "nobody"), nil); !errors.Is(err, ErrDamaged) {
					t.Errorf("got %v from an erasure, want it to say that it could not look everywhere", err)
				}
			}
		})
	}
}

// A file that cannot be read is named until it can be read again, or until no table lists it.
func TestDamagedFileIsNamed(t *testing.T) {
	dir := t.TempDir()
	l := openLake(t, Options{Store: at(t, dir)})
	commit(t, l, newSampler(5, 2, 9).rows(50, noon))
	file := nth(t, dir, "events/data/*/*.parquet", 0)
	scan := func() {
		for range l.Scan(t.Context(), Query{}) {
		}
	}
	lose := func(name string, mend func() error) {
		t.Helper()
		if err := os.Rename(file, file+".away"); err != nil {
			t.Fatal(err)
		}
		scan()
		lost := l.DamagedFiles()
		if len(lost) != 1 || filepath.Base(lost[0]) != filepath.Base(file) {
			t.Fatalf("got %v, want %s", lost, file)
		}
		if still, err := l.StillDamaged(t.Context(), lost[0]); !still || err != nil {
			t.Errorf("got %v %v, want a file that is damaged", still, err)
		}
		if err := mend(); err != nil {
			t.Fatal(err)
		}
		if still, err := l.StillDamaged(t.Context(), lost[0]); still || err != nil || len(l.DamagedFiles()) != 0 {
			t.Errorf("%s: got %v %v %v, want no file that is damaged", name, still, err, l.DamagedFiles())
		}
	}
	lose("restored", func() error { return os.Rename(file+".away", file) })
	lose("dropped", func() error {
		later := noon.AddDate(1, 0, 0)
		_, err := l.events.Retain(t.Context(), iceberg.Retention{Counted: later, Before: later, Confirmed: later})
		return err
	})
}

// A flipped bit anywhere in what describes the table is noticed: never other files, bounds or rows than were there.
func TestEveryByteOfMetadata(t *testing.T) {
	for _, pattern := range []string{"metadata/v*.json", "metadata/snap-*.avro", "metadata/*-m0.avro"} {
		dir := t.TempDir()
		l := openLake(t, Options{Store: at(t, dir)})
		s := newSampler(5, 2, 9)
		for i := range 2 {
			commit(t, l, s.rows(20, noon))
			stamp(t, dir, int64(i))
		}
		path := nth(t, dir+"/events", pattern, 0)
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(whole); i += 11 {
			b := slices.Clone(whole)
			b[i] ^= 0x04
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
			l := iceberg.New(eventSchema, iceberg.Options{
				Store: at(t, dir).Sub(eventsTable), Now: func() time.Time { return noon }, SnapshotRetention: time.Hour,
			})
			if err := l.Open(t.Context()); err != nil {
				t.Fatal(err)
			}
			at, err := l.Progress(t.Context())
			if st := l.Stats(); err != nil || st.Damaged == 0 || st.Files != 1 || at.Watermarks[0] != 1 {
				t.Fatalf("%s, byte %d: got %+v, want the version before", pattern, i, st)
			}
		}
	}
}

// A file that is gone is missing, and was not read.
func TestCheckFindsMissingFiles(t *testing.T) {
	dir := t.TempDir()
	l := openLake(t, Options{Store: at(t, dir)})
	for i := range 2 {
		commit(t, l, newSampler(5, 2, 9+i).rows(20, noon))
	}
	if err := os.Remove(nth(t, dir+"/events", "data/*/*.parquet", 0)); err != nil {
		t.Fatal(err)
	}
	var found []string
	c, err := l.Check(t.Context(), func(f Finding) { found = append(found, f.Problem) }, silent)
	if err != nil || !slices.Equal(found, []string{"missing"}) || c.Rows != 20 {
		t.Errorf("got %v and %+v, %v, want one missing file and the 20 rows of the other", found, c, err)
	}
}

// A flipped bit anywhere in a file is either harmless or noticed: never other rows than were stored.
func TestEveryByteOfAFile(t *testing.T) {
	dir := t.TempDir()
	l := openLake(t, Options{Store: at(t, dir)})
	rows := newSampler(5, 2, 9).rows(20, noon)
	commit(t, l, rows)
	want := byID(rows)
	path := nth(t, dir+"/events", "data/*/*.parquet", 0)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	noticed, wrong := 0, 0
	for at := 0; at < len(whole); at += 7 {
		b := slices.Clone(whole)
		b[at] ^= 0x04
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		var got []event.Row
		damaged := false
		for row, err := range l.Scan(t.Context(), Query{}) {
			if err != nil {
				damaged = true
				break
			}
			got = append(got, *row)
		}
		if damaged {
			noticed++
			continue
		}
		got = byID(got)
		if len(got) != len(want) {
			t.Fatalf("byte %d: got %d rows and no complaint", at, len(got))
		}
		for i := range got {
			if got[i].EventID != want[i].EventID || got[i].PageURL != want[i].PageURL || got[i].EmailSHA256 != want[i].EmailSHA256 {
				wrong++
				t.Logf("byte %d of %d changed a row without complaint", at, len(whole))
				break
			}
		}
	}
	if noticed < len(whole)/7/2 {
		t.Errorf("got %d flips noticed of %d, want most", noticed, len(whole)/7)
	}
	if wrong > 0 {
		t.Errorf("got %d flips that changed rows unnoticed", wrong)
	}
}
