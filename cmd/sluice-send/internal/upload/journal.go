package upload

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"time"

	"sluice/event"
)

// journal records what became of an upload's rows: the sums, the file of rejected rows and, for a file that can be read
// again, the checkpoint.
type journal struct {
	checkpoint *checkpoint // nil: standard input, which cannot be resumed
	path       string      // of the rejected rows
	rejected   *os.File    // nil until there are any
	length     int64
	total      entry // without a checkpoint
}

// sums are the totals so far, earlier runs included.
func (b *journal) sums() entry {
	if b.checkpoint != nil {
		return b.checkpoint.total
	}
	return b.total
}

// begin makes the file of rejected rows agree with the checkpoint: what was written after its last entry is cut off, and
// what an earlier upload left is gone.
func (b *journal) begin() error {
	if b.checkpoint != nil {
		b.length = b.checkpoint.rejected
	}
	if info, err := os.Stat(b.path); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file: it cannot hold the rejected rows", b.path)
	}
	if b.length == 0 {
		if err := os.Remove(b.path); err != nil && !os.IsNotExist(err) {
			return err
		}
		return nil
	}
	if err := b.open(); err != nil {
		return err
	}
	info, err := b.rejected.Stat()
	if err != nil {
		return err
	}
	// Somebody took the file away: what was in it is lost, and must not come back as zero bytes.
	b.length = min(b.length, info.Size())
	return b.rejected.Truncate(b.length)
}

func (b *journal) open() (err error) {
	b.rejected, err = os.OpenFile(b.path, os.O_WRONLY|os.O_CREATE, 0o600)
	return err
}

// recorded gives a test for the batches that are recorded now. It does not see later ones, so another goroutine may use it
// while this one records.
func (b *journal) recorded() func(n int64) bool {
	if b.checkpoint == nil {
		return func(int64) bool { return false }
	}
	next, ahead := b.checkpoint.next, maps.Clone(b.checkpoint.ahead)
	return func(n int64) bool {
		_, ok := ahead[n]
		return ok || n < next
	}
}

// add records batches: rejected rows first, synced, then the entries that say how long the file of them is.
func (b *journal) add(rs []result, now time.Time) error {
	var out []byte
	entries := make([]entry, len(rs))
	for i, r := range rs {
		for _, row := range r.rejected {
			line, err := json.Marshal(row)
			if err != nil {
				return err
			}
			out = append(append(out, line...), '\n')
		}
		entries[i] = r.entry
		entries[i].ReportSize = b.length + int64(len(out))
		entries[i].Time = now.Unix()
	}
	if err := b.write(out); err != nil {
		return fmt.Errorf("write %s: %w", b.path, err)
	}
	if b.checkpoint != nil {
		return b.checkpoint.commit(entries)
	}
	for _, m := range entries {
		b.count(m)
	}
	return nil
}

func (b *journal) count(m entry) {
	b.total.Rows += m.Rows
	b.total.Accepted += m.Accepted
	b.total.Rejected += m.Rejected
	b.total.Replayed += m.Replayed
	for code, n := range m.Warnings {
		if b.total.Warnings == nil {
			b.total.Warnings = map[event.Code]int{}
		}
		b.total.Warnings[code] += n
	}
}

func (b *journal) write(out []byte) error {
	if len(out) == 0 {
		return nil
	}
	if b.rejected == nil {
		if err := b.open(); err != nil {
			return err
		}
	}
	if _, err := b.rejected.WriteAt(out, b.length); err != nil {
		return err
	}
	b.length += int64(len(out))
	return b.rejected.Sync()
}

// end records that every row is accounted for.
func (b *journal) end(now time.Time) error {
	if b.checkpoint == nil || b.checkpoint.done {
		return nil
	}
	return b.checkpoint.commit([]entry{{Done: true, ReportSize: b.length, Time: now.Unix()}})
}

// Close lets go of both files.
func (b *journal) Close() {
	if b.rejected != nil {
		_ = b.rejected.Close() // synced after every write
	}
	if b.checkpoint != nil {
		_ = b.checkpoint.Close()
	}
}
