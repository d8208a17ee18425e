package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"sluice/internal/durable"
)

const (
	lockName    = "lock"
	addressName = "engine.json"
)

// tryLock takes the data directory for this process. When another has it, the file is nil and holder its process id.
// The lock goes with the process, however it ends.
func tryLock(dir string) (lock *os.File, holder string, err error) {
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, "", fmt.Errorf("lock: %w", err)
	}
	err = durable.TryLock(f, durable.Exclusive)
	if errors.Is(err, durable.ErrLocked) {
		defer f.Close()
		var pid [20]byte
		n, _ := f.ReadAt(pid[:], 0)
		return nil, strings.TrimSpace(string(pid[:n])), nil
	}
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		// Only for the message to whoever finds the directory taken.
		_, err = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	if err != nil {
		f.Close()
		return nil, "", fmt.Errorf("lock %s: %w", dir, err)
	}
	return f, "", nil
}

// address is how another process on this machine reaches the embedded engine.
type address struct {
	URL   string `json:"url"`
	Token string `json:"token"`
}

// writeJSON writes a file of the data directory for processes of the same user. A reader sees all of it or nothing.
func writeJSON(dir, name string, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return durable.WriteFile(filepath.Join(dir, name), data)
}

// readJSON reads a file of the data directory.
func readJSON(dir, name string, to any) error {
	path := filepath.Join(dir, name)
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, to)
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

func readAddress(dir string) (a address, err error) {
	err = readJSON(dir, addressName, &a)
	if errors.Is(err, fs.ErrNotExist) {
		err = errors.New("it publishes no address")
	}
	return a, err
}

// clearLeftovers removes what a crashed process left: its address and files it was about to put in place.
func clearLeftovers(dir string) error {
	for _, pattern := range []string{addressName, addressName + ".*.tmp", storeName + "/*.blk.*.tmp"} {
		left, err := fs.Glob(os.DirFS(dir), pattern)
		if err != nil {
			return err
		}
		for _, name := range left {
			if err := os.Remove(filepath.Join(dir, filepath.FromSlash(name))); err != nil {
				return err
			}
		}
	}
	return nil
}
