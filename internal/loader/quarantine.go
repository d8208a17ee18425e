package loader

import (
	"fmt"
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
	frameSuffix  = ".frame"
	recordSuffix = ".record"
	gapSuffix    = ".gap"
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
		name := e.Name()
		switch filepath.Ext(name) {
		case frameSuffix, recordSuffix:
			q.damaged++
		case gapSuffix:
			b, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				return nil, err
			}
			n, _ := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
			q.missing += n
		default:
			continue
		}
		q.known[name] = true
	}
	return q, nil
}

func (q *quarantine) counts() (damaged, missing int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.damaged, q.missing
}

// frame keeps a damaged frame. It answers whether it is new.
func (q *quarantine) frame(partition uint8, seq uint64, raw []byte) (bool, error) {
	return q.keep(fmt.Sprintf("%d-%d%s", partition, seq, frameSuffix), raw, 1, 0)
}

// record keeps a damaged record of a frame that is whole.
func (q *quarantine) record(partition uint8, seq uint64, slot int, raw []byte) (bool, error) {
	return q.keep(fmt.Sprintf("%d-%d-%d%s", partition, seq, slot, recordSuffix), raw, 1, 0)
}

// gap notes that n sequence numbers before seq held nothing.
func (q *quarantine) gap(partition uint8, seq, n uint64) (bool, error) {
	return q.keep(fmt.Sprintf("%d-%d%s", partition, seq, gapSuffix), strconv.AppendUint(nil, n, 10), 0, int64(n))
}

func (q *quarantine) keep(name string, raw []byte, damaged, missing int64) (bool, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.known[name] {
		return false, nil
	}
	if err := durable.WriteFile(filepath.Join(q.dir, name), raw); err != nil {
		return false, err
	}
	q.known[name] = true
	q.damaged += damaged
	q.missing += missing
	return true, nil
}
