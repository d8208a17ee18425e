package loader

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"sluice/internal/hours"
	"sluice/internal/lake"
)

// collector folds the frames of all partitions that this process loads into one commit after another: the cost of a
// commit does not grow with the number of partitions. Partitions that are faster than the commits wait.
//
// A batch goes this way:
//
//	empty ─first frame─▶ filling ─Age has passed─▶ old ─no commit under way─┐
//	                        └──────────────── full ────────────────────────┴▶ decoded ─▶ flight ─▶ committed
//
// Frames arrive while a commit is under way only if the last batch began behind a backlog: two batches take more
// memory. Then the next batch fills to half, is decoded, and waits for the commit.
//
// Events are committed every Age. Rejections and hours follow every Settle, from memory: after a crash the next loader
// reads the frames again that their tables lack. A flush, too many rejections or the end make them due at once:
//
//	settled ─commit of events alone─▶ waiting ─Settle has passed─▶ due ─commit of everything─▶ settled
//
// An error gives all partitions up: the batch is empty and the counts are settled.
type collector struct {
	l        *Loader
	assigned []*assignment
	batch    *batch
	due      *time.Timer // the batch is old enough
	counts   countState
	settle   *time.Timer // the counts have waited for long enough
	last     time.Time   // when the last commit began; only differences count
	behind   bool        // there was a backlog when the last batch began
	now      *flight     // the commit that is under way; nil if there is none
	landed   chan error  // what became of it
	stop     <-chan struct{}

	rows, spare *lake.EventRows // columns of batches. The second is there while there is a backlog
}

// countState says where the counts of events that are committed are.
type countState int

const (
	countsSettled countState = iota // in the tables, or there are none
	countsWait                      // in memory, and the timer runs
	countsDue                       // in memory, and the next commit has them
)

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
	of *assignment
	to uint64
}

// request is something that the collector is asked to do. It answers in done, which has space for the answer.
type request struct {
	join, leave *assignment
	commit      bool // of what there is
	counts      bool // with it
	done        chan error
}

// ask gives the collector a request and waits for the answer, unless the collector has ended.
func (l *Loader) ask(r request) error {
	r.done = make(chan error, 1)
	select {
	case l.requests <- r:
		return <-r.done
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

// collect runs until ctx ends. Then the counts of what is committed follow: after a clean stop the tables agree.
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
		case in := <-arrivals:
			if !slices.Contains(c.assigned, in.of) {
				continue // given up meanwhile
			}
			if c.batch.empty() {
				c.due.Reset(max(l.o.Age/5, c.spacing()))
				c.behind = l.o.Now().Sub(in.frame.Time) > 2*l.o.Age
			}
			if err := c.batch.add(in); err != nil {
				if l.outdate(err) { // what was accepted before is stored, with its counts
					c.settleNow()
					c.commit(work)
				}
				c.wait()
				c.giveUp(err)
			}
		case r := <-l.requests:
			r.done <- c.answer(work, r)
		case err := <-c.landed:
			c.land(err)
		case <-c.due.C:
			c.batch.old = true
		case <-c.settle.C:
			c.counts = countsDue
		case <-ctx.Done():
			return ctx.Err()
		}
		if c.batch.full(c.now != nil) || c.now == nil && c.ripe() {
			c.commit(work)
		}
	}
}

// ripe says whether it is time for a commit. Counts that are due come with the batch, if there is one.
func (c *collector) ripe() bool { return c.batch.old || c.counts == countsDue && c.batch.empty() }

// spacing is how long it is until the next commit may begin. After a pause the first events wait only a fifth of Age
// for others.
func (c *collector) spacing() time.Duration { return time.Until(c.last.Add(c.l.o.Age + c.l.o.Age/5)) }

// answer does what somebody asks for.
func (c *collector) answer(ctx context.Context, r request) error {
	switch {
	case r.join != nil:
		c.assigned = append(c.assigned, r.join)
	case r.leave != nil && slices.Contains(c.assigned, r.leave):
		c.wait()
		c.assigned = slices.DeleteFunc(c.assigned, func(a *assignment) bool { return a == r.leave })
		c.batch.drop(r.leave)
		c.l.o.Lake.Pend(c.hours())
	case r.commit:
		c.wait()
		if r.counts {
			c.settleNow()
		}
		if r.counts || !c.batch.empty() {
			c.commit(ctx)
		}
		c.wait()
		if len(c.assigned) == 0 {
			return errIdle
		}
	}
	return nil
}

// settleNow has the next commit put counts into the tables.
func (c *collector) settleNow() {
	c.settle.Stop()
	c.counts = countsDue
}

