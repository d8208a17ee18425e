package engine

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// What a killed process left half made is gone after the start. Files of others stay.
func TestClearLeftovers(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{
		addressName, addressName + ".123.tmp", "settings.json.7.tmp", "audit.jsonl",
		storeName + "/12.blk.5.tmp", storeName + "/meta.inf",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := clearLeftovers(dir); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, pattern := range []string{"*", storeName + "/*"} {
		left, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range left {
			name, err := filepath.Rel(dir, path)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, name)
		}
	}
	slices.Sort(got)
	want := []string{"audit.jsonl", "settings.json.7.tmp", storeName, storeName + "/meta.inf"}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The name of a data directory may have characters of a pattern in it.
func TestDirectoryNamedLikeAPattern(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data[1]*?")
	e := open(t, Options{Dir: dir, Listen: true})
	if ps, err := e.Partitions(t.Context(), PartitionOptions{}); err != nil {
		t.Fatal(err)
	} else if _, err := ps.List[0].Publish(t.Context(), []byte("one")); err != nil {
		t.Fatal(err)
	}
	blocks := 0
	if err := eachTail(e.storeDir(), func(string) error { blocks++; return nil }); err != nil || blocks == 0 {
		t.Errorf("got %d newest blocks, %v, want that of each stream", blocks, err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if found, err := HoldsStream(dir); err != nil || !found {
		t.Errorf("got %v, %v, want a stream", found, err)
	}
	left := filepath.Join(dir, addressName)
	if err := os.WriteFile(left, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := clearLeftovers(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(left); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want no address of a process that is gone", err)
	}
}
