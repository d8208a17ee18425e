package loader

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"
	"unique"
	"unsafe"

	"sluice/event"
	"sluice/internal/erasure"
	"sluice/internal/hours"
	"sluice/internal/lake"
	"sluice/internal/stream"
	"sluice/internal/submission"
	"sluice/internal/throttle"
)

// assignment is a partition that is assigned to this process while it loads it: how far the tables are, and the counts
// that are not in them yet. The collector alone uses it.
type assignment struct {
	p   *partition
	end func() // called when the collector gives the partition up

	marks lake.Watermarks // how far the tables are
	to    uint64          // the last frame that was taken in
	done  uint64          // the last one of a batch that was committed

	rows       int // in frames of the batch that is being filled
	committing int // rows in frames of the batch that is being committed

	// Rejections and hours of frames whose events are in the table, or are being committed. They follow less often.
	tally      hours.Tally
	rejections []lake.Rejection
	tallied    uint64 // up to here
	rejected   uint64
}

func newAssignment(p *partition, marks lake.Watermarks, end func()) *assignment {
	from := marks.Least()
	return &assignment{
		p: p, end: end, marks: marks, to: from, done: from, tallied: marks.Hours, rejected: marks.Rejections,
	}
}

// unsettled says whether there is something to tell the tables of rejections and hours.
func (a *assignment) unsettled() bool { return a.to > min(a.marks.Rejections, a.marks.Hours) }

// arrival is a frame for the collector. It stays as it is until a commit: rows are full of pointers, and the garbage
// collector would follow them again and again while they wait.
type arrival struct {
	of    *assignment
	frame stream.Frame
}

// batch is the frames of all partitions on their way into one commit.
type batch struct {
	l      *Loader
	frames []arrival
	rows   int // in the frames
	size   int
	begun  time.Time       // when the batch before was done
	old    bool            // it has waited for as long as it may
	due    time.Time       // until then the work may be slowed down
	erased *erasure.Set    // what may not be loaded again
	events *lake.EventRows // the rows, once they are decoded; nil before
	reader submission.Decoder
	read   submission.Submission // the record that is being decoded
}

func newBatch(l *Loader) *batch {
	return &batch{l: l, begun: l.o.Now(), reader: submission.Decoder{IDs: l.o.IDs}}
}

func (b *batch) empty() bool { return len(b.frames) == 0 }

// full says whether the batch is large enough for a commit. Beside one that is under way, half as much is: two are in
// memory.
func (b *batch) full(beside bool) bool {
	rows, size := b.l.o.MaxRows, b.l.o.MaxSize
	if beside {
		rows, size = rows/2, size/2
	}
	return b.rows >= rows || b.size >= size
}

// add takes a frame in. What cannot be read goes into quarantine; an error comes only from keeping it, for then the
// frame must come again, and for what a later version has written. Gaps and damage among frames whose events are stored
// are of no interest: the stream may have dropped them by age, or come back from a backup without them.
func (b *batch) add(in arrival) error {
	a, p, f := in.of, in.of.p, &in.frame
	if err := checkVersion(f); err != nil {
		return err
	}
	if f.Missing > 0 && f.Seq > a.marks.Events+1 {
		n := min(f.Missing, f.Seq-a.marks.Events-1)
		name := fmt.Sprintf("%d-%d%s", p.id, f.Seq, gapSuffix)
		isNew, err := b.l.quarantine.keep(name, strconv.AppendUint(nil, n, 10))
		if err != nil {
			return fmt.Errorf("note a gap: %w", err)
		}
		if isNew {
			p.log.Error("frames are missing from the stream", "before", f.Seq, "count", f.Missing)
		}
	}
	if f.Damaged != nil && f.Seq > a.marks.Events {
		isNew, err := b.l.quarantine.keep(fmt.Sprintf("%d-%d%s", p.id, f.Seq, frameSuffix), f.Raw)
		if err != nil {
			return fmt.Errorf("keep a damaged frame: %w", err)
		}
		if isNew {
			p.log.Error("frame is damaged", "sequence", f.Seq, "error", f.Damaged)
		}
	}
	rows := 0
	for _, record := range f.Records {
		rows += submission.CountRows(view(record))
		b.size += len(record)
	}
	b.rows += rows
	a.rows += rows
	p.pending.Store(int64(a.committing + a.rows))
	b.frames = append(b.frames, in)
	a.to = max(a.to, f.Seq)
	return nil
}

