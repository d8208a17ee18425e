package loader

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"sluice/event"
	"sluice/internal/lake"
	"sluice/internal/stream"
	"sluice/internal/submission"
)

// partition loads one partition of the stream.
type partition struct {
	l   *Loader
	id  uint8
	log *slog.Logger

	watermark                                  atomic.Uint64
	held                                       atomic.Bool
	rows, rejections, frames, commits, retries atomic.Int64
	pending                                    atomic.Int64
	stopped                                    atomic.Pointer[string] // why nothing may be loaded; nil is as it should be

	mu         sync.Mutex
	oldest     time.Time // of the frames that wait
	lastCommit time.Time
	lastError  string
}

// run loads whenever it holds the lease, until ctx ends.
func (p *partition) run(ctx context.Context) error {
	for {
		err := p.lease(ctx, func(ctx context.Context) error {
			p.held.Store(true)
			defer p.held.Store(false)
			return p.load(ctx)
		})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil && !errors.Is(err, lake.ErrFenced) && !errors.Is(err, errLeaseLost) {
			p.failed("load", err)
		}
		if err := p.rest(ctx, time.Second); err != nil {
			return err
		}
	}
}

// rest waits between two attempts, and keeps the watermark fresh where another process does the loading.
func (p *partition) rest(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
	}
	_, _ = p.marks(ctx) // the next attempt sees the same error
	return nil
}

// marks asks the lake how far it is, and notes it.
func (p *partition) marks(ctx context.Context) (lake.Watermarks, error) {
	marks, err := p.l.o.Lake.Watermarks(ctx, p.id)
	switch {
	case err == nil:
		p.watermark.Store(marks.Events)
		p.stopped.Store(nil)
	case stopped(err):
		err = fmt.Errorf("%w. %s", err, remedy(err))
		why := err.Error()
		p.watermark.Store(0) // what the tables hold is not of this stream
		p.stopped.Store(&why)
	}
	return marks, err
}

