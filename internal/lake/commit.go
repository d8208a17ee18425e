package lake

import (
	"context"
	"sync"
	"time"

	"sluice/event"
	"sluice/internal/objectstore"
	"sluice/internal/throttle"
	"sluice/internal/watermark"
)

// Span is a run of frames of one partition of the stream.
type Span struct {
	Partition uint8
	From      Watermarks // how far each table is
	To        uint64     // sequence number of the last frame
}

// Batch is what runs of frames hold, for each table without what it has already.
type Batch struct {
	Spans      []Span // one for each partition
	Events     []event.Row
	Rows       *EventRows // the events, for who has collected them so; Events do not count then
	Rejections []Rejection
	Hours      []Hour
	// Later says that the rejections and hours of the frames come with a later batch, whose spans begin before these.
	Later bool
}

// origin says where the rows of a table come from; reached is how far that table is.
func (l *Lake) origin(b *Batch, reached func(*Watermarks) uint64, sparse bool) watermark.Origin {
	out := watermark.Origin{Stream: l.o.Stream}
	for i := range b.Spans {
		s := &b.Spans[i]
		span := watermark.Span{
			Partition: s.Partition, From: reached(&s.From), To: max(s.To, reached(&s.From)),
			Sparse: sparse, Settled: s.To,
		}
		if b.Later {
			span.Settled = min(s.From.Rejections, s.From.Hours)
		}
		out.Spans = append(out.Spans, span)
	}
	return out
}

// Commit adds a batch, once: if it returns nil the rows are on stable storage and readers see them, and the same
// batch again changes nothing. After an error it may have reached some tables; Watermarks says which. ErrFenced
// comes back when the tables are not where the batch begins, ErrOtherStream and ErrNoWatermark when they do not belong
// to the stream, ErrNoTable and ErrOtherTable when somebody has removed them, or put others in their place. Where the
// lake has a throttle, Commit may take slack longer than it needs, so that requests find a processor.
//
// Order: rejections and hours, then events. A crash between tables leaves the later ones behind; Watermarks tells, and
// the next batches leave out what is there. The commit of events notes how far the other two are, for they are not
// written to when there is nothing for them. In a bucket, where each request waits for its answer, all three write
// their files side by side, and the version of events that names them waits for the other two.
func (l *Lake) Commit(ctx context.Context, b Batch, slack time.Duration) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if slack <= 0 {
		l.backlog.note(l.o.Now())
	}
	var counts *objectstore.Uploads
	if l.o.Store.Grace() > 0 {
		counts = &objectstore.Uploads{}
		defer func() { _ = counts.Wait() }() // the commit of events has seen its error
	}
	until := l.o.Now().Add(slack)
	from := l.origin(&b, func(w *Watermarks) uint64 { return w.Events }, false)
	// The other two tables take whatever comes after what they have. Had somebody put older copies of all of them in their
	// place, what lies between would never be loaded.
	expected := sync.OnceValue(func() error { return l.events.Expect(ctx, from) })
	if len(b.Rejections) > 0 {
		from := l.origin(&b, func(w *Watermarks) uint64 { return w.Rejections }, true)
		from.After = expected
		err := counts.Do(func() error {
			return l.rejections.Append(ctx, b.Rejections, from, l.o.Throttle.Begin(throttle.Loading, until))
		})
		if err != nil {
			return err
		}
	}
	if len(b.Hours) > 0 {
		from := l.origin(&b, func(w *Watermarks) uint64 { return w.Hours }, true)
		from.After = expected
		err := counts.Do(func() error {
			return l.appendHours(ctx, b.Hours, from, l.o.Throttle.Begin(throttle.Loading, until))
		})
		if err != nil {
			return err
		}
	}
	rows := b.Rows
	if rows == nil {
		rows = NewEventRows()
		rows.Add(b.Events)
	}
	job := l.o.Throttle.Begin(throttle.Loading, until)
	sorted, err := rows.sort(ctx, job)
	if err != nil {
		return err
	}
	if len(b.Rejections)+len(b.Hours) > 0 {
		if err := expected(); err != nil {
			return err
		}
		from.After = counts.Wait
	}
	return l.events.AppendRows(ctx, rows.rows, sorted, from, job)
}
