//go:build faults

package faults

import (
	"testing"

	"sluice/interop/loopdisk"
)

// disk is a disk that a test can cut off, fill and mount again.
type disk struct {
	*loopdisk.Disk
	t *testing.T
}

func newDisk(t *testing.T, mebibytes int64, options ...string) *disk {
	t.Helper()
	return &disk{loopdisk.New(t, mebibytes, options...), t}
}
