// Package durable writes, locks and measures local files: what several packages need of a disk, once.
package durable

import (
	"errors"
	"os"
	"path/filepath"
)

// ErrLocked says that another open file has a lock that excludes the one asked for.
var ErrLocked = errors.New("locked")

// WriteFile puts data in the place of the file at path, readable by its owner alone. It writes a temporary file in the
// same directory, syncs it, renames it and syncs the directory: a crash at any point leaves the old file or the new
// one, and perhaps the temporary file, path.*.tmp, which nobody reads. Of several calls for one path the last one to
// rename wins.
func WriteFile(path string, data []byte) error { return Replace(filepath.Dir(path), path, data) }

// Replace is WriteFile with the temporary file in another directory of the same file system, for a directory in which
// another program would read it.
func Replace(tmp, path string, data []byte) error {
	f, err := os.CreateTemp(tmp, filepath.Base(path)+".*.tmp") // mode 0600
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
