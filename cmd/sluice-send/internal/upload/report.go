package upload

import (
	"fmt"
	"os"
)

// appendFile is a file that rejected rows are appended to. A checkpoint records its length, so that a crash between a
// write and its entry leaves nothing twice.
type appendFile struct {
	path   string // "": no such file is kept
	head   []byte // first line of a new file
	file   *os.File
	length int64
}

// begin makes the file agree with a checkpoint: what was written after its last entry is cut off, and what an earlier
// upload left is gone.
func (a *appendFile) begin(length int64) error {
	if a.path == "" {
		return nil
	}
	if info, err := os.Stat(a.path); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file: it cannot hold the rejected rows", a.path)
	}
	if a.length = length; length == 0 {
		if err := os.Remove(a.path); err != nil && !os.IsNotExist(err) {
			return err
		}
		return nil
	}
	if err := a.open(); err != nil {
		return err
	}
	info, err := a.file.Stat()
	if err != nil {
		return err
	}
	// Somebody took the file away: what was in it is lost, and must not come back as zero bytes.
	a.length = min(a.length, info.Size())
	return a.file.Truncate(a.length)
}

func (a *appendFile) open() (err error) {
	a.file, err = os.OpenFile(a.path, os.O_WRONLY|os.O_CREATE, 0o600)
	return err
}

// write appends and syncs.
func (a *appendFile) write(out []byte) error {
	if len(out) == 0 || a.path == "" {
		return nil
	}
	if a.file == nil {
		if err := a.open(); err != nil {
			return err
		}
	}
	if _, err := a.file.WriteAt(out, a.length); err != nil {
		return fmt.Errorf("write %s: %w", a.path, err)
	}
	a.length += int64(len(out))
	if err := a.file.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", a.path, err)
	}
	return nil
}

// Close closes the file. Everything was synced after it was written.
func (a *appendFile) Close() {
	if a.file != nil {
		_ = a.file.Close()
	}
}
