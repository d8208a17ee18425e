package loader

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sluice/internal/engine"
)

// One process commits for all partitions: the one with the lease of the committer takes the leases of the partitions,
// too, and maintains the tables. So each table gets one commit for each interval, however many partitions and nodes
// there are. Leases only save double work: the conditional write of the next version keeps two committers apart.
const committerLease = "committer"

// Another process takes a partition that nobody has loaded for so long: the committer may not know it, because the
// partition was added after it began. It gives the partition back after a while, in case the committer knows it by
// then. Arbitrary.
const (
	adoptAfter = 30 * time.Second
	adoptFor   = 10 * time.Minute
)

// lead maintains the tables whenever this process is the committer, until ctx ends.
func (l *Loader) lead(ctx context.Context) error {
	for {
		if l.o.Engine != nil && l.outdated.Load() != nil { // a newer process may
			<-ctx.Done()
			return ctx.Err()
		}
		pause := time.Second
		err := l.lease(ctx, committerLease, l.maintain)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		switch {
		case errors.Is(err, errUnable):
			l.o.Log.Warn("this node cannot write to the tables; another one may try", "error", err)
			pause = resigned
		case err != nil && !errors.Is(err, engine.ErrLeaseLost):
			l.o.Log.Warn("the lease of the committer", "error", err)
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// errUnable ends the work of a committer that cannot commit.
var errUnable = errors.New("commits fail")

// resigned is how long a process that could not commit leaves the lease to others, which try every second.
const resigned = 4 * time.Second

// maintain maintains the tables until ctx ends, or this process resigns.
func (l *Loader) maintain(ctx context.Context) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	l.endLead.Store(&end)
	defer l.endLead.Store(nil)
	var err error
	if l.o.Maintain != nil {
		err = l.o.Maintain(ctx)
	} else {
		<-ctx.Done()
	}
	if errors.Is(context.Cause(ctx), errUnable) {
		err = errUnable
	}
	return err
}

// leads says whether this process is the committer.
func (l *Loader) leads() bool { return l.o.Engine == nil || l.endLead.Load() != nil }

// resign leaves loading to another process. The leases of the partitions are not taken again meanwhile.
func (l *Loader) resign() {
	if end := l.endLead.Swap(nil); end != nil {
		(*end)(errUnable)
	}
}

// lease calls work while this process has a lease.
func (l *Loader) lease(ctx context.Context, name string, work func(context.Context) error) error {
	if l.o.Engine == nil {
		return work(ctx)
	}
	return l.o.Engine.WithLease(ctx, name, work)
}

// lease calls work while this process has the partition's lease. It does not try while another process is the
// committer, unless nobody else seems to load the partition.
func (p *partition) lease(ctx context.Context, work func(context.Context) error) error {
	if p.l.outdated.Load() != nil {
		return engine.ErrLeaseLost
	}
	if !p.l.leads() {
		if time.Since(p.tried) < adoptAfter {
			return engine.ErrLeaseLost
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, adoptFor)
		defer cancel()
	}
	p.tried = time.Now()                    // only differences count
	defer func() { p.tried = time.Now() }() // it was loaded until now
	return p.l.lease(ctx, fmt.Sprintf("loader.%d", p.id), work)
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
