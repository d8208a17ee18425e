package loader

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/lake"
	"sluice/internal/stream"
)

// partition loads one partition of the stream.
type partition struct {
	l   *Loader
	id  uint8
	log *slog.Logger

	watermark                         atomic.Uint64
	held                              atomic.Bool
	rows, rejections, frames, commits atomic.Int64
	pending                           atomic.Int64
	stopped                           atomic.Pointer[string] // why nothing may be loaded; nil is as it should be

	tried time.Time // when run last tried to get the lease

	mu         sync.Mutex
	oldest     time.Time // of the frames that wait
	lastCommit time.Time
	lastError  string
}

// run loads whenever it holds the lease, until ctx ends.
func (p *partition) run(ctx context.Context) error {
	p.tried = time.Now()
	for {
		err := p.lease(ctx, func(ctx context.Context) error {
			p.held.Store(true)
			defer p.held.Store(false)
			return p.load(ctx)
		})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil && !errors.Is(err, lake.ErrFenced) && !errors.Is(err, errLeaseLost) && !ended(err) {
			p.failed("load", err)
		}
		if err := p.rest(ctx, time.Second); err != nil {
			return err
		}
	}
}

// ended says whether an error is the end of a context: of the lease, of the partition's time here, or because the collector
// gave the partition up, which says why by itself.
func ended(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// rest waits between two attempts, less if this process becomes the committer, and keeps the watermark fresh where another
// process does the loading.
func (p *partition) rest(ctx context.Context, d time.Duration) error {
	const step = 50 * time.Millisecond
	led := p.l.leads.Load()
	for ; d > 0 && led == p.l.leads.Load(); d -= step {
		if err := sleep(ctx, step); err != nil {
			return err
		}
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

// load hands the frames after the lake's own watermarks to the collector, until ctx ends or the collector gives the partition
// up. It returns when the collector has nothing of the partition any more, or has ended: the lease holds until then.
func (p *partition) load(ctx context.Context) error {
	marks, err := p.marks(ctx)
	if err != nil {
		return err
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	s := newShare(p, marks, end)
	if err := p.l.tell(order{join: s}); err != nil {
		return err
	}
	err = p.l.o.Stream.Follow(ctx, p.id, marks.Least()+1, p.l.o.Age/5, func(f stream.Frame) error {
		select {
		case p.l.arrivals <- arrival{s, f}:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	_ = p.l.tell(order{leave: s}) // it waits for the last commit of a collector that is being stopped
	p.forget()
	return err
}

// committed notes that everything up to a sequence number is in the table of events, with so many rows more. Others wait
// since oldest; zero if none does.
func (p *partition) committed(to uint64, added, waiting int, oldest time.Time) {
	moved := p.watermark.Swap(to) != to
	p.rows.Add(int64(added))
	p.pending.Store(int64(waiting))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.oldest = oldest
	if moved {
		p.commits.Add(1)
		p.lastCommit = p.l.o.Now()
	}
	if p.lastError != "" {
		p.lastError = ""
		p.log.Info("loading again")
	}
}

// forget notes that nothing waits here: whoever loads next reads it again.
func (p *partition) forget() {
	p.pending.Store(0)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.oldest = time.Time{}
}

// waiting notes when a frame was stored that is not in the lake; the first one counts.
func (p *partition) waiting(since time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.oldest.IsZero() {
		p.oldest = since
	}
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
		Rejections: p.rejections.Load(), Frames: p.frames.Load(), Commits: p.commits.Load(),
		Pending: int(p.pending.Load()), LastCommit: p.lastCommit, LastError: p.lastError,
	}
	if !p.oldest.IsZero() {
		out.Lag = max(0, p.l.o.Now().Sub(p.oldest))
	}
	return out
}
