package lake

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"sluice/internal/iceberg"
	"sluice/internal/objectstore"
	"sluice/internal/throttle"
)

// Expire ends snapshots that have passed their retention, where no commit came along that would have done it.
func (l *Lake) Expire(ctx context.Context) error {
	for _, t := range l.tables() {
		if err := t.Expire(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Sweep deletes every file that no snapshot lists. It returns how many went.
func (l *Lake) Sweep(ctx context.Context) (files int, err error) {
	for _, t := range l.tables() {
		n, err := t.Sweep(ctx)
		files += n
		if err != nil {
			return files, err
		}
	}
	return files, nil
}

// Compact does one piece of compaction and says whether there was anything to do. Commits go on meanwhile.
func (l *Lake) Compact(ctx context.Context) (bool, error) { return l.compact(ctx, nil) }

func (l *Lake) compact(ctx context.Context, job *throttle.Job) (bool, error) {
	tables := l.tables()
	first := int(l.next.Add(1))
	for i := range tables {
		if did, err := tables[(first+i)%len(tables)].Compact(ctx, job); did || err != nil {
			return did, err
		}
	}
	return false, nil
}

// Finding is something that Check found wrong.
type Finding = iceberg.Finding

// Check reads everything that the tables list and hands what is damaged to found.
func (l *Lake) Check(
	ctx context.Context, found func(Finding), progress func(done, total int),
) (out iceberg.Checked, err error) {
	for _, t := range l.tables() {
		one, err := t.Check(ctx, found, progress)
		out.Files += one.Files
		out.Manifests += one.Manifests
		out.Rows += one.Rows
		out.Findings += one.Findings
		if err != nil {
			return out, err
		}
	}
	return out, nil
}

// ErrInUse says that a place holds tables that somebody works with.
var ErrInUse = iceberg.ErrInUse

// CopyTo copies the tables to another place while others commit. It can be interrupted and repeated. Of the
// tables that are loaded events are copied first: the other ones may hold more than the copy of events says, never
// less, so a loader that goes on from the copy brings what is missing, once. The sums by day say what they were made
// from.
func (l *Lake) CopyTo(ctx context.Context, to objectstore.Store, progress func(done, total int)) error {
	tables := l.tables()
	slices.Reverse(tables)
	for _, t := range tables {
		if err := t.CopyTo(ctx, to.Sub(t.Stats().Name), progress); err != nil {
			return err
		}
	}
	return l.copyNumbers(ctx, to)
}

// Identity tells the tables at a place from others; a copy that CopyTo made has the same. It also says up to where they
// hold the events of each partition of the stream. It changes nothing, unlike Open.
func Identity(ctx context.Context, at objectstore.Store) (iceberg.Identity, error) {
	return iceberg.Identify(ctx, at.Sub(eventsTable))
}

// How often Run looks. A day's compaction is a matter of minutes, and each look costs next to nothing.
const (
	maintainEvery = 5 * time.Second
	sweepEvery    = 5 * time.Minute
)

// backlog knows since when commits follow one another without a pause. Compaction leaves them the processors and the
// memory for the first minute: small files for that long cost readers less than rows that are not there yet. A backlog
// that lasts longer has to share, or small files would add up.
type backlog struct {
	mu          sync.Mutex
	first, last time.Time // commits in a hurry
}

const backlogAlone = time.Minute

// note says that there was a commit in a hurry.
func (b *backlog) note(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now.Sub(b.last) > maintainEvery {
		b.first = now
	}
	b.last = now
}

// alone says whether compaction should wait.
func (b *backlog) alone(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return now.Sub(b.last) < maintainEvery && now.Sub(b.first) < backlogAlone
}

// Run compacts, sums days, expires, retains and sweeps until ctx ends. With a throttle it works at most half of the
// time, so that commits and readers have the machine for the other half. One process of those that share a lake should
// run it; more do no harm.
func (l *Lake) Run(ctx context.Context) error {
	l.running.Store(true)
	defer l.running.Store(false)
	wait := maintainEvery
	next := l.o.Now().Add(time.Minute)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
		wait = maintainEvery
		begun := l.o.Now()
		if l.backlog.alone(begun) {
			continue
		}
		job := l.o.Throttle.Begin(throttle.Upkeep, time.Time{})
		more, err := l.compact(ctx, job)
		if err == nil && !more { // then the files of a day that is over are what they will be
			more, err = l.sumDay(ctx, job)
		}
		if err == nil && !more && !begun.Before(next) {
			next = begun.Add(sweepEvery)
			_, err1 := l.Retain(ctx)
			err2 := l.Expire(ctx)
			_, err3 := l.Sweep(ctx)
			err = errors.Join(err1, err2, err3)
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			l.o.Log.Error("maintain the tables", "error", err)
			wait = time.Minute
		case more:
			wait = 0 // the throttle has slept already
		}
	}
}
