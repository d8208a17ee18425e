package sluice

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// Pages for users have no commit hash and no name of a Go test, and lead to no page for developers, which the archive of a
// release does not have.
func TestPagesAreForUsers(t *testing.T) {
	pages, err := filepath.Glob("docs/*.md")
	if err != nil || len(pages) < 10 {
		t.Fatalf("got %d pages, %v: the test shows nothing", len(pages), err)
	}
	wrong := map[string]*regexp.Regexp{
		"a commit hash":         regexp.MustCompile(`(^|[\s(` + "`" + `])([0-9]+[a-f]|[a-f]+[0-9])[0-9a-f]{5,38}($|[\s),.:;` + "`" + `])`),
		"a Go test":             regexp.MustCompile(`\b(Test|Benchmark|Fuzz)[A-Z][A-Za-z]+\b`),
		"a page for developers": regexp.MustCompile(`\]\((\.\./ARCHITECTURE|\.\./CONTRIBUTING|decisions|internals)`),
	}
	for _, page := range append(pages, "README.md", "SECURITY.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for what, pattern := range wrong {
			if what == "a page for developers" && filepath.Base(page) == "README.md" {
				continue // these two have a part for developers
			}
			for _, found := range pattern.FindAll(text, -1) {
				t.Errorf("%s names %s: %s", page, what, found)
			}
		}
	}
}
