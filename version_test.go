package sluice

import (
	"os"
	"regexp"
	"testing"

	"sluice/internal/version"
)

// Whatever names the version names this one.
func TestVersion(t *testing.T) {
	for file, pattern := range map[string]string{
		"sdk/node/package.json":                    `"version": "([^"]*)"`,
		"sdk/node/README.md":                       `sluice-client-(\d[^"]*)\.tgz`,
		"sdk/python/src/sluice_client/_version.py": `"(.*)"`,
		"sdk/python/README.md":                     `sluice_client-([^-]*)-py3`,
		"deploy/kubernetes/kustomization.yaml":     `newTag: v(.*)`,
		"docs/operate.md":                          `[-:=]v(\d+\.\d+\.\d+)`,
		"docs/sending.md":                          `sluice[_-]client-(\d+\.\d+\.\d+)`,
		"interop/stranger/release_test.go":         `version = "v(.*)"`,
		"CONTRIBUTING.md":                          "dist/v([^`]*)`",
	} {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(pattern).FindAllSubmatch(b, -1)
		if len(found) == 0 {
			t.Errorf("%s does not name the version: the test shows nothing", file)
		}
		for _, m := range found {
			if got := string(m[1]); got != version.Number {
				t.Errorf("%s: got %s, want %s", file, got, version.Number)
			}
		}
	}
}
