package engine

import (
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
