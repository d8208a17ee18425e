package main

import (
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"sluice/internal/flagtest"
)

// docs/flags.md says what the commands say. make generate writes it.
func TestFlagsPage(t *testing.T) {
	root := new(program).root()
	flagtest.Check(t, "../../docs/flags.md", root, func(_ *cobra.Command, f *pflag.Flag) bool {
		return root.PersistentFlags().Lookup(f.Name) == f
	})
}
