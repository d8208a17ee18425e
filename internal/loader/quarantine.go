package loader

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"sluice/internal/durable"
)

// quarantine keeps what cannot be loaded: each damaged frame or record as a file of its bytes, each gap as a file with
// its length. The name is the position, so that meeting the same damage twice counts once, also after a crash.
type quarantine struct {
	dir string

	mu      sync.Mutex
	known   map[string]bool
	damaged int64
	missing int64
}

const (
	frameSuffix  = ".frame"  // a damaged frame
	recordSuffix = ".record" // a damaged record of a frame that is whole
	gapSuffix    = ".gap"    // how many sequence numbers before a frame held nothing
)

func openQuarantine(dir string) (*quarantine, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	q := &quarantine{dir: dir, known: map[string]bool{}}
	for _, e := range entries {
		var gap []byte
		if filepath.Ext(e.Name()) == gapSuffix {
			if gap, err = os.ReadFile(filepath.Join(dir, e.Name())); err != nil {
				return nil, err
			}
		}
		q.note(e.Name(), gap)
	}
	return q, nil
}

// note counts a file.
func (q *quarantine) note(name string, content []byte) {
	q.known[name] = true
	switch filepath.Ext(name) {
	case frameSuffix, recordSuffix:
		q.damaged++
	case gapSuffix:
		n, _ := strconv.ParseInt(strings.TrimSpace(string(content)), 10, 64)
		q.missing += n
	}
}

func (q *quarantine) counts() (damaged, missing int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.damaged, q.missing
}

// keep keeps a file, and says whether it is new.
func (q *quarantine) keep(name string, content []byte) (isNew bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.known[name] {
		return false, nil
	}
	if err := durable.WriteFile(filepath.Join(q.dir, name), content); err != nil {
		return false, err
	}
	q.note(name, content)
	return true, nil
}
