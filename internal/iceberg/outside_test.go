package iceberg

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/metadata"
	"sluice/internal/objectstore"
	"sluice/internal/watermark"
)

// forger is a store that writes another location into metadata than that of the file.
type forger struct {
	objectstore.Store
	forges func(name string) bool
	forged string
}

func (f forger) Location(name string) string {
	if f.forges(name) {
		return f.forged
	}
	return f.Store.Location(name)
}

// Metadata that names a file outside of the table is damaged: nothing outside is read, copied, written over or deleted.
func TestLocationsOutsideOfTheTable(t *testing.T) {
	isData := func(name string) bool { return strings.HasPrefix(name, "data/") }
	isManifest := func(name string) bool { return strings.HasSuffix(name, manifestSuffix) }
	isList := func(name string) bool { return strings.HasPrefix(name, metadata.Dir+"/snap-") }
	for name, c := range map[string]struct {
		forges   func(name string) bool
		location string // from the table on
		pattern  string // of the file that it stands for
	}{
		"data file":                     {isData, "/data/../../../victim", "data/*/*.parquet"},
		"data file, into another table": {isData, "/data/day/../../../other/data/victim", "data/*/*.parquet"},
		"data file, absolute":           {isData, "/data//victim", "data/*/*.parquet"},
		"manifest":                      {isManifest, "/metadata/../../../victim", "metadata/*" + manifestSuffix},
		"manifest, absolute":            {isManifest, "/metadata//victim", "metadata/*" + manifestSuffix},
		"list":                          {isList, "/metadata/../../../victim", "metadata/snap-*"},
		"list, into another table":      {isList, "/metadata/x/../../../other/metadata/victim", "metadata/snap-*"},
	} {
		t.Run(name, func(t *testing.T) {
			base := t.TempDir()
			place := filepath.Join(base, "a", "lake", "samples")
			table := openSamples(t, place)
			appendOne(t, table, 1)
			known := glob(t, place, c.pattern)
			table.store = forger{table.store, c.forges, place + c.location}
			appendOne(t, table, 2)
			made := slices.DeleteFunc(glob(t, place, c.pattern), func(name string) bool { return slices.Contains(known, name) })
			b, err := os.ReadFile(made[0])
			if err != nil {
				t.Fatal(err)
			}
			victim := filepath.Clean(place + c.location)
			if err := errors.Join(os.MkdirAll(filepath.Dir(victim), 0o700), os.WriteFile(victim, b, 0o600)); err != nil {
				t.Fatal(err)
			}
			holdsOutside(t, base, place)
		})
	}
}

// A symbolic link in the place of a file is not followed.
func TestSymbolicLinkInTheTable(t *testing.T) {
	for _, pattern := range []string{"data/*/*.parquet", "metadata/*" + manifestSuffix, "metadata/snap-*"} {
		t.Run(pattern, func(t *testing.T) {
			base := t.TempDir()
			place := filepath.Join(base, "a", "lake", "samples")
			appendOne(t, openSamples(t, place), 1)
			file, victim := glob(t, place, pattern)[0], filepath.Join(base, "a", "victim")
			if err := errors.Join(os.Rename(file, victim), os.Symlink(victim, file)); err != nil {
				t.Fatal(err)
			}
			holdsOutside(t, base, place)
		})
	}
}

// holdsOutside does everything that reads, copies and deletes, and wants errors where the table names what is outside, and
// everything outside of the table as it was.
func holdsOutside(t *testing.T, base, place string) {
	t.Helper()
	ctx := t.Context()
	before := filesOutside(t, base, place)
	store, err := objectstore.OpenDir(place)
	if err != nil {
		t.Fatal(err)
	}
	table, err := open(ctx, sampleSchema, Options{Store: store, Now: func() time.Time { return noon }, FileBytes: 1 << 20})
	if err == nil {
		all := Condition[sample]{Columns: []string{"set"}, Match: func(*sample) bool { return true }}
		to, err := objectstore.OpenDir(filepath.Join(base, "b", "lake", "samples"))
		if err != nil {
			t.Fatal(err)
		}
		if err := table.Scan(ctx, Query[sample]{}, func([]sample) error { return nil }); err == nil {
			t.Error("read: got no error")
		}
		if err := table.CopyTo(ctx, to, func(int, int) {}); err == nil {
			t.Error("copy: got no error")
		}
		_, compactErr := table.Compact(ctx, nil)
		_, eraseErr := table.Delete(ctx, all, nil)
		_, sweepErr := table.Sweep(ctx)
		t.Log(compactErr, eraseErr, sweepErr) // what can be done without the file may be done
	}
	if after := filesOutside(t, base, place); !maps.Equal(before, after) {
		t.Errorf("outside of the table: got %v, want %v", slices.Sorted(maps.Keys(after)), slices.Sorted(maps.Keys(before)))
	}
}

// filesOutside is every file below base, with its content, but for those of the table and of a copy of it.
func filesOutside(t *testing.T, base, place string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(base, func(name string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() || strings.HasPrefix(name, place+"/") || strings.HasPrefix(name, filepath.Join(base, "b", "lake", "samples")) {
			return err
		}
		b, err := os.ReadFile(name)
		out[name] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func appendOne(t *testing.T, table *Table[sample], n uint64) {
	t.Helper()
	from := watermark.Origin{Spans: []watermark.Span{{From: n - 1, To: n}}}
	if err := table.Append(context.Background(), randomSamples(rand.New(rand.NewPCG(n, n)), 20), from, nil); err != nil {
		t.Fatal(err)
	}
}

func glob(t *testing.T, place, pattern string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(place, pattern))
	if err != nil || len(list) == 0 {
		t.Fatalf("got %v, %v for %s", list, err, pattern)
	}
	return list
}
