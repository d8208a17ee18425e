package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"time"

	"sluice/event"
)

// book keeps what became of an upload's rows: the sums, the file of refused rows and, for a file that can be read
// again, the checkpoint.
type book struct {
	checkpoint *checkpoint // nil: standard input, which cannot be resumed
	path       string      // of the refused rows
	refused    *os.File    // nil until there are any
	length     int64
	total      mark // without a checkpoint
}

// sums are the totals so far, earlier runs included.
func (b *book) sums() mark {
	if b.checkpoint != nil {
		return b.checkpoint.total
	}
	return b.total
}

// begin makes the file of refused rows agree with the checkpoint: what was written after its last mark is cut off, and
// what an earlier upload left is gone.
func (b *book) begin() error {
	if b.checkpoint != nil {
		b.length = b.checkpoint.refused
	}
	if info, err := os.Stat(b.path); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s is no regular file: it cannot hold the refused rows", b.path)
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
	info, err := b.refused.Stat()
	if err != nil {
		return err
	}
	// Somebody took the file away: what was in it is lost, and must not come back as zero bytes.
	b.length = min(b.length, info.Size())
	return b.refused.Truncate(b.length)
}

func (b *book) open() (err error) {
	b.refused, err = os.OpenFile(b.path, os.O_WRONLY|os.O_CREATE, 0o600)
	return err
}

// booked gives a test for the batches that are booked now. It does not see later ones, so another goroutine may use it
// while this one books.
func (b *book) booked() func(n int64) bool {
	if b.checkpoint == nil {
		return func(int64) bool { return false }
	}
	next, ahead := b.checkpoint.next, maps.Clone(b.checkpoint.ahead)
	return func(n int64) bool {
		_, ok := ahead[n]
		return ok || n < next
	}
}

// add books batches: refused rows first, synced, then the marks that say how long the file of them is.
func (b *book) add(rs []result, now time.Time) error {
	var out []byte
	marks := make([]mark, len(rs))
	for i, r := range rs {
		for _, row := range r.refused {
			line, err := json.Marshal(row)
			if err != nil {
				return err
			}
			out = append(append(out, line...), '\n')
		}
		marks[i] = r.mark
		marks[i].Refused = b.length + int64(len(out))
		marks[i].Time = now.Unix()
	}
	if err := b.write(out); err != nil {
		return fmt.Errorf("write %s: %w", b.path, err)
	}
	if b.checkpoint != nil {
		return b.checkpoint.commit(marks)
	}
	for _, m := range marks {
		b.count(m)
	}
	return nil
}

func (b *book) count(m mark) {
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

func (b *book) write(out []byte) error {
	if len(out) == 0 {
		return nil
	}
	if b.refused == nil {
		if err := b.open(); err != nil {
			return err
		}
	}
	if _, err := b.refused.WriteAt(out, b.length); err != nil {
		return err
	}
	b.length += int64(len(out))
	return b.refused.Sync()
}

// end books that every row is accounted for.
func (b *book) end(now time.Time) error {
	if b.checkpoint == nil || b.checkpoint.done {
		return nil
	}
	return b.checkpoint.commit([]mark{{Done: true, Refused: b.length, Time: now.Unix()}})
}

// Close lets go of both files.
func (b *book) Close() {
	if b.refused != nil {
		_ = b.refused.Close() // synced after every write
	}
	if b.checkpoint != nil {
		_ = b.checkpoint.Close()
	}
}
