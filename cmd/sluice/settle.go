package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"sluice/internal/engine"
	"sluice/internal/erasure"
	"sluice/internal/lake"
	"sluice/internal/loader"
	"sluice/internal/stream"
)

// settleWithin is how long a command waits for a running server that loads nothing: the server promises that an event
// is in the table after ten seconds.
const settleWithin = 15 * time.Second

// errNotSettled means that the tables lack events that were acknowledged before the command began.
var errNotSettled = fmt.Errorf("the server has loaded nothing for %v and has not loaded all it acknowledged", settleWithin)

// openSettled opens the lake of --data once everything acknowledged up to now is in it. A running server does the
// loading and is waited for; without one this process loads what the stream still holds. It also says how long the
// stream keeps copies. When the server does not get there, the error is errNotSettled. counts asks for rejections and
// hours, too, which are committed less often. open is lakeToRead for a command that writes nothing itself, else lakeOf.
func openSettled(
	cmd *cobra.Command, counts bool, open func(context.Context, lakePlace, string) (*lake.Lake, error),
) (l *lake.Lake, copies time.Duration, err error) {
	ctx := cmd.Context()
	if err := dataExists(cmd); err != nil {
		return nil, 0, err
	}
	e, err := openEngine(cmd)
	if err != nil {
		return nil, 0, err
	}
	defer e.Close()
	place, err := commandTables(cmd, e)
	if err != nil {
		return nil, 0, err
	}
	s, err := stream.Open(ctx, e, stream.Options{Now: time.Now})
	if err != nil {
		return nil, 0, err
	}
	defer s.Close()
	if copies, err = s.Retention(ctx); err != nil {
		return nil, 0, err
	}
	if e.Mode() == engine.Embedded { // nobody else is here
		dir, _ := cmd.Flags().GetString("data")
		l, err = loadHere(ctx, e, s, dir, place)
	} else if l, err = open(ctx, place, s.ID()); err == nil {
		err = awaitServer(ctx, e, s, l, counts)
	}
	if errors.Is(err, lake.ErrOtherStream) || errors.Is(err, lake.ErrNoWatermark) {
		err = fmt.Errorf("%w: %w", errNotSettled, err)
	}
	return l, copies, err
}

// loadHere opens the lake and loads into it what the stream of this directory holds.
func loadHere(ctx context.Context, e *engine.Engine, s *stream.Stream, dir string, place lakePlace) (*lake.Lake, error) {
	if err := tablesKept(ctx, e, s, place); err != nil {
		return nil, err
	}
	l, err := lakeOf(ctx, place, s.ID())
	if err != nil {
		return nil, err
	}
	if err := loader.Bind(ctx, s, l, slog.New(slog.DiscardHandler)); err != nil {
		return nil, err
	}
	if err := keepPlace(ctx, e, dir, place); err != nil {
		return nil, err
	}
	ids, _, err := openSecret(ctx, e)
	if err != nil {
		return nil, err
	}
	tombstones, err := erasure.Open(ctx, e)
	if err != nil {
		return nil, err
	}
	if err := reapplyErasures(ctx, tombstones, l); err != nil {
		return nil, err
	}
	one, err := loader.New(loader.Options{
		Stream: s, Lake: l, IDs: ids, Erasures: tombstones, Quarantine: filepath.Join(dir, "quarantine"),
		Now: time.Now, Age: time.Millisecond,
	})
	if err != nil {
		return nil, err
	}
	return l, settle(ctx, s, l, one.Run, nil)
}

// awaitServer waits until the server has loaded everything. With counts it asks for them, too.
func awaitServer(ctx context.Context, e *engine.Engine, s *stream.Stream, l *lake.Lake, counts bool) error {
	if !counts {
		return settle(ctx, s, l, nil, nil)
	}
	return settle(ctx, s, l, nil, func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second) // a bucket may be slow; settle asks again
		defer cancel()
		e.Announce(ctx, flushTopic)
	})
}

// reapplyErasures deletes what an old version of the tables brought back.
func reapplyErasures(ctx context.Context, t *erasure.Tombstones, l *lake.Lake) error {
	if err := t.Reopen(ctx, l.EventsUpdated()); err != nil {
		return err
	}
	_, err := applyErasures(ctx, t, l, hooks.now().Add(-erasureTime))
	return err
}

// dataExists tells a mistyped directory from one without events: an erasure would seem done.
func dataExists(cmd *cobra.Command) error {
	dir, _ := cmd.Flags().GetString("data")
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) && engineOptions(cmd).URL == "" {
		return fmt.Errorf("there is no data directory %s: name the server's with --data or SLUICE_DATA", dir)
	}
	return nil
}

// watermarks is the lake, as far as settle knows it.
type watermarks interface {
	Watermarks(ctx context.Context, partition uint8) (lake.Watermarks, error)
}

// ends is the stream, as far as settle knows it.
type ends interface {
	Partitions() int
	Last(ctx context.Context, partition uint8) (uint64, error)
}

// settle returns when the lake has everything that the stream held when it was called: what comes after that is not
// waited for. work, if not nil, does the loading, and commits the counts when it ends. flush, if not nil, asks the
// loader elsewhere for the counts, and settle waits for them, too. Without progress of any partition for settleWithin
// it returns errNotSettled.
func settle(ctx context.Context, s ends, l watermarks, work func(context.Context) error, flush func(context.Context)) error {
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
	for {
		moved, err := look(ctx, l, goals, reached, flush)
		if err != nil {
			return err
		}
		if moved {
			progress = time.Now()
		}
		switch {
		case len(goals) == 0:
			return nil
		case work == nil && time.Since(progress) > settleWithin:
			return errNotSettled
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
	ctx context.Context, l watermarks, goals, reached map[uint8]uint64, flush func(context.Context),
) (moved bool, err error) {
	for p, goal := range goals {
		marks, err := l.Watermarks(ctx, p)
		if err != nil {
			return moved, err
		}
		if sum := marks.Events + marks.Least(); sum > reached[p] {
			reached[p], moved = sum, true
		}
		switch {
		case marks.Events < goal:
		case flush == nil || marks.Least() >= goal:
			delete(goals, p)
		default:
			flush(ctx)
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
