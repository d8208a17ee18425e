package main

import (
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"sluice/internal/flagtest"
)

// docs/flags.md says what the commands say. make generate writes it.
func TestFlagsPage(t *testing.T) { flagtest.Check(t, "../../docs/flags.md", newRoot(), hasVariable) }

// What stands behind a line break in a list is not lost: no list takes one.
func TestListsAreOneLine(t *testing.T) {
	t.Parallel()
	lists := 0
	eachFlag(newRoot(), func(cmd *cobra.Command, f *pflag.Flag) {
		if f.Value.Type() != "stringSlice" {
			return
		}
		lists++
		if err := f.Value.Set("catalog\nfeed"); err == nil {
			t.Errorf("%s --%s takes a line break and holds %s", cmd.CommandPath(), f.Name, f.Value)
		}
	})
	if lists < 3 {
		t.Errorf("got %d lists, want those of three commands", lists)
	}
}
