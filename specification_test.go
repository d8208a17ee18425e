package sluice

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// What these pages name exists: every Go file, and every test in some package.
func TestPagesNameWhatExists(t *testing.T) {
	sources, err := exec.Command("git", "grep", "-hoE", `^func (Test|Fuzz)[A-Za-z0-9]+`, "--", "*_test.go").Output()
	if err != nil {
		t.Fatal(err)
	}
	tests := " " + strings.ReplaceAll(strings.ReplaceAll(string(sources), "func ", ""), "\n", " ")
	quoted := regexp.MustCompile("`([^`]+)`")
	for _, page := range []string{"docs/internals/specification.md", "docs/internals/guarantees.md", "docs/internals/laboratory.md", "ARCHITECTURE.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		dir := ""
		for _, found := range quoted.FindAllStringSubmatch(string(text), -1) {
			name := found[1]
			switch {
			case strings.HasPrefix(name, "Test") || strings.HasPrefix(name, "Fuzz"):
				if !strings.Contains(tests, " "+name+" ") {
					t.Errorf("%s names the test %s, which does not exist", page, name)
				}
			case strings.HasSuffix(name, ".go"):
				if strings.Contains(name, "/") {
					dir = name[:strings.LastIndex(name, "/")+1]
				} else {
					name = dir + name // a file beside the one named before it
				}
				if _, err := os.Stat(name); err != nil {
					t.Errorf("%s names the file %s, which does not exist", page, name)
				}
			}
		}
	}
}
