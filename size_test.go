package sluice

import (
	"bytes"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// A package of more than 2,500 lines has a reason in ARCHITECTURE.md, and a row there is about such a package.
func TestLargePackages(t *testing.T) {
	const most = 2500
	lines := map[string]int{}
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && name != "." || d.Name() == "interop" || d.Name() == "testdata" || d.Name() == "node_modules") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		content, err := os.ReadFile(name)
		lines[path.Dir(filepath.ToSlash(name))] += bytes.Count(content, []byte("\n"))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "Packages with more than 2,500 lines")
	table, _, found := strings.Cut(table, "\n`import_test.go`")
	if !found {
		t.Fatal("ARCHITECTURE.md has no table of large packages")
	}
	for pkg, n := range lines {
		if row := strings.Contains(table, "| `"+pkg+"` |"); n > most && !row {
			t.Errorf("%s has %d lines: divide it, or give the reason in ARCHITECTURE.md", pkg, n)
		} else if n <= most && row {
			t.Errorf("%s has %d lines: it needs no row in ARCHITECTURE.md", pkg, n)
		}
	}
}
