package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/engine"
	"sluice/internal/lake"
	"sluice/internal/loader"
	"sluice/internal/stream"
)

// settleWithin is how long a command waits for a running server to load what it has acknowledged: the server
// promises ten seconds.
const settleWithin = 15 * time.Second

var errNotSettled = errors.New("not everything that was acknowledged is loaded")

// openSettled opens the lake of --data once everything acknowledged up to now is in it. A running server does
// the loading and is waited for; without one this process loads what the stream still holds. It also says how
// long the stream keeps copies. When the server does not get there in time, the error is errNotSettled and the
// lake is there all the same. counts asks for rejections and hours, too, which are committed less often.
func openSettled(cmd *cobra.Command, counts bool) (_ *lake.Lake, copies time.Duration, err error) {
	ctx := cmd.Context()
	dir, _ := cmd.Flags().GetString("data")
	// A mistyped directory must not look like one without events: an erasure would seem done.
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil, 0, fmt.Errorf("there is no data directory %s: name the server's with --data or SLUICE_DATA", dir)
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
		one, err := loader.New(loader.Options{Stream: s, Lake: l, IDs: ids, Quarantine: filepath.Join(dir, "quarantine"), Now: time.Now, Age: time.Millisecond})
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
		flush = func(ctx context.Context) { e.Announce(ctx, flushTopic) }
	}
	err = settle(ctx, s, l, work, flush)
	if errors.Is(err, lake.ErrOtherStream) || errors.Is(err, lake.ErrNoWatermark) {
		return l, copies, fmt.Errorf("%w: %w", errNotSettled, err)
	}
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return l, copies, errNotSettled
	}
	return l, copies, err
}

// settle returns when the lake has everything that the stream holds now. work, if not nil, does the loading and
// has no limit of time: it makes progress by itself, and commits counts when it ends. flush, if not nil, asks the loader
// elsewhere for them; then settle waits for them, too.
func settle(ctx context.Context, s *stream.Stream, l *lake.Lake, work func(context.Context) error, flush func(context.Context)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stopped := make(chan error, 1)
	if work == nil {
		ctx, cancel = context.WithTimeout(ctx, settleWithin)
		defer cancel()
	} else {
		go func() { stopped <- work(ctx) }()
		defer func() { cancel(); <-stopped }()
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for p := range s.Partitions() {
		last, err := s.Last(ctx, uint8(p))
		if err != nil {
			return err
		}
		for {
			marks, err := l.Watermarks(ctx, uint8(p))
			if err != nil {
				return err
			}
			if marks.Events >= last && (flush == nil || marks.Least() >= last) {
				break
			}
			if flush != nil && marks.Events >= last {
				flush(ctx)
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	return nil
}
