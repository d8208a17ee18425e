package loader

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"sluice/internal/lake"
)

// awaitWithin is how long a command waits for a running server that loads nothing: the server promises that an event
// is in the table after ten seconds.
const awaitWithin = 15 * time.Second

// ErrNotLoaded means that the tables lack events that were acknowledged before somebody began to wait for them.
var ErrNotLoaded = fmt.Errorf("the server has loaded nothing for %v and has not loaded all it acknowledged",
	awaitWithin)

// watermarks is the lake, as far as Await knows it.
type watermarks interface {
	Watermarks(ctx context.Context, partition uint8) (lake.Watermarks, error)
}

// ends is the stream, as far as Await knows it.
type ends interface {
	Partitions() int
	Last(ctx context.Context, partition uint8) (uint64, error)
}

// flushEvery is how often a loader elsewhere is asked to commit what it has: each commit costs a file and requests, and
// what it had not read when it was asked needs another. Arbitrary.
const flushEvery = time.Second

// Await returns when the lake has everything that the stream held when it was called, with counts or without. Either
// work does the loading, and commits the counts when it ends, or flush asks the loader elsewhere to commit, whose next
// turn may be minutes away. Then without progress of any partition for awaitWithin it returns ErrNotLoaded.
func Await(ctx context.Context, s ends, l watermarks, work func(context.Context) error,
	flush func(context.Context), counts bool,
) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	goals, err := goals(ctx, s)
	if err != nil {
		return err
	}
	stopped := make(chan error, 1)
	if work != nil {
		go func() { stopped <- work(ctx) }()
		defer func() { cancel(); <-stopped }()
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	reached, progress := map[uint8]uint64{}, time.Now()
	var asked time.Time
	for {
		moved, err := look(ctx, l, goals, reached, counts)
		if err != nil {
			return err
		}
		if moved {
			progress = time.Now()
		}
		switch {
		case len(goals) == 0:
			return nil
		case work == nil && time.Since(progress) > awaitWithin:
			return ErrNotLoaded
		case work == nil && time.Since(asked) >= flushEvery:
			flush(ctx)
			asked = time.Now()
		}
		select {
		case <-tick.C:
		case err := <-stopped:
			stopped <- nil
			return fmt.Errorf("loading ended early: %w", cmp.Or(err, context.Canceled))
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// look removes the goals that are reached, and says whether any partition has moved on since the last look.
func look(
	ctx context.Context, l watermarks, goals, reached map[uint8]uint64, counts bool,
) (moved bool, err error) {
	for p, goal := range goals {
		marks, err := l.Watermarks(ctx, p)
		if err != nil {
			return moved, err
		}
		if sum := marks.Events + marks.Least(); sum > reached[p] {
			reached[p], moved = sum, true
		}
		if marks.Events >= goal && (!counts || marks.Least() >= goal) {
			delete(goals, p)
		}
	}
	return moved, nil
}

// goals are the ends of all partitions as they are now.
func goals(ctx context.Context, s ends) (map[uint8]uint64, error) {
	last := make([]uint64, s.Partitions())
	g, ctx := errgroup.WithContext(ctx)
	for p := range last {
		g.Go(func() (err error) { last[p], err = s.Last(ctx, uint8(p)); return err })
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	out := map[uint8]uint64{}
	for p, seq := range last {
		out[uint8(p)] = seq
	}
	return out, nil
}