// load reads frames from the lake's own watermark on and commits them, until ctx ends or another loader has been
// at work. Reading goes on while rows are being written, a few frames ahead.
func (p *partition) load(ctx context.Context) error {
	marks, err := p.marks(ctx)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	frames := make(chan stream.Frame, 1) // the stream reads ahead by itself
	ended := make(chan error, 1)
	go func() {
		ended <- p.l.o.Stream.Follow(ctx, p.id, marks.Events+1, p.l.o.Age/5, func(f stream.Frame) error {
			select {
			case frames <- f:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		close(frames)
	}()
	err = p.take(ctx, marks, frames)
	stop()
	for range frames { // the follower is gone when load returns
	}
	if end := <-ended; err == nil {
		err = end
	}
	return err
}

// take collects frames into batches and commits each by size or age.
func (p *partition) take(ctx context.Context, marks lake.Watermarks, frames <-chan stream.Frame) error {
	b := newBatch(p, marks)
	due := time.NewTimer(time.Hour)
	due.Stop()
	for {
		full := false
		select {
		case f, ok := <-frames:
			if !ok {
				return nil // what was collected is in the stream still
			}
			if b.empty() {
				due.Reset(p.l.o.Age)
				p.waiting(f.Time)
			}
			if err := b.add(f); err != nil {
				return err
			}
			p.pending.Store(int64(b.rows))
			full = b.full()
		case <-due.C:
			full = true
		case <-ctx.Done():
			return ctx.Err()
		}
		if full {
			due.Stop()
			// The longer the batch took to fill, the less of a hurry there is; behind a backlog it fills at once.
			b.due = p.l.o.Now().Add(p.l.o.Now().Sub(b.begun) / 2)
			if err := b.decode(ctx); err != nil {
				return err
			}
			if err := p.commit(ctx, b); err != nil {
				return err
			}
			b = newBatch(p, lake.Watermarks{
				Events: b.to, Rejections: max(b.to, b.from.Rejections), Hours: max(b.to, b.from.Hours),
			})
		}
	}
}

// Pauses between attempts to commit: a full disk or a slow one needs time, freshness does not allow much.
const (
	firstPause = 100 * time.Millisecond
	longPause  = 5 * time.Second
)

// commit does not give up while there is hope: the batch is in the stream, but the next one cannot go first.
func (p *partition) commit(ctx context.Context, b *batch) error {
	b.Batch.Hours = b.tally.Hours()
	b.Spans = []lake.Span{{Partition: p.id, From: b.from, To: b.to}}
	for pause := firstPause; ; pause = min(2*pause, longPause) {
		err := p.l.o.Lake.Commit(ctx, b.Batch, b.due.Sub(p.l.o.Now()))
		if err == nil {
			break
		}
		if errors.Is(err, lake.ErrFenced) || stopped(err) || ctx.Err() != nil {
			return err
		}
		p.retries.Add(1)
		p.failed("commit", err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
	p.watermark.Store(b.to)
	p.rows.Add(int64(len(b.Events)))
	p.rejections.Add(int64(len(b.Rejections)))
	p.commits.Add(1)
	p.pending.Store(0)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.oldest, p.lastCommit = time.Time{}, p.l.o.Now()
	if p.lastError != "" {
		p.lastError = ""
		p.log.Info("loading again")
	}
	return nil
}

func (p *partition) waiting(since time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.oldest = since
}

// failed notes an error, and logs it unless it is the one from before.
func (p *partition) failed(doing string, err error) {
	text := fmt.Sprintf("%s: %v", doing, err)
	p.mu.Lock()
	defer p.mu.Unlock()
	if text != p.lastError {
		p.lastError = text
		p.log.Error("loading stopped", "error", text)
	}
}

func (p *partition) stats() PartitionStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := PartitionStats{
		Partition: p.id, Held: p.held.Load(), Watermark: p.watermark.Load(), Rows: p.rows.Load(),
		Rejections: p.rejections.Load(), Frames: p.frames.Load(), Commits: p.commits.Load(), Retries: p.retries.Load(),
		Pending: int(p.pending.Load()), LastCommit: p.lastCommit, LastError: p.lastError,
	}
	if !p.oldest.IsZero() {
		out.Lag = max(0, p.l.o.Now().Sub(p.oldest))
	}
	return out
}

// batch is frames on their way into one commit. They stay as they are until then: rows are full of pointers, and the
// garbage collector would follow them again and again while they wait.
type batch struct {
	lake.Batch
	from   lake.Watermarks // how far the tables are
	to     uint64          // of the last frame
	p      *partition
	frames []stream.Frame
	rows   int // in the frames
	size   int
	begun  time.Time // when the batch before was done
	due    time.Time // until then the work may be slowed down
	tally  lake.Tally
	reader submission.Decoder
	read   submission.Submission // the record that is being decoded
}

func newBatch(p *partition, marks lake.Watermarks) *batch {
	return &batch{
		from: marks, to: marks.Events,
		p: p, begun: p.l.o.Now(), reader: submission.Decoder{IDs: p.l.o.IDs},
	}
}

func (b *batch) empty() bool { return len(b.frames) == 0 }

func (b *batch) full() bool { return b.rows >= b.p.l.o.MaxRows || b.size >= b.p.l.o.MaxSize }

// add takes a frame in. What cannot be read goes into quarantine and does not stop what follows; an error comes only
// from keeping it, for then the frame must come again.
func (b *batch) add(f stream.Frame) error {
	b.p.frames.Add(1)
	if f.Missing > 0 {
		isNew, err := b.p.l.quarantine.gap(b.p.id, f.Seq, f.Missing)
		if err != nil {
			return fmt.Errorf("note a gap: %w", err)
		}
		if isNew {
			b.p.log.Error("frames are missing from the stream", "before", f.Seq, "count", f.Missing)
		}
	}
	if f.Damaged != nil {
		isNew, err := b.p.l.quarantine.frame(b.p.id, f.Seq, f.Raw)
		if err != nil {
			return fmt.Errorf("keep a damaged frame: %w", err)
		}
		if isNew {
			b.p.log.Error("frame is damaged", "sequence", f.Seq, "error", f.Damaged)
		}
	}
	for _, record := range f.Records {
		b.size += len(record)
		b.rows += submission.CountRows(view(record))
	}
	b.frames = append(b.frames, f)
	b.to = f.Seq
	return nil
}

// view is a record as a string. The frame is ours to keep and nobody writes to it, so rows may share its memory.
func view(record []byte) string { return unsafe.String(unsafe.SliceData(record), len(record)) }

// decode makes rows of the frames. A record that cannot be read goes into quarantine, as in add.
func (b *batch) decode(ctx context.Context) error {
	job := b.p.l.o.Throttle.Begin(2, b.due)
	erased, err := b.p.l.erased(ctx)
	if err != nil {
		return err
	}
	b.Events = make([]event.Row, 0, b.rows)
	left := 0
	for _, f := range b.frames {
		for slot, record := range f.Records {
			rows, err := b.reader.Decode(&b.read, b.Events, view(record), b.p.id, f.Seq, uint16(slot))
			if err != nil {
				isNew, kerr := b.p.l.quarantine.record(b.p.id, f.Seq, slot, record)
				if kerr != nil {
					return fmt.Errorf("keep a damaged record: %w", kerr)
				}
				if isNew {
					b.p.log.Error("record is damaged", "sequence", f.Seq, "slot", slot, "error", err)
				}
				continue
			}
			b.submission(&b.read, f.Seq) // before rows move
			if f.Seq > b.from.Events {
				known := len(b.Events)
				kept := slices.DeleteFunc(rows[known:], func(r event.Row) bool { return erased.Erased(&r) })
				left += len(rows) - known - len(kept)
				b.Events = rows[:known+len(kept)]
			}
		}
		if err := job.Pause(ctx); err != nil {
			return err
		}
	}
	if left > 0 {
		b.p.log.Info("rows with erased identifiers were not loaded again", "rows", left)
	}
	return nil
}

// submission adds to each of the other tables what it has not yet.
func (b *batch) submission(s *submission.Submission, seq uint64) {
	if seq > b.from.Hours {
		b.tally.Add(s)
	}
	if seq > b.from.Rejections {
		id := ""
		if s.Kind != submission.Rejected {
			id = submission.FormatID(s.Kind, s.ID)
		}
		for _, r := range s.Rejections {
			b.Rejections = append(b.Rejections, rejection(s, id, r))
		}
	}
}

func rejection(s *submission.Submission, id string, r event.Rejection) lake.Rejection {
	return lake.Rejection{
		ReceivedAt: s.ReceivedAt, DatasetID: s.DatasetID, SubmissionID: id,
		Code: string(r.Code), Field: r.Field, Count: int64(r.Count), Events: int64(r.Events),
	}
}
