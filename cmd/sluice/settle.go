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

// settleWithin is how long a command waits for a running server that loads nothing: the server promises that an event is
// in the table after ten seconds.
const settleWithin = 15 * time.Second

// errNotSettled means that the tables lack events that were acknowledged before the command began.
var errNotSettled = fmt.Errorf("the server has loaded nothing for %v and has not loaded all it acknowledged", settleWithin)

// openSettled opens the lake of --data once everything acknowledged up to now is in it. A running server does
// the loading and is waited for; without one this process loads what the stream still holds. It also says how
// long the stream keeps copies. When the server does not get there, the error is errNotSettled. counts asks for rejections
// and hours, too, which are committed less often.
func openSettled(cmd *cobra.Command, counts bool) (_ *lake.Lake, copies time.Duration, err error) {
	ctx := cmd.Context()
	dir, _ := cmd.Flags().GetString("data")
	if err := dataExists(cmd); err != nil {
		return nil, 0, err
	}
	place, err := placeOfLake(cmd)
	if err != nil {
		return nil, 0, err
	}
	e, err := openEngine(cmd)
	if err != nil {
		return nil, 0, err
	}
	defer e.Close()
	if err := rightTables(ctx, e, place); err != nil {
		return nil, 0, err
	}
	s, err := stream.Open(ctx, e, stream.Options{Now: time.Now})
	if err != nil {
		return nil, 0, err
	}
	defer s.Close()
	l, err := lakeOf(ctx, place, s.ID())
	if err != nil {
		return nil, 0, err
	}
	if err := loader.Bind(ctx, s, l, slog.New(slog.DiscardHandler)); err != nil {
		return nil, 0, err
	}
	var work func(context.Context) error
	if e.Mode() == engine.Embedded { // nobody else is here
		ids, _, err := openSecret(ctx, e)
		if err != nil {
			return nil, 0, err
		}
		tombstones, err := erasure.Open(ctx, e)
		if err != nil {
			return nil, 0, err
		}
		if err := reapplyErasures(ctx, tombstones, l); err != nil {
			return nil, 0, err
		}
		one, err := loader.New(loader.Options{
			Stream: s, Lake: l, IDs: ids, Erasures: tombstones, Quarantine: filepath.Join(dir, "quarantine"), Now: time.Now, Age: time.Millisecond,
		})
		if err != nil {
			return nil, 0, err
		}
		work = one.Run
	}
	if copies, err = s.Retention(ctx); err != nil {
		return nil, 0, err
	}
	var flush func(context.Context)
	if counts && work == nil {
		flush = func(ctx context.Context) {
			ctx, cancel := context.WithTimeout(ctx, 2*time.Second) // a bucket may be slow; settle asks again
			defer cancel()
			e.Announce(ctx, flushTopic)
		}
	}
	err = settle(ctx, s, l, work, flush)
	if errors.Is(err, lake.ErrOtherStream) || errors.Is(err, lake.ErrNoWatermark) {
		err = fmt.Errorf("%w: %w", errNotSettled, err)
	}
	return l, copies, err
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
// waited for. work, if not nil, does the loading, and commits the counts when it ends. flush, if not nil, asks the loader
// elsewhere for the counts, and settle waits for them, too. Without progress of any partition for settleWithin it returns
// errNotSettled.
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
		for p, goal := range goals {
			marks, err := l.Watermarks(ctx, p)
			if err != nil {
				return err
			}
			if sum := marks.Events + marks.Least(); sum > reached[p] {
				reached[p], progress = sum, time.Now()
			}
			switch {
			case marks.Events < goal:
			case flush == nil || marks.Least() >= goal:
				delete(goals, p)
			default:
				flush(ctx)
			}
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
