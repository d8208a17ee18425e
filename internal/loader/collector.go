package loader

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"sluice/internal/lake"
	"sluice/internal/stream"
)

// collector folds the frames of all partitions that this process loads into one commit after another: the cost of a commit
// does not grow with the number of partitions. Partitions that are faster than the commits wait.
//
// Behind a backlog the next batch fills while a commit is under way, and is decoded when it is full. Else frames wait in the
// engine meanwhile: two batches take more memory.
//
// Events are committed every Age. Rejections and hours follow every Settle, from memory: a crash loses nothing, for their
// tables have watermarks of their own, and the next loader reads the frames again that they lack.
type collector struct {
	l      *Loader
	shares []*share
	batch  *batch
	due    *time.Timer // the batch is old enough
	settle *time.Timer // the counts are
	isDue  bool        // they were when there was a batch to wait for
	isLate bool        // the settle timer runs
	last   time.Time   // when the last commit began; only differences count
	isOld  bool        // the batch is old enough, and may wait for a commit that is under way
	behind bool        // there is a backlog
	now    *flight     // the commit that is under way; nil if there is none
	landed chan error  // what became of it
	stop   <-chan struct{}

	rows, spare *lake.EventRows // columns of batches. The second is there while there is a backlog
}

// flight is a commit that is under way.
type flight struct {
	begun   time.Time
	events  *lake.EventRows
	parts   []part
	settles bool
	pending []lake.Hour // counts that are not in the tables after it
}

// part is what a commit has of a partition.
type part struct {
	s          *share
	to         uint64
	added      int // rows
	rejections int
}

// arrival is a frame for the collector.
type arrival struct {
	s     *share
	frame stream.Frame
}

// order is something that the collector is asked to do. It answers in done, which has space for the answer.
type order struct {
	join, leave *share
	flush       bool
	done        chan error
}

// tell gives the collector an order and waits for the answer, unless the collector has ended.
func (l *Loader) tell(o order) error {
	o.done = make(chan error, 1)
	select {
	case l.orders <- o:
		return <-o.done
	case <-l.collected:
		return errEnded
	}
}

var (
	errEnded = errors.New("the loader has ended")
	errIdle  = errors.New("this process loads no partition")
)

// lastWait bounds the last commit of a loader that is being stopped. What does not get through is in the stream.
const lastWait = 10 * time.Second

// outlasting is a context that ends some time after ctx: a commit that is under way is not cut off.
func outlasting(ctx context.Context) (context.Context, func()) {
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(lastWait, cancel) })
	return work, func() { stop(); cancel() }
}

// collect runs until ctx ends. Then the counts of everything that is committed follow: after a clean stop the tables agree.
func (l *Loader) collect(ctx context.Context) error {
	c := &collector{
		l: l, batch: newBatch(l), due: time.NewTimer(time.Hour), settle: time.NewTimer(time.Hour), stop: ctx.Done(),
		landed: make(chan error, 1), rows: lake.NewEventRows(),
	}
	c.due.Stop()
	c.settle.Stop()
	defer close(l.collected)
	work, cancel := outlasting(ctx)
	defer cancel()
	defer c.finish(work)
	for {
		arrivals := l.arrivals
		if c.now != nil && !c.behind {
			arrivals = nil
		}
		select {
		case a := <-arrivals:
			if !slices.Contains(c.shares, a.s) {
				continue // given up meanwhile
			}
			if c.batch.empty() {
				c.due.Reset(max(l.o.Age/5, c.spacing()))
				c.behind = l.o.Now().Sub(a.frame.Time) > 2*l.o.Age
			}
			if err := c.batch.add(a.s, a.frame); err != nil {
				c.wait()
				c.giveUp(err)
			}
		case o := <-l.orders:
			o.done <- c.obey(work, o)
		case err := <-c.landed:
			c.land(err)
		case <-c.due.C:
			c.isOld = true
		case <-c.settle.C:
			c.isDue, c.isLate = true, false
		case <-ctx.Done():
			return ctx.Err()
		}
		if c.batch.full(c.now != nil) || c.now == nil && (c.isOld || c.isDue && c.batch.empty()) {
			c.commit(work) // counts that are due come with the batch, if there is one
		}
	}
}

