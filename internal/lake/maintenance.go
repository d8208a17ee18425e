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

// countsRetention is how long counts are kept: 13 months, so that a month can be held against the one a year before.
// They name nobody, so they may outlive the events they count, and they are bounded also where events are not.
const countsRetention = 400 * 24 * time.Hour

// Retain drops the days that were received longer ago than the retention; hours, and rejections where events are
// kept for ever, after 13 months. It says how many rows are gone from the newest snapshots; their files go with the
// snapshots that still list them.
func (l *Lake) Retain(ctx context.Context) (rows int64, err error) {
	for _, t := range l.tables() {
		keep := l.o.Retention
		if t == l.hours || keep <= 0 && t == l.rejections {
			keep = countsRetention
		}
		if keep <= 0 {
			continue
		}
		gone, err := t.DropBefore(ctx, l.o.Now().Add(-keep))
		if err != nil {
			return rows, err
		}
		rows += gone
	}
	return rows, nil
}

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

// Check reads everything that the tables list and hands what is damaged, unreadable by name or wrong to found.
func (l *Lake) Check(ctx context.Context, found func(Finding), progress func(done, total int)) (out iceberg.Checked, err error) {
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

// Repair writes anew what Check finds wrong, with the same rows. Run does it by itself for the files of earlier versions.
func (l *Lake) Repair(ctx context.Context, progress func(done, total int)) (out iceberg.Repaired, err error) {
	for _, t := range l.tables() {
		one, err := t.Repair(ctx, progress)
		out.Files += one.Files
		out.Rows += one.Rows
		out.Left += one.Left
		if err != nil {
			return out, err
		}
	}
	return out, nil
}

// ErrInUse says that a place holds tables that somebody works with.
var ErrInUse = iceberg.ErrInUse

// CopyTo copies the tables to another place while others commit. It can be interrupted and repeated. Events are copied
// first: the other tables may hold more than the copy of events says, never less, so a loader that goes on from the copy
// brings what is missing, once.
func (l *Lake) CopyTo(ctx context.Context, to objectstore.Store, progress func(done, total int)) error {
	tables := l.tables()
	slices.Reverse(tables)
	for _, t := range tables {
		if err := t.CopyTo(ctx, to.Sub(t.Stats().Name), progress); err != nil {
			return err
		}
	}
	return nil
}

// Identity tells the tables at a place from others; a copy that CopyTo made has the same. "" means that there are none. It
// changes nothing, unlike Open.
func Identity(at objectstore.Store) (string, error) { return iceberg.TableID(at.Sub(eventsTable)) }

// How often Run looks. A day's compaction is a matter of minutes, and each look costs next to nothing.
const (
	maintainEvery = 5 * time.Second
	sweepEvery    = 5 * time.Minute
)

// backlog knows since when commits follow one another without a pause. Compaction leaves them the processors and the memory
// for the first minute: small files for that long cost readers less than rows that are not there yet. A backlog that lasts
// longer has to share, or small files would add up.
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

// Run compacts, expires, retains and sweeps until ctx ends. With a throttle it works at most half of the time, so that
// commits and readers have the machine for the other half. One process of those that share a lake should run it;
// more do no harm.
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
		more, err := l.compact(ctx, l.o.Throttle.Begin(throttle.Upkeep, time.Time{}))
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
			l.failures.Add(1)
			l.o.Log.Error("maintain the tables", "error", err)
			wait = time.Minute
		case more:
			wait = 0 // the throttle has slept already
		}
	}
}
