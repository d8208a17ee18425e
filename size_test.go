package sluice

import (
	"bytes"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// A package of more than 2,500 lines has a reason in ARCHITECTURE.md, and a row there is about such a package.
func TestLargePackages(t *testing.T) {
	const most = 2500
	lines := map[string]int{}
	for name, content := range goFiles(t) {
		lines[path.Dir(name)] += bytes.Count(content, []byte("\n"))
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

// A line of product Go has at most 120 characters; a tab is one. Product is what make lines counts.
func TestLongLines(t *testing.T) {
	const most = 120
	other := regexp.MustCompile(`^(tools/|internal/[a-z]+test/)`)
	for name, content := range goFiles(t) {
		if other.MatchString(name) {
			continue
		}
		n := 0
		for line := range strings.Lines(string(content)) {
			n++
			if got := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); got > most {
				t.Errorf("%s:%d has %d characters, want at most %d", name, n, got, most)
			}
		}
	}
}

// goFiles are the Go files of this module that are no tests, by name.
func goFiles(t *testing.T) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		hidden := strings.HasPrefix(d.Name(), ".") && name != "."
		if d.IsDir() && (hidden || slices.Contains([]string{"interop", "testdata", "node_modules"}, d.Name())) {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		files[filepath.ToSlash(name)], err = os.ReadFile(name)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 100 {
		t.Fatalf("got %d files: the test shows nothing", len(files))
	}
	return files
}
