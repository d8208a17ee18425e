package upload

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"sluice/cmd/sluice-send/internal/input"
	"sluice/event"
	"sluice/internal/durable"
)

// identity says which file an upload was begun with.
type identity struct {
	Size     int64  `json:"size"`
	Modified int64  `json:"modified"` // Unix nanoseconds
	Head     string `json:"head"`     // SHA-256 of its first megabyte
	Sample   string `json:"sample"`   // SHA-256 of its first and last megabyte
}

// samplePiece is how much of each end of a file identifies it. Arbitrary: quick to read, and unlikely to stay the same
// by accident.
const samplePiece = 1 << 20

// identify reads the first and the last megabyte of f.
func identify(f *os.File) (identity, error) {
	info, err := f.Stat()
	if err != nil {
		return identity{}, err
	}
	size := info.Size()
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(f, 0, samplePiece)); err != nil {
		return identity{}, err
	}
	head := hex.EncodeToString(h.Sum(nil))
	if _, err := io.Copy(h, io.NewSectionReader(f, max(samplePiece, size-samplePiece), samplePiece)); err != nil {
		return identity{}, err
	}
	return identity{size, info.ModTime().UnixNano(), head, hex.EncodeToString(h.Sum(nil))}, nil
}

// same says whether two files are one, though one of them may have been written again.
func (id identity) same(other identity) bool {
	id.Modified = other.Modified
	return id == other
}

// grownInto says whether f is the file of id with something added to its end.
func (id identity) grownInto(f *os.File) (bool, error) {
	info, err := f.Stat()
	if err != nil || info.Size() <= id.Size {
		return false, err
	}
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(f, 0, min(id.Size, samplePiece))); err != nil {
		return false, err
	}
	return hex.EncodeToString(h.Sum(nil)) == id.Head, nil
}

// header is the first line of a checkpoint: everything that decides what the batches are and what is sent of them.
type header struct {
	Version   int            `json:"sluice_checkpoint"`
	File      string         `json:"file"` // base name, for the reader
	Identity  identity       `json:"identity"`
	URL       string         `json:"url"`
	Dataset   string         `json:"data_set_id,omitempty"` // as given by --dataset
	Pinned    string         `json:"pinned,omitempty"`      // the one dataset of its rows, given or found
	Format    string         `json:"format"`
	Delimiter string         `json:"delimiter,omitempty"`
	Mapping   *input.Mapping `json:"mapping,omitempty"`
	BatchRows int            `json:"batch_rows"`
	BatchSize int            `json:"batch_bytes"`
	// StartedAt is the service's clock when the upload began. Rows are judged by it on every resumption too: judged by a
	// later clock a batch could lose a row, and would no longer be the batch that was sent before.
	StartedAt int64 `json:"started_at"`
	// Rows is a sample of the file's rows, by which a corrected file is told from a new one.
	Rows sketch `json:"rows,omitempty"`
	// Salt is random: an Idempotency-Key that follows from the rows alone would let everybody who has the disk of the
	// service compare guesses of a row with what is kept of it.
	Salt string `json:"salt"`
}

// entry is a line of a checkpoint after the first: a batch whose rows are all accounted for, or the end.
type entry struct {
	Batch    int64              `json:"batch"`
	End      input.Position     `json:"end"`
	Rows     int                `json:"rows"`
	Accepted int                `json:"accepted"`
	Rejected int                `json:"rejected"`
	Replayed int                `json:"replayed,omitempty"` // accepted rows the service knew already
	Warnings map[event.Code]int `json:"warnings,omitempty"`
	// Codes counts the rejected rows by their first code; Submissions are the ids that the service gave.
	Codes       map[event.Code]int `json:"codes,omitempty"`
	Submissions []string           `json:"submissions,omitempty"`
	ReportSize  int64              `json:"refused_bytes"`        // length of the report of rejected rows after this batch
	RowsSize    int64              `json:"rows_bytes,omitempty"` // … and of the file of the rows themselves
	Time        int64              `json:"time"`
	Done        bool               `json:"done,omitempty"`
}

// checkpoint records the state of an upload: a file that is only appended to, and synced before a batch counts as done.
//
// The order of writes is: send the batch, write its rejected rows, sync them, write its entry, sync it. A crash before
// the entry sends the batch again with the same Idempotency-Key, which the service answers from memory, and cuts the
// rejected rows back to where the last entry left them.
type checkpoint struct {
	header header
	file   *os.File // nil: a stream, which cannot be resumed

	next  int64                    // batches before it are done
	at    input.Position           // where batch next begins
	ahead map[int64]input.Position // done, but not all before them are
	total entry                    // sums
	last  entry                    // the entry written last; its time is the header's while there is none
	done  bool
}

