package erasure

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/event"
	"sluice/internal/engine"
	"sluice/internal/purpose"
)

// Log is the ordered record of erased rows, which the feed tells its followers. It is in the engine, is kept as
// long as the stream, and names each row once, by its event id: not by an identifier.
//
// The order of writes of an erasure: its tombstones; for each commit that deletes rows, the rows into the log, then
// the commit, which notes in its snapshot up to where the log is applied; then the tombstones are finished. A crash
// in between leaves rows in the log that are still in the table. The erasure is done again, finds them in the log,
// and deletes them. One process at a time deletes rows from the table, see Pass: so a snapshot is without
// everything in the log up to its mark, and has the rest. The loader writes rows of the stream that it leaves out.
// No snapshot ever has those, so it asks nobody.
type Log struct{ j *engine.Journal }

// Log is the log of erased rows. The stream must have been opened before.
func (t *Tombstones) Log(ctx context.Context) (*Log, error) {
	t.logMu.Lock()
	defer t.logMu.Unlock()
	if t.log != nil {
		return t.log, nil
	}
	j, err := t.e.Journal(ctx, engine.ErasedJournal)
	if err != nil {
		return nil, err
	}
	t.log = &Log{j}
	return t.log, nil
}

// Line is an erased row.
type Line struct {
	EventID event.ID
	Dataset string
	Purpose purpose.Purpose // what it was used for at most
}

// Bounds are where a log begins and ends.
type Bounds struct {
	ID          uint64 // of the log: another one in its place has another, one that was moved has the same
	First, Last uint64 // numbers of its entries; none means that Last is before First
}

// Bounds asks the engine.
func (l *Log) Bounds(ctx context.Context) (Bounds, error) {
	st, err := l.j.State(ctx)
	if err != nil {
		return Bounds{}, fmt.Errorf("read the log of erased events: %w", err)
	}
	return Bounds{uint64(st.Created.UnixNano()), max(1, st.FirstSeq), st.LastSeq}, nil
}

// Read returns the lines of an entry, or engine.ErrNotFound.
func (l *Log) Read(ctx context.Context, number uint64) ([]Line, error) {
	b, err := l.j.Get(ctx, number)
	if err != nil {
		return nil, fmt.Errorf("read entry %d of the log of erased events: %w", number, err)
	}
	lines, _, err := decodeEntry(b)
	return lines, err
}

// Mark names a place in a log, as text: everything up to there. "" is none.
type Mark string

func newMark(id, number uint64) Mark {
	return Mark(strconv.FormatUint(id, 10) + ":" + strconv.FormatUint(number, 10))
}

// In returns the number of the entry that a mark names, or 0 if it is of another log.
func (m Mark) In(b Bounds) uint64 {
	id, number, _ := strings.Cut(string(m), ":")
	n, err := strconv.ParseUint(number, 10, 64)
	if err != nil || id != strconv.FormatUint(b.ID, 10) || n > b.Last {
		return 0
	}
	return n
}

// An entry is a byte that says who wrote it, and groups until its end: a purpose (1 byte), the length of a dataset
// (uvarint), the dataset, the number of rows (uvarint), their ids (16 bytes each).
const (
	deletedRows = 'd' // by who deletes rows from the table
	leftOutRows = 'l' // by the loader
)

// entryLines bounds an entry. Arbitrary: it is some 32 KiB, a page of the feed.
const entryLines = 2000

var errEntry = errors.New("an entry of the log of erased events cannot be read")

func encodeEntry(writer byte, lines []Line) []byte {
	b := []byte{writer}
	for len(lines) > 0 {
		n := 1
		for n < len(lines) && lines[n].Dataset == lines[0].Dataset && lines[n].Purpose == lines[0].Purpose {
			n++
		}
		b = append(b, byte(lines[0].Purpose))
		b = binary.AppendUvarint(b, uint64(len(lines[0].Dataset)))
		b = append(b, lines[0].Dataset...)
		b = binary.AppendUvarint(b, uint64(n))
		for i := range n {
			b = append(b, lines[i].EventID[:]...)
		}
		lines = lines[n:]
	}
	return b
}