// settled notes that no counts wait.
func (c *collector) settled() {
	c.settle.Stop()
	c.counts = countsSettled
}

// commit decodes the batch, and begins to carry it into the lake when the commit before has ended. After an error the
// partitions begin again from the watermarks.
func (c *collector) commit(ctx context.Context) {
	c.due.Stop()
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
	f := &flight{begun: begun, events: b.events, settles: c.counts == countsDue}
	for _, a := range c.assigned {
		f.parts = append(f.parts, part{a, a.to})
		a.committing, a.rows = a.rows, 0
		if f.settles {
			a.tally, a.rejections = hours.Tally{}, nil
		}
	}
	if f.settles {
		c.settled()
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

// maxNumbers are how many numbers of campaigns may wait, in all datasets: each commit shows all of them anew.
// Arbitrary: at most two for each event of a commit, some 16 MB.
const maxNumbers = 128_000

// assemble makes the batch of the lake, with the counts when they are due.
func (c *collector) assemble() lake.Batch {
	waits, numbers := 0, 0
	for _, a := range c.assigned {
		waits += len(a.rejections)
		numbers += a.tally.CampaignNumbers()
	}
	if waits > maxRejections || numbers > maxNumbers || c.l.o.Settle <= c.l.o.Age {
		c.settleNow()
	}
	settles := c.counts == countsDue
	out := lake.Batch{Rows: c.batch.events, Later: !settles}
	for _, a := range c.assigned {
		if a.to > a.marks.Events || settles && a.unsettled() {
			out.Spans = append(out.Spans, lake.Span{Partition: a.p.id, From: a.marks, To: a.to})
		}
		if settles {
			out.Rejections = append(out.Rejections, a.rejections...)
		}
	}
	if settles {
		out.Hours = c.hours()
	}
	return out
}

// hours are the counts that are not in the table yet.
func (c *collector) hours() []lake.Hour {
	tallies := make([]*hours.Tally, len(c.assigned))
	for i, a := range c.assigned {
		tallies[i] = &a.tally
	}
	return hours.Hours(tallies...)
}

// Pauses between attempts to commit: a full disk or a slow one needs time, freshness does not allow much.
const (
	firstPause = 100 * time.Millisecond
	longPause  = 5 * time.Second
)

// insist does not give up while there is hope: the batch is in the stream, but the next one cannot go first. After
// Patience another process may have more success. The work may be slowed down until due.
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
		if errors.Is(err, lake.ErrFenced) || stopped(err) || l.outdate(err) || ctx.Err() != nil {
			return err
		}
		l.failures.Add(1)
		for _, p := range parts {
			p.of.p.failed(fmt.Errorf("commit: %w", err), false)
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
		a := p.of
		a.marks.Events, a.done = max(a.marks.Events, p.to), p.to
		a.committing = 0
		a.p.committed(a.marks.Events, a.rows)
		if f.settles {
			a.marks.Rejections, a.marks.Hours = max(a.marks.Rejections, p.to), max(a.marks.Hours, p.to)
		}
	}
	if !f.settles {
		c.l.o.Lake.Pend(f.pending)
		if c.counts == countsSettled && slices.ContainsFunc(c.assigned, (*assignment).unsettled) {
			c.counts = countsWait
			c.settle.Reset(c.l.o.Settle)
		}
	}
	c.batch.begun = c.l.o.Now()
}

// giveUp ends all partitions: they begin again from the watermarks. An error of the lease or of the watermark is no
// news.
func (c *collector) giveUp(err error) {
	for _, a := range c.assigned {
		if !errors.Is(err, lake.ErrFenced) && !errors.Is(err, context.Canceled) {
			a.p.failed(fmt.Errorf("load: %w", err), stopped(err))
		}
		a.end()
	}
	c.assigned, c.batch = nil, newBatch(c.l)
	c.l.o.Lake.Pend(nil)
	c.due.Stop()
	c.settled()
}

// finish settles the counts of what is committed. Frames that wait stay in the stream.
func (c *collector) finish(ctx context.Context) {
	c.wait()
	c.batch = newBatch(c.l)
	c.batch.events = c.rows
	c.rows.Reset()
	for _, a := range c.assigned {
		a.to = a.done
	}
	c.settleNow()
	if b := c.assemble(); len(b.Spans) > 0 {
		if err := c.l.o.Lake.Commit(ctx, b, 0); err != nil && !errors.Is(err, lake.ErrFenced) {
			c.l.o.Log.Warn("the counts of the last events follow after the next start", "error", err)
		}
	}
}
