//go:build unix

package durable

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Sync brings a file or a directory to stable storage.
func Sync(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// How a file is locked.
const (
	Shared    = unix.LOCK_SH
	Exclusive = unix.LOCK_EX
)

// TryLock locks a file, or returns ErrLocked while another open file has a lock that excludes it, in this process or
// another. Closing the file, or the end of the process, releases the lock.
func TryLock(f *os.File, how int) error {
	for {
		err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
		switch err {
		case unix.EINTR: // a signal, not an answer
		case unix.EWOULDBLOCK:
			return ErrLocked
		default:
			return err
		}
	}
}

// Disk is the file system that holds a directory.
type Disk struct {
	Free  int64 // bytes that this user may still write
	Size  int64
	Files int64 // files that can still be made; -1 where the file system has no such limit
}

// Space asks the file system that holds dir.
func Space(dir string) (Disk, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return Disk{}, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	d := Disk{Free: int64(s.Bavail) * int64(s.Bsize), Size: int64(s.Blocks) * int64(s.Bsize), Files: -1}
	if s.Files > 0 {
		d.Files = int64(s.Ffree)
	}
	return d, nil
}
