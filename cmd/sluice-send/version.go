package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
)

// version and revision are set at release by -ldflags.
var version, revision = "", ""

// versionText is what --version prints.
func versionText() string {
	commit := revision
	if info, ok := debug.ReadBuildInfo(); ok && commit == "" {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				commit = s.Value
			}
		}
	}
	return fmt.Sprintf("sluice-send %s (commit %s, %s)\n", cmp.Or(version, "dev"), cmp.Or(commit, "unknown"), runtime.Version())
}
