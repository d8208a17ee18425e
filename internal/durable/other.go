//go:build !unix

package durable

import "os"

// For the sender's program alone: there is no Space here, so the server does not build on such a system.

// Sync does nothing where a directory cannot be opened as a file.
func Sync(string) error { return nil }

// How a file is locked.
const (
	Shared = iota
	Exclusive
)

// TryLock does nothing where there is no flock.
func TryLock(*os.File, int) error { return nil }