// spacing is how long it is until the next commit may begin: commits begin Age and a fifth of it apart, however many
// partitions there are. After a pause the first events wait only a fifth of Age for others.
func (c *collector) spacing() time.Duration { return time.Until(c.last.Add(c.l.o.Age + c.l.o.Age/5)) }

func (c *collector) obey(ctx context.Context, o order) error {
	switch {
	case o.join != nil:
		c.shares = append(c.shares, o.join)
	case o.leave != nil && slices.Contains(c.shares, o.leave):
		c.wait()
		c.shares = slices.DeleteFunc(c.shares, func(s *share) bool { return s == o.leave })
		c.batch.drop(o.leave)
		c.l.o.Lake.Pend(c.hours())
	case o.flush:
		c.wait()
		c.isDue = true
		c.commit(ctx)
		c.wait()
		if len(c.shares) == 0 {
			return errIdle
		}
	}
	return nil
}

// settleSoon starts the time after which counts must be in the tables.
func (c *collector) settleSoon() {
	if !c.isLate && !c.isDue {
		c.isLate = true
		c.settle.Reset(c.l.o.Settle)
	}
}

// commit decodes the batch, and begins to carry it into the lake when the commit before has ended. After an error the
// partitions begin again from the watermarks.
func (c *collector) commit(ctx context.Context) {
	c.due.Stop()
	c.isOld = false
	begun := time.Now() // only differences count
	b := c.batch
	b.due = c.l.o.Now()
	if c.now == nil {
		// The longer the batch took to fill, the less of a hurry there is; behind a backlog it fills at once.
		b.due = b.due.Add(b.due.Sub(b.begun) / 2)
	}
	err := b.decode(ctx, c.free())
	c.wait()
	if c.batch != b {
		return // the commit before was given up, and the batch with it
	}
	if err != nil {
		c.giveUp(err)
		return
	}
	out := c.assemble()
	f := &flight{begun: begun, events: b.events, settles: c.isDue}
	for _, s := range c.shares {
		p := part{s: s, to: s.to, added: s.added}
		s.committing, s.rows, s.added, s.first = s.rows, 0, 0, time.Time{}
		if f.settles {
			p.rejections = len(s.rejections)
			s.tally, s.rejections = lake.Tally{}, nil
		}
		f.parts = append(f.parts, p)
	}
	if f.settles {
		c.isDue = false
		if c.isLate {
			c.isLate = false
			c.settle.Stop()
		}
	} else {
		f.pending = c.hours()
	}
	c.batch, c.last, c.now = newBatch(c.l), begun, f
	go func() { c.landed <- c.l.insist(ctx, out, b.due, f.parts, c.stop) }()
}

// free are columns for the next batch: those that no commit uses.
func (c *collector) free() *lake.EventRows {
	switch {
	case c.now == nil:
		c.spare = nil // there is no backlog
	case c.now.events == c.rows:
		if c.spare == nil {
			c.spare = lake.NewEventRows()
		}
		c.rows, c.spare = c.spare, c.rows
	}
	return c.rows
}

// wait returns when no commit is under way.
func (c *collector) wait() {
	if c.now != nil {
		c.land(<-c.landed)
	}
}

// land notes what became of a commit.
func (c *collector) land(err error) {
	f := c.now
	c.now = nil
	if errors.Is(err, errUnable) {
		c.l.resign() // first: else the partitions would begin again here
	}
	if err != nil {
		c.giveUp(err)
		return
	}
	c.committed(f)
	c.l.commitTime.Add(int64(time.Since(f.begun)))
}

// maxRejections are how many rejections may wait: their memory is bounded. Arbitrary, as many as events.
const maxRejections = 64_000

