// Package version says which version the programs are.
package version

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
)

// Number is the version of this source: of the programs, the API, the SDKs and the image. A test holds all places that
// name it against it.
const Number = "1.0.0"

// Text is what a program says of itself: version, commit and Go version. revision is the commit as a build names it
// that does not ask git.
func Text(program, revision string) string {
	return fmt.Sprintf("%s %s (commit %s, %s)\n", program, Number, cmp.Or(revision, built(), "unknown"), runtime.Version())
}

// built is the commit that go build found, if it asked.
func built() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return ""
}
