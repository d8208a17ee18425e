package main

import (
	"testing"

	"sluice/internal/flagtest"
)

// docs/flags.md says what the commands say. make generate writes it.
func TestFlagsPage(t *testing.T) { flagtest.Check(t, "../../docs/flags.md", newRoot(), hasVariable) }
