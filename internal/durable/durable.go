// Package durable writes, locks and measures local files: what several packages need of a disk, once.
package durable

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// WriteFile puts data in the place of the file at path, readable by its owner alone. It writes a temporary file in the same
// directory, syncs it, renames it and syncs the directory: a crash at any point leaves the old file or the new one, and perhaps
// the temporary file, path.*.tmp, which nobody reads. Of several calls for one path the last one to rename wins.
func WriteFile(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp") // mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return Sync(filepath.Dir(path))
}

// Sync brings a file or a directory to stable storage.
func Sync(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// ErrLocked says that another open file has a lock that excludes the one asked for.
var ErrLocked = errors.New("locked")

// How a file is locked.
const (
	Shared    = unix.LOCK_SH
	Exclusive = unix.LOCK_EX
)

// Lock locks a file, and waits while another open file has a lock that excludes it, in this process or another. Closing the
// file, or the end of the process, releases the lock.
func Lock(f *os.File, how int) error { return lock(f, how) }

// TryLock is Lock without waiting: it returns ErrLocked.
func TryLock(f *os.File, how int) error { return lock(f, how|unix.LOCK_NB) }

func lock(f *os.File, how int) error {
	for {
		err := unix.Flock(int(f.Fd()), how)
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
	d := Disk{Free: int64(s.Bavail) * s.Bsize, Size: int64(s.Blocks) * s.Bsize, Files: -1}
	if s.Files > 0 {
		d.Files = int64(s.Ffree)
	}
	return d, nil
}
