package iceberg

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A sweep that ends early calls no file missing that it has not come to.
func TestSweepThatEndsEarly(t *testing.T) {
	dir := t.TempDir()
	table := openSamples(t, dir)
	appendOne(t, table, 1)
	orphan := filepath.Join(dir, "data", "day=2026-11-13", "orphan.parquet")
	if err := errors.Join(os.Mkdir(filepath.Dir(orphan), 0o700), os.WriteFile(orphan, []byte("x"), 0o600)); err != nil {
		t.Fatal(err)
	}
	ends := errors.New("ends here")
	table.step = func(name string) error {
		if strings.HasSuffix(name, ".remove") {
			return ends
		}
		return nil
	}
	if n, err := table.Sweep(t.Context()); n != 0 || !errors.Is(err, ends) {
		t.Fatalf("got %d files deleted, %v, want the sweep to end at the first", n, err)
	}
	if damaged := table.DamagedFiles(); len(damaged) > 0 {
		t.Errorf("got %d damaged files, want none", len(damaged))
	}
	table.step = nil
	if n, err := table.Sweep(t.Context()); n != 1 || err != nil {
		t.Errorf("got %d files deleted, %v, want the orphan", n, err)
	}
	if _, err := os.Stat(filepath.Dir(orphan)); !os.IsNotExist(err) {
		t.Errorf("got %v, want the empty directory to be gone", err)
	}
}