func decodeEntry(b []byte) (lines []Line, writer byte, err error) {
	if len(b) == 0 {
		return nil, 0, errEntry
	}
	writer, b = b[0], b[1:]
	for len(b) > 0 {
		p := purpose.Purpose(b[0])
		size, n := binary.Uvarint(b[1:])
		if b = b[1:]; n <= 0 || size > uint64(len(b)-n) {
			return nil, 0, errEntry
		}
		dataset := string(b[n : n+int(size)])
		b = b[n+int(size):]
		rows, n := binary.Uvarint(b)
		if n <= 0 || rows > uint64(len(b)-n)/16 {
			return nil, 0, errEntry
		}
		for b = b[n:]; rows > 0; rows-- {
			lines = append(lines, Line{event.ID(b[:16]), dataset, p})
			b = b[16:]
		}
	}
	return lines, writer, nil
}

// Writer adds rows to a log that it does not have yet. It is for one goroutine and one pass: it keeps the ids of
// the whole log in memory, some 30 bytes each.
type Writer struct {
	l       *Log
	writer  byte
	all     bool // see Everything
	id      uint64
	end     uint64                // up to here the log was read
	told    map[event.ID]struct{} // in the log, or waiting; nil before the log was read
	waiting []Line
	tried   []byte // the entry that was sent last
	mark    uint64 // everything up to here is applied with the next commit
	pending bool   // what an earlier pass has written behind mark may not be applied
	foreign bool   // somebody else deletes rows at the same time
}

// LeftOut writes rows into the log that a loader leaves out because they were erased. Call it before the commit
// that passes them over. Rows needs the same of them.
func (t *Tombstones) LeftOut(ctx context.Context, rows []event.Row) error {
	if len(rows) == 0 {
		return nil
	}
	w, err := t.Loading(ctx)
	if err != nil {
		return err
	}
	if err := w.Rows(ctx, rows); err != nil {
		return err
	}
	return w.flush(ctx)
}

// Loading is the writer of who loads rows, and takes some of them back. It marks nothing.
func (t *Tombstones) Loading(ctx context.Context) (*Writer, error) {
	l, err := t.Log(ctx)
	return &Writer{l: l, writer: leftOutRows}, err
}

// Bare is a row without what it says: as much as a Writer needs.
func Bare(r *event.Row) event.Row {
	return event.Row{
		EventID: r.EventID, DatasetID: strings.Clone(r.DatasetID),
		Privacy: r.Privacy, Late: r.Late, OptimizationEligible: r.OptimizationEligible,
	}
}

// Pass lets do delete rows from the table, and no other process meanwhile. mark is what the table notes of the log.
// do gives the Writer to the deletion, which tells it of every row, and finishes tombstones in the end.
func (t *Tombstones) Pass(
	ctx context.Context, mark func(context.Context) (string, error), do func(context.Context, *Writer) error,
) error {
	l, err := t.Log(ctx)
	if err != nil {
		return err
	}
	return t.e.Alone(ctx, "erase", func(ctx context.Context) error {
		at, err := mark(ctx)
		if err != nil {
			return err
		}
		b, err := l.Bounds(ctx)
		if err != nil {
			return err
		}
		w := &Writer{l: l, writer: deletedRows, mark: Mark(at).In(b)}
		if err := w.catchUp(ctx); err != nil {
			return err
		}
		return do(ctx, w)
	})
}

// Pending says whether the log names rows that the table may have still: an erasure was interrupted, or an older
// version of the table was put back. A deletion for all tombstones that are not finished has to come first, see
// Everything.
func (w *Writer) Pending() bool { return w.pending }

// Everything says that the next deletion is for all tombstones that are not finished.
func (w *Writer) Everything() { w.all = true }

