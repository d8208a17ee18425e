package loader

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// aside keeps what cannot be loaded: each damaged frame or record as a file of its bytes, each gap as a file with
// its length. The name is the position, so that meeting the same damage twice counts once, also after a crash.
type aside struct {
	dir string

	mu      sync.Mutex
	known   map[string]bool
	damaged int64
	missing int64
}

const (
	frameSuffix  = ".frame"
	recordSuffix = ".record"
	gapSuffix    = ".gap"
)

func openAside(dir string) (*aside, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	a := &aside{dir: dir, known: map[string]bool{}}
	for _, e := range entries {
		name := e.Name()
		switch filepath.Ext(name) {
		case frameSuffix, recordSuffix:
			a.damaged++
		case gapSuffix:
			b, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				return nil, err
			}
			n, _ := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
			a.missing += n
		default:
			continue
		}
		a.known[name] = true
	}
	return a, nil
}

func (a *aside) counts() (damaged, missing int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.damaged, a.missing
}

// frame keeps a damaged frame. It answers whether it is new.
func (a *aside) frame(partition uint8, seq uint64, raw []byte) (bool, error) {
	return a.keep(fmt.Sprintf("%d-%d%s", partition, seq, frameSuffix), raw, 1, 0)
}

// record keeps a damaged record of a frame that is whole.
func (a *aside) record(partition uint8, seq uint64, slot int, raw []byte) (bool, error) {
	return a.keep(fmt.Sprintf("%d-%d-%d%s", partition, seq, slot, recordSuffix), raw, 1, 0)
}

// gap notes that n sequence numbers before seq held nothing.
func (a *aside) gap(partition uint8, seq, n uint64) (bool, error) {
	return a.keep(fmt.Sprintf("%d-%d%s", partition, seq, gapSuffix), strconv.AppendUint(nil, n, 10), 0, int64(n))
}

func (a *aside) keep(name string, raw []byte, damaged, missing int64) (bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.known[name] {
		return false, nil
	}
	if err := writeFile(a.dir, name, raw); err != nil {
		return false, err
	}
	a.known[name] = true
	a.damaged += damaged
	a.missing += missing
	return true, nil
}

// writeFile makes a file durable under its name, whole or not at all.
func writeFile(dir, name string, raw []byte) error {
	path := filepath.Join(dir, name)
	tmp := path + ".tmp"
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(raw)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(err, ignoreMissing(os.Remove(tmp)))
	}
	if err := os.Rename(tmp, path); err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
