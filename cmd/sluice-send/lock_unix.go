//go:build unix

package main

import (
	"os"
	"syscall"
)

// lock keeps a second uploader away from the file until it is closed or this process ends, however it ends.
func lock(f *os.File) error {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}