// catchUp reads what the log has and the writer does not know.
func (w *Writer) catchUp(ctx context.Context) error {
	b, err := w.l.Bounds(ctx)
	if err != nil {
		return err
	}
	began := w.told == nil
	if began {
		w.told, w.id = map[event.ID]struct{}{}, b.ID
	}
	if b.ID != w.id || b.Last < w.end {
		return errors.New("the log of erased events was replaced by another one: try again")
	}
	there := map[event.ID]struct{}{} // what others have written meanwhile need not be written again
	err = w.l.j.Scan(ctx, w.end+1, func(number uint64, entry []byte) error {
		lines, writer, err := decodeEntry(entry)
		if err != nil {
			return err
		}
		for _, line := range lines {
			w.told[line.EventID] = struct{}{}
			if !began {
				there[line.EventID] = struct{}{}
			}
		}
		w.end = number
		switch {
		case bytes.Equal(entry, w.tried):
			w.mark = number
		case writer == deletedRows && number > w.mark:
			w.pending, w.foreign = w.pending || began, w.foreign || !began
		}
		return nil
	})
	w.end = max(w.end, b.Last)
	w.waiting = slices.DeleteFunc(w.waiting, func(line Line) bool { _, ok := there[line.EventID]; return ok })
	return err
}

// Rows takes rows that the next commit leaves the table without. The same row may come again. It needs their event
// id, dataset, privacy outcome, and whether they are late and eligible for optimization.
func (w *Writer) Rows(ctx context.Context, rows []event.Row) error {
	if w.told == nil {
		if err := w.catchUp(ctx); err != nil {
			return err
		}
	}
	for i := range rows {
		p := purpose.Of(&rows[i])
		if _, told := w.told[rows[i].EventID]; told || p == 0 {
			continue
		}
		w.told[rows[i].EventID] = struct{}{}
		w.waiting = append(w.waiting, Line{rows[i].EventID, strings.Clone(rows[i].DatasetID), p})
		if len(w.waiting) >= entryLines {
			if err := w.flush(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// Mark stores the rows, and returns once they are on stable storage. It returns what the snapshot notes that is
// without them, "" for what the one before it noted. done says that the pass has ended: there is nothing left to
// delete.
func (w *Writer) Mark(ctx context.Context, done bool) (string, error) {
	if err := w.flush(ctx); err != nil {
		return "", err
	}
	switch {
	case w.writer == leftOutRows, w.foreign, w.pending && !(done && w.all), w.told == nil:
		return "", nil
	case w.pending:
		w.mark, w.pending = w.end, false
	}
	if w.mark == 0 {
		return "", nil
	}
	return string(newMark(w.id, w.mark)), nil
}

// appendWithin bounds the writing of an entry (arbitrary: a cluster that chooses a leader needs 8 s).
const appendWithin = 20 * time.Second

// flush stores what waits. The engine takes an entry only behind the last one that the writer knows, so no row is
// there twice, whoever else writes, and whatever became of an attempt that got no answer.
func (w *Writer) flush(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, appendWithin)
	defer cancel()
	for len(w.waiting) > 0 {
		w.tried = encodeEntry(w.writer, w.waiting)
		attempt, stop := context.WithTimeout(ctx, 2*time.Second)
		err := w.l.j.Append(attempt, w.tried, w.end)
		stop()
		switch {
		case err == nil:
			w.end++
			w.mark, w.waiting = w.end, w.waiting[:0]
			return nil
		case !errors.Is(err, engine.ErrRevision) && !errors.Is(err, engine.ErrTimeout) &&
			!errors.Is(err, engine.ErrUnavailable):
			return fmt.Errorf("write the log of erased events: %w", err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("write the log of erased events: %w", err)
		case <-time.After(10 * time.Millisecond):
		}
		if err := w.catchUp(ctx); err != nil {
			return err
		}
	}
	return nil
}
