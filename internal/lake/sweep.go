package lake

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"time"
)

// countsRetain is how long counts are kept: 13 months, so that a month can be held against the one a year before.
// They name nobody, so they may outlive the events they count, and they are bounded also where events are not.
const countsRetain = 400 * 24 * time.Hour

// Retain drops the days that were received longer ago than Options.Retain; hours, and rejections where events are
// kept for ever, after 13 months. It says how many rows are gone from the newest snapshot; their files go with the
// snapshots that still list them.
func (l *Lake) Retain(ctx context.Context) (rows int64, err error) {
	for _, t := range l.tables() {
		keep := l.o.Retain
		if t == l.hours || keep <= 0 && t == l.rejections {
			keep = countsRetain
		}
		if keep <= 0 {
			continue
		}
		oldest := dayOf(l.o.Now().Add(-keep).Unix())
		var gone int64
		_, err := t.update(ctx, func(s *state) (*change, error) {
			gone = 0
			remove := map[string]bool{}
			for _, p := range s.parts() {
				if p.day < oldest {
					remove[p.name] = true
					gone += p.rows
				}
			}
			if len(remove) == 0 {
				return nil, nil
			}
			return &change{operation: deleted, remove: remove}, nil
		})
		if err != nil {
			return rows, err
		}
		if gone > 0 {
			l.o.Log.Info("rows have passed their time", "table", t.layout.name, "rows", gone, "before", dayName(oldest))
		}
		rows += gone
	}
	return rows, nil
}

// Expire ends snapshots that nobody needs any more, where no commit came along that would have done it.
func (l *Lake) Expire(ctx context.Context) error {
	for _, t := range l.tables() {
		if _, err := t.expire(ctx, false); err != nil {
			return err
		}
	}
	return nil
}

// expire commits the newest snapshot alone with those that are still of use; forget leaves it none.
func (t *table) expire(ctx context.Context, forget bool) (*state, error) {
	return t.update(ctx, func(s *state) (*change, error) {
		older, cur := s.meta.history()
		if cur == nil || !forget && len(t.unexpired(older, cur, false, t.now().UnixMilli())) == len(older) {
			return nil, nil
		}
		return &change{forget: forget}, nil
	})
}

// Sweep deletes every file that no snapshot lists: what crashes, failed commits, compaction and expiry left. It
// waits until nobody is writing, which is how it knows. It returns how many files went.
//
// Steps: T.sweep, then T.remove for each file.
func (l *Lake) Sweep(ctx context.Context) (files int, err error) {
	for _, t := range l.tables() {
		wait, cancel := context.WithTimeout(ctx, sweepWait)
		n, err := t.sweep(wait, keepVersions)
		cancel()
		files += n
		if err != nil {
			return files, fmt.Errorf("sweep %s: %w", t.layout.name, err)
		}
	}
	return files, nil
}

// sweepWait is how long a sweep waits for a moment without writers before it is put off. It keeps nobody waiting
// itself until it has begun.
const sweepWait = 30 * time.Second

func (t *table) sweep(ctx context.Context, versions int64) (int, error) {
	release, err := t.store.Alone(ctx)
	if err != nil {
		return 0, err
	}
	defer release()
	if err := t.at("sweep"); err != nil {
		return 0, err
	}
	s, err := t.refresh(ctx)
	if err != nil {
		return 0, err
	}
	if s.damaged() {
		return 0, fmt.Errorf("%w: what is not listed may be needed to mend it", ErrDamaged)
	}
	used, err := t.used(s)
	if err != nil {
		return 0, err
	}
	n, err := t.sweepMetadata(s, used, versions)
	if err != nil {
		return n, err
	}
	days, err := t.store.List("data")
	if err != nil {
		return n, err
	}
	for _, day := range days {
		files, err := t.store.List(day.name)
		if err != nil {
			return n, err
		}
		left := len(files)
		for _, f := range files {
			if used[f.name] {
				continue
			}
			if err := t.remove(f.name); err != nil {
				return n, err
			}
			n, left = n+1, left-1
		}
		if left == 0 {
			if err := t.store.Remove(day.name); err != nil {
				return n, err
			}
		}
	}
	return n, t.store.Sync() // or a power cut could bring an erased identifier back
}

// remove is one file less. A crash between two leaves the rest for the next sweep.
func (t *table) remove(name string) error {
	if err := t.at("remove"); err != nil {
		return err
	}
	return t.store.Remove(name)
}

// sweepMetadata removes old versions from below, then what no version lists. That order lets a writer that has
// slept through all of it notice: see publish.
func (t *table) sweepMetadata(s *state, used map[string]bool, versions int64) (int, error) {
	n := 0
	list, err := t.versions()
	if err != nil {
		return 0, err
	}
	slices.Reverse(list)
	for _, v := range list {
		if v > s.version-versions {
			used[metadataName(v)] = true
			continue
		}
		if err := t.remove(metadataName(v)); err != nil {
			return n, err
		}
		n++
	}
	files, err := t.store.List(metadataDir)
	if err != nil {
		return n, err
	}
	for _, f := range files {
		if used[f.name] || f.name == hintName || path.Ext(f.name) == ".json" {
			continue
		}
		if err := t.remove(f.name); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// How often Run looks. A day's compaction is a matter of minutes, and each look costs next to nothing.
const (
	maintainEvery = 5 * time.Second
	sweepEvery    = 5 * time.Minute
)

// Run compacts, expires, retains and sweeps until ctx ends. It works at most half of the time, so that commits
// and readers have the machine for the other half. One process of those that share a directory should run it;
// more do no harm.
func (l *Lake) Run(ctx context.Context) error {
	rest := maintainEvery
	next := l.o.Now().Add(time.Minute)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(rest):
		}
		rest = maintainEvery
		begun := l.o.Now()
		more, err := l.compact(ctx, &Pace{Rests: 1})
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
			l.counters.troubles.Add(1)
			l.o.Log.Error("upkeep of the lake", "error", err)
			rest = time.Minute
		case more:
			rest = 0 // the pace has rested already
		}
	}
}