// drop forgets the frames of a partition.
func (b *batch) drop(a *assignment) {
	b.frames = slices.DeleteFunc(b.frames, func(w arrival) bool {
		if w.of != a {
			return false
		}
		for _, record := range w.frame.Records {
			b.size -= len(record)
		}
		return true
	})
	b.rows -= a.rows
}

// view is a record as a string. The frame is ours to keep and nobody writes to it, so rows may share its memory.
func view(record []byte) string { return unsafe.String(unsafe.SliceData(record), len(record)) }

// decode makes rows of the frames, and lets go of the frames. A record that cannot be read goes into quarantine, as in
// add.
func (b *batch) decode(ctx context.Context, events *lake.EventRows) error {
	job := b.l.o.Throttle.Begin(throttle.Loading, b.due)
	var err error
	if b.l.o.Erasures != nil { // as of now: a batch that is decoded later than an erasure began has none of it
		if b.erased, err = b.l.o.Erasures.Current(ctx); err != nil {
			return err
		}
	}
	var left []event.Row
	events.Reset()
	b.events = events
	for _, w := range b.frames {
		for slot, record := range w.frame.Records {
			if left, err = b.record(w.of, w.frame.Seq, slot, record, left); err != nil {
				return err
			}
		}
		w.of.tallied, w.of.rejected = max(w.of.tallied, w.frame.Seq), max(w.of.rejected, w.frame.Seq)
		if err := job.Pause(ctx); err != nil {
			return err
		}
	}
	clear(b.l.decoded[:cap(b.l.decoded)]) // else they would keep frames in memory
	b.frames = nil
	if len(left) > 0 {
		b.l.o.Log.Info("rows that were erased were not loaded again", "rows", len(left))
		return b.l.o.Erasures.LeftOut(ctx, left)
	}
	return nil
}

// record decodes one record, and adds to each table what it has not yet. It adds to left
// the rows that it leaves out because they were erased, without what they say.
func (b *batch) record(a *assignment, seq uint64, slot int, record []byte, left []event.Row) ([]event.Row, error) {
	rows, err := b.reader.Decode(&b.read, b.l.decoded[:0], view(record), a.p.id, seq, uint16(slot))
	if err != nil {
		isNew, kept := b.l.quarantine.keep(fmt.Sprintf("%d-%d-%d%s", a.p.id, seq, slot, recordSuffix), record)
		if kept != nil {
			return left, fmt.Errorf("keep a damaged record: %w", kept)
		}
		if isNew {
			a.p.log.Error("record is damaged", "sequence", seq, "slot", slot, "error", err)
		}
		return left, nil
	}
	deleted := b.erased.Deleted(b.read.DatasetID, b.read.ReceivedAt)
	if seq > a.tallied && !deleted { // before rows move
		a.tally.Add(&b.read)
	}
	if seq > a.rejected && !deleted {
		a.reject(&b.read)
	}
	if seq > a.marks.Events {
		kept := rows
		if b.erased != nil {
			kept = slices.DeleteFunc(rows, func(r event.Row) bool {
				erased := b.erased.Erased(&r)
				if erased {
					left = append(left, erasure.Bare(&r))
				}
				return erased
			})
		}
		b.events.Add(kept)
	}
	b.l.decoded = rows
	return left, nil
}

// reject notes the rejections of a submission. They wait for longer than its frame, so their texts are copies.
func (a *assignment) reject(from *submission.Submission) {
	id := ""
	if from.Kind != submission.Rejected {
		id = submission.FormatID(from.Kind, from.ID)
	}
	for _, r := range from.Rejections {
		a.rejections = append(a.rejections, lake.Rejection{
			ReceivedAt: from.ReceivedAt, DatasetID: unique.Make(from.DatasetID).Value(), SubmissionID: id,
			Code: unique.Make(string(r.Code)).Value(), Field: unique.Make(r.Field).Value(),
			Count: int64(r.Count), Events: int64(r.Events),
		})
	}
}