// openCheckpoint reads the checkpoint at path and locks it. The error is os.ErrNotExist if there is none. A line that
// was being written in a crash is cut off; its batch is not done.
func openCheckpoint(path string) (*checkpoint, error) {
	c, err := lockCheckpoint(path, os.O_RDWR)
	if err != nil {
		return nil, err
	}
	good, err := c.read()
	if err == nil {
		err = c.file.Truncate(good)
	}
	if err == nil {
		_, err = c.file.Seek(good, io.SeekStart)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func lockCheckpoint(path string, flags int) (*checkpoint, error) {
	f, err := os.OpenFile(path, flags, 0o600)
	if err != nil {
		return nil, err
	}
	if durable.TryLock(f, durable.Exclusive) != nil {
		f.Close()
		return nil, fmt.Errorf("another upload of this file is running (%s is locked)", path)
	}
	return &checkpoint{file: f, ahead: map[int64]input.Position{}}, nil
}

// read takes the lines up to the first that is not whole, and gives their length.
func (c *checkpoint) read() (good int64, err error) {
	r := bufio.NewReader(c.file)
	line, err := r.ReadBytes('\n')
	if err != nil {
		return 0, os.ErrNotExist // not even a header: nothing was sent
	}
	if err := json.Unmarshal(line, &c.header); err != nil || c.header.Version != 1 {
		return 0, fmt.Errorf("%s is not a checkpoint of this program", c.file.Name())
	}
	good = int64(len(line))
	c.last.Time = c.header.StartedAt
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return good, nil
		}
		var m entry
		if json.Unmarshal(bytes.TrimSpace(line), &m) != nil {
			return good, nil
		}
		good += int64(len(line))
		c.count(m)
	}
}

func (c *checkpoint) count(m entry) {
	c.last = m
	if m.Done {
		c.done = true
		return
	}
	c.total.add(m)
	c.ahead[m.Batch] = m.End
	for {
		end, ok := c.ahead[c.next]
		if !ok {
			return
		}
		delete(c.ahead, c.next)
		c.next++
		c.at = end
	}
}

// add sums up.
func (t *entry) add(m entry) {
	t.Rows, t.Accepted, t.Rejected, t.Replayed = t.Rows+m.Rows, t.Accepted+m.Accepted, t.Rejected+m.Rejected,
		t.Replayed+m.Replayed
	t.Submissions = append(t.Submissions, m.Submissions...)
	t.Warnings = sum(t.Warnings, m.Warnings)
	t.Codes = sum(t.Codes, m.Codes)
}

func sum(total, more map[event.Code]int) map[event.Code]int {
	for code, n := range more {
		if total == nil {
			total = map[event.Code]int{}
		}
		total[code] += n
	}
	return total
}

// createCheckpoint begins a new one in place of what is at path.
func createCheckpoint(path string, h header) (*checkpoint, error) {
	c, err := lockCheckpoint(path, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	c.header, c.last.Time = h, h.StartedAt
	if err = c.file.Truncate(0); err == nil {
		err = write(c, h)
	}
	if err == nil {
		err = durable.Sync(filepath.Dir(path))
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// write adds a line for each value and syncs them together.
func write[T header | entry](c *checkpoint, values ...T) error {
	if c.file == nil {
		return nil
	}
	var b []byte
	for i := range values {
		line, err := json.Marshal(&values[i])
		if err != nil {
			return err
		}
		b = append(append(b, line...), '\n')
	}
	if _, err := c.file.Write(b); err != nil {
		return fmt.Errorf("write the checkpoint: %w", err)
	}
	if err := c.file.Sync(); err != nil {
		return fmt.Errorf("sync the checkpoint: %w", err)
	}
	return nil
}

// commit makes entries durable and then counts them.
func (c *checkpoint) commit(entries ...entry) error {
	if err := write(c, entries...); err != nil {
		return err
	}
	for _, m := range entries {
		c.count(m)
	}
	return nil
}

// Close lets go of the file and its lock. Everything was synced after it was written.
func (c *checkpoint) Close() {
	if c.file != nil {
		_ = c.file.Close()
	}
}

// keptKeys is how long the service surely remembers an Idempotency-Key.
const keptKeys = 48 * time.Hour

// fits says why the upload at hand cannot go on from the checkpoint, or nil.
func (c *checkpoint) fits(want header, now time.Time) error {
	h := c.header
	switch {
	case h.Identity != want.Identity:
		return errors.New("the file has changed since its upload was interrupted; undo that and run again to go on")
	case h.URL != want.URL:
		return errors.New("the interrupted upload went to " + h.URL + "; run again with that address to go on")
	case h.Dataset != want.Dataset:
		return errors.New("the interrupted upload was for another --dataset; run again with that to go on")
	case h.Format != want.Format || h.Delimiter != want.Delimiter:
		return errors.New("the interrupted upload read the file with another --format or --delimiter; run again with " +
			"those to go on")
	case !sameMapping(h.Mapping, want.Mapping):
		return errors.New("the interrupted upload had another --map, --hash or --set; run again with those to go on")
	case h.BatchRows != want.BatchRows || h.BatchSize != want.BatchSize:
		return fmt.Errorf("the interrupted upload had batches of %d rows and %d bytes, and another size would send rows "+
			"twice; run again with --batch %[1]d to go on", h.BatchRows, h.BatchSize)
	case now.Sub(time.Unix(c.last.Time, 0)) > keptKeys:
		return errors.New("the upload was interrupted more than 48 hours ago: the service may have forgotten which " +
			"batches were under way, and could store their rows twice. Compare with sluice-send stats, and upload what " +
			"is missing as a file of its own")
	}
	return nil
}

func sameMapping(a, b *input.Mapping) bool {
	x, errA := json.Marshal(a)
	y, errB := json.Marshal(b)
	return errA == nil && errB == nil && bytes.Equal(x, y)
}