// assemble makes the batch of the lake. It settles the counts when they are due.
func (c *collector) assemble() lake.Batch {
	waits := 0
	for _, s := range c.shares {
		waits += len(s.rejections)
	}
	c.isDue = c.isDue || waits > maxRejections || c.l.o.Settle <= c.l.o.Age
	out := lake.Batch{Rows: c.batch.events, Later: !c.isDue}
	for _, s := range c.shares {
		if s.to > s.marks.Events || c.isDue && s.unsettled() {
			out.Spans = append(out.Spans, lake.Span{Partition: s.p.id, From: s.marks, To: s.to})
		}
		if c.isDue {
			out.Rejections = append(out.Rejections, s.rejections...)
		}
	}
	if c.isDue {
		out.Hours = c.hours()
	}
	return out
}

// hours are the counts that are not in the table yet.
func (c *collector) hours() (out []lake.Hour) {
	for _, s := range c.shares {
		out = append(out, s.tally.Hours()...)
	}
	return out
}

// Pauses between attempts to commit: a full disk or a slow one needs time, freshness does not allow much.
const (
	firstPause = 100 * time.Millisecond
	longPause  = 5 * time.Second
)

// insist does not give up while there is hope: the batch is in the stream, but the next one cannot go first. After Patience
// another process may have more success. The work may be slowed down until due.
func (l *Loader) insist(ctx context.Context, b lake.Batch, due time.Time, parts []part, stop <-chan struct{}) error {
	if len(b.Spans) == 0 {
		return nil
	}
	begun := time.Now() // only differences count
	for pause := firstPause; ; pause = min(2*pause, longPause) {
		err := l.o.Lake.Commit(ctx, b, due.Sub(l.o.Now()))
		if err == nil {
			l.commits.Add(1)
			return nil
		}
		if errors.Is(err, lake.ErrFenced) || stopped(err) || ctx.Err() != nil {
			return err
		}
		l.retries.Add(1)
		for _, p := range parts {
			p.s.p.failed("commit", err)
		}
		if l.o.Patience > 0 && time.Since(begun) > l.o.Patience {
			return fmt.Errorf("%w: %w", errUnable, err)
		}
		select {
		case <-stop:
			return context.Canceled
		case <-time.After(pause):
		}
	}
}

// committed notes that a batch is in the lake.
func (c *collector) committed(f *flight) {
	for _, p := range f.parts {
		s := p.s
		s.marks.Events, s.done = max(s.marks.Events, p.to), p.to
		s.committing = 0
		s.p.committed(s.marks.Events, p.added, s.rows, s.first)
		if f.settles {
			s.p.rejections.Add(int64(p.rejections))
			s.marks.Rejections, s.marks.Hours = max(s.marks.Rejections, p.to), max(s.marks.Hours, p.to)
		}
	}
	if !f.settles {
		c.l.o.Lake.Pend(f.pending)
		if slices.ContainsFunc(c.shares, (*share).unsettled) {
			c.settleSoon()
		}
	}
	c.batch.begun = c.l.o.Now()
}

// giveUp ends all partitions: they begin again from the watermarks. An error of the lease or of the watermark is no news.
func (c *collector) giveUp(err error) {
	for _, s := range c.shares {
		if !errors.Is(err, lake.ErrFenced) && !errors.Is(err, context.Canceled) {
			s.p.failed("load", err)
		}
		s.end()
	}
	c.shares, c.batch = nil, newBatch(c.l)
	c.l.o.Lake.Pend(nil)
	c.due.Stop()
	c.settle.Stop()
	c.isDue, c.isLate, c.isOld = false, false, false
}

// finish settles the counts of what is committed. Frames that wait stay in the stream.
func (c *collector) finish(ctx context.Context) {
	c.wait()
	c.batch = newBatch(c.l)
	c.batch.events = c.rows
	c.rows.Reset()
	for _, s := range c.shares {
		s.to = s.done
	}
	c.isDue = true
	if b := c.assemble(); len(b.Spans) > 0 {
		if err := c.l.o.Lake.Commit(ctx, b, 0); err != nil && !errors.Is(err, lake.ErrFenced) {
			c.l.o.Log.Warn("the counts of the last events follow after the next start", "error", err)
		}
	}
}
