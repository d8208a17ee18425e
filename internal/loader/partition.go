package loader

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/engine"
	"sluice/internal/lake"
	"sluice/internal/stream"
)

// partition loads one partition of the stream.
type partition struct {
	l   *Loader
	id  uint8
	log *slog.Logger

	watermark        atomic.Uint64
	held             atomic.Bool
	commits, pending atomic.Int64
	stopped          atomic.Pointer[string] // why nothing may be loaded; nil is as it should be

	tried time.Time // when run last tried to get the lease

	mu         sync.Mutex
	read       time.Time // when the watermark was last read or moved; only differences count
	lastCommit time.Time
	failure    Failure
	unread     bool   // the failure is that the watermark cannot be read
	reached    uint64 // the watermark when it began
}

// run loads whenever it holds the lease, until ctx ends.
func (p *partition) run(ctx context.Context) error {
	p.tried = time.Now()
	for {
		err := p.lease(ctx, func(ctx context.Context) error {
			defer p.held.Store(false)
			return p.load(ctx)
		})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		// The end of a context is that of the lease, of the partition's time here, or because the collector gave the
		// partition up, which says why by itself.
		known := errors.Is(err, lake.ErrFenced) || errors.Is(err, engine.ErrLeaseLost) || errors.Is(err, errUnread) ||
			errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
		if err != nil && !known {
			p.l.failures.Add(1)
			p.failed(fmt.Errorf("load: %w", err), stopped(err))
		}
		if err := p.rest(ctx, time.Second); err != nil {
			return err
		}
	}
}

// rest waits between two attempts, less if this process becomes the committer, and keeps the watermark fresh where
// another process does the loading.
func (p *partition) rest(ctx context.Context, d time.Duration) error {
	const step = 50 * time.Millisecond
	led := p.l.leads()
	for ; d > 0 && led == p.l.leads(); d -= step {
		if err := sleep(ctx, step); err != nil {
			return err
		}
	}
	_, _ = p.marks(ctx) // it has noted its error
	return nil
}

// errUnread says that the watermarks could not be read. marks has noted it.
var errUnread = errors.New("read the tables")

// marks asks the lake how far it is, and notes it.
func (p *partition) marks(ctx context.Context) (lake.Watermarks, error) {
	marks, err := p.l.o.Lake.Watermarks(ctx, p.id)
	p.l.outdate(err)
	switch {
	case err == nil:
		p.stopped.Store(nil)
		p.reach(marks.Events)
	case stopped(err):
		err = fmt.Errorf("%w. %s", err, remedy(err))
		why := err.Error()
		p.stopped.Store(&why)
		p.unreach()
	case ctx.Err() == nil:
		err = fmt.Errorf("%w: %w", errUnread, err)
		p.l.failures.Add(1)
		p.failed(err, true)
	}
	return marks, err
}

// reach notes up to where everything is in the table. A failure ends when the watermark can be read again, if that was
// it, or when it has moved, whoever moved it.
func (p *partition) reach(to uint64) {
	p.watermark.Store(to)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.read = time.Now()
	if p.unread || to > p.reached {
		p.recovered()
	}
}

// unreach notes that nothing of the stream is in the tables: they are gone, or not of this stream.
func (p *partition) unreach() {
	p.watermark.Store(0)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.read = time.Now()
}

// mostGather is how long new frames gather at most until they are asked for, however seldom commits are: somebody may
// ask for a commit of them. See Await. Arbitrary.
const mostGather = 2 * time.Second

// load hands the frames after the lake's own watermarks to the collector, until ctx ends or the collector gives the
// partition up. It returns when the collector has nothing of the partition any more, or has ended: the lease holds
// until then.
func (p *partition) load(ctx context.Context) error {
	marks, err := p.marks(ctx)
	if err != nil {
		return err
	}
	p.held.Store(true)
	ctx, end := context.WithCancel(ctx)
	defer end()
	a := newAssignment(p, marks, end)
	if err := p.l.ask(request{join: a}); err != nil {
		return err
	}
	go p.watch(ctx, end)
	err = p.l.o.Stream.Follow(ctx, p.id, marks.Least()+1, min(p.l.o.Age/5, mostGather), func(f stream.Frame) error {
		select {
		case p.l.arrivals <- arrival{a, f}:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	_ = p.l.ask(request{leave: a}) // it waits for the last commit of a collector that is being stopped
	p.pending.Store(0)             // whoever loads next reads it again
	return err
}

// watchEvery is how often who loads a partition looks whether the tables are still where it left them. A commit finds
// out by itself; this is for times without events. Arbitrary.
const watchEvery = 10 * time.Second

// watch ends the loading when the tables are gone, or are behind what is known to be in them: somebody has put an older
// copy in their place. Loading then begins again from their watermarks.
func (p *partition) watch(ctx context.Context, end func()) {
	for commits := p.l.commits.Load(); sleep(ctx, watchEvery) == nil; {
		if now := p.l.commits.Load(); now != commits {
			commits = now
			continue
		}
		known := p.watermark.Load()
		marks, err := p.l.o.Lake.Watermarks(ctx, p.id)
		if stopped(err) || err == nil && marks.Events < known {
			end()
			return
		}
	}
}

// committed notes that everything up to a sequence number is in the table of events, and that so many rows wait.
func (p *partition) committed(to uint64, waiting int) {
	moved := p.watermark.Swap(to) != to
	p.pending.Store(int64(waiting))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.read = time.Now()
	if moved {
		p.commits.Add(1)
		p.lastCommit = p.l.o.Now()
	}
	p.recovered()
}

// failed notes an error; unread says that the watermark cannot be read.
func (p *partition) failed(err error, unread bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	isNew := p.failure.Error == ""
	if isNew {
		p.failure.Since, p.reached = p.l.o.Now().UTC(), p.watermark.Load()
	}
	p.failure.Error, p.unread = err.Error(), unread
	p.l.complaints.add(p.log, p.failure.Error, isNew)
}

// recovered notes the end of a failure. The caller holds mu.
func (p *partition) recovered() {
	if p.failure.Error != "" {
		p.failure, p.unread = Failure{}, false
		p.l.complaints.end(p.log)
	}
}

// at is the watermark, and how long ago it was read. Who loads a partition knows it all the time.
func (p *partition) at() (seq uint64, ago time.Duration, known bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.read.IsZero() {
		return 0, 0, false
	}
	if !p.held.Load() {
		ago = time.Since(p.read)
	}
	return p.watermark.Load(), ago, true
}

func (p *partition) stats() PartitionStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return PartitionStats{
		Partition: p.id, Held: p.held.Load(), Watermark: p.watermark.Load(), Commits: p.commits.Load(),
		Pending: int(p.pending.Load()), LastCommit: p.lastCommit, Failure: p.failure,
	}
}
