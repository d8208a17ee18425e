// Package deletion deletes from the tables what tombstones name: rows with erased identifiers, and everything of
// deleted datasets.
package deletion

import (
	"context"
	"errors"
	"slices"
	"time"

	"sluice/internal/dataset"
	"sluice/internal/erasure"
	"sluice/internal/lake"
)

// Done is what was deleted.
type Done struct {
	lake.Erased       // from events
	Counts      int64 // rows of the tables that count
	Tombstones  int   // that are finished
}

// Apply deletes what tombstones say was erased, where that is not done: a crash interrupted it, or an old version of
// the tables was put back. Those that began after since are left to the command that works on them. settle returns when
// the tables have all that the stream held when it was called: another process may commit what it has read before a
// tombstone was written. It is nil if there is no other process.
func Apply(
	ctx context.Context, t *erasure.Tombstones, l *lake.Lake, since time.Time, settle func(context.Context) error,
) (done Done, err error) {
	isDue := func(s *erasure.Tombstone) bool { return s.Due(since) }
	all, err := t.All(ctx)
	if err != nil || !slices.ContainsFunc(all, func(s erasure.Tombstone) bool { return isDue(&s) }) {
		return done, err
	}
	if settle != nil {
		if err := settle(ctx); err != nil {
			return done, err
		}
	}
	err = t.Pass(ctx, l.ErasedMark, func(ctx context.Context, w *erasure.Writer) (err error) {
		if w.Pending() {
			isDue = (*erasure.Tombstone).Unfinished
		}
		done, err = Finish(ctx, t, l, w, isDue)
		return err
	})
	return done, err
}

// Witness is the erasure.Writer of a pass, or one that is told of the rows beside it.
type Witness interface {
	lake.Witness
	Pending() bool
	Everything()
}

// Finish deletes what some tombstones name, inside of a pass: of all that are not finished, if the log of erased events
// says so. A file that cannot be read leaves them unfinished.
func Finish(
	ctx context.Context, t *erasure.Tombstones, l *lake.Lake, w Witness, choose func(*erasure.Tombstone) bool,
) (done Done, err error) {
	all, err := t.All(ctx)
	if err != nil {
		return done, err
	}
	if w.Pending() {
		w.Everything()
	}
	some := slices.DeleteFunc(all, func(s erasure.Tombstone) bool { return !choose(&s) })
	set := t.Set(some)
	done.Erased, err = l.Erase(ctx, lake.Choice{Kinds: set.Kinds(), Match: set.Erased}, w)
	if err != nil && !errors.Is(err, lake.ErrDamaged) {
		return done, err
	}
	if set.Datasets() {
		counts, countErr := l.EraseCounts(ctx, set.Deleted)
		done.Counts, done.Replaced, done.Files = counts.Rows, done.Replaced+counts.Replaced, done.Files+counts.Files
		err = errors.Join(err, countErr)
	}
	if err != nil {
		return done, err
	}
	for _, s := range some {
		if err := t.Finish(ctx, s, l.EventsUpdated()); err != nil {
			return done, err
		}
		done.Tombstones++
	}
	return done, nil
}

// Dataset ends a dataset: first its keys, then its rows in the stream, by a tombstone. Apply deletes those in the
// tables. A crash in between leaves a dataset without keys: Mend goes on.
func Dataset(ctx context.Context, reg *dataset.Registry, t *erasure.Tombstones, id string) (dataset.Deletion, error) {
	d, err := reg.Delete(ctx, id, nil)
	if err != nil {
		return d, err
	}
	return d, t.AddDataset(ctx, id, d.At, d.Free)
}

// Mend makes registry and tombstones agree about deleted datasets: after a crash, and where tombstones of a newer
// backup are in an older registry.
func Mend(ctx context.Context, reg *dataset.Registry, t *erasure.Tombstones, now time.Time) error {
	all, err := t.All(ctx)
	if err != nil {
		return err
	}
	deleted, err := reg.Deleted(ctx)
	if err != nil {
		return err
	}
	for _, s := range all {
		if !s.Whole || deleted[s.Dataset].Free.After(s.Before) {
			continue
		}
		d, err := reg.Read(ctx, s.Dataset)
		// One of the same id can only be made later. Where there is none, a new one would lose what is received until then.
		if errors.Is(err, dataset.ErrNotFound) || err == nil && d.Created.Before(s.Before) {
			_, err = reg.Delete(ctx, s.Dataset, &dataset.Deletion{At: s.Began, Free: s.Before.Add(time.Second)})
		}
		if err != nil {
			return err
		}
	}
	for id, d := range deleted {
		known := slices.ContainsFunc(all, func(s erasure.Tombstone) bool {
			return s.Whole && s.Dataset == id && !s.Began.Before(d.At)
		})
		if known || now.After(d.At.Add(erasure.LeastAge)) { // then it may have been forgotten
			continue
		}
		if err := t.AddDataset(ctx, id, d.At, d.Free); err != nil {
			return err
		}
	}
	return nil
}
