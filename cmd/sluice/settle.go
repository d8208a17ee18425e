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

	"sluice/cmd/sluice/internal/service"
	"sluice/cmd/sluice/internal/tables"
	"sluice/internal/audit"
	"sluice/internal/deletion"
	"sluice/internal/engine"
	"sluice/internal/erasure"
	"sluice/internal/lake"
	"sluice/internal/loader"
	"sluice/internal/stream"
)

// errNotSettled means that the tables lack events that were acknowledged before the command began.
var errNotSettled = loader.ErrNotLoaded

// openSettled opens the lake of --data once everything acknowledged up to now is in it. A running server does the
// loading, is asked to do it now and waited for; without one this process loads what the stream still holds. When the
// server does not get there, the error is errNotSettled. counts asks for rejections and hours, too. open is lakeToRead
// for a command that writes nothing itself, else lakeOf.
func openSettled(cmd *cobra.Command, counts bool, open lakeOpener) (l *lake.Lake, err error) {
	ctx := cmd.Context()
	err = withStream(cmd, func(e *engine.Engine, s *stream.Stream) error {
		place, err := commandTables(cmd, e)
		if err != nil {
			return err
		}
		if e.Mode() == engine.Embedded { // nobody else is here
			l, err = loadHere(ctx, e, s, flagText(cmd, "data"), place)
			return err
		}
		if l, err = open(ctx, place, s.ID()); err != nil {
			return err
		}
		return service.AwaitLoaded(ctx, e, s, l, counts)
	})
	if errors.Is(err, lake.ErrOtherStream) || errors.Is(err, lake.ErrNoWatermark) {
		err = fmt.Errorf("%w: %w", errNotSettled, err)
	}
	return l, err
}

// loadHere opens the lake and loads into it what the stream of this directory holds.
func loadHere(ctx context.Context, e *engine.Engine, s *stream.Stream, dir string, place tables.Location) (*lake.Lake,
	error,
) {
	if err := tables.Kept(ctx, e, s, place); err != nil {
		return nil, err
	}
	l, err := lakeOf(ctx, place, s.ID())
	if err != nil {
		return nil, err
	}
	if err := loader.Bind(ctx, s, l, slog.New(slog.DiscardHandler)); err != nil {
		return nil, err
	}
	if err := tables.Keep(ctx, e, dir, place); err != nil {
		return nil, err
	}
	_, ids, err := service.OpenSecret(ctx, e)
	if err != nil {
		return nil, err
	}
	tombstones, err := erasure.Open(ctx, e)
	if err != nil {
		return nil, err
	}
	if err := reapplyErasures(ctx, e, tombstones, l); err != nil {
		return nil, err
	}
	one, err := loader.New(loader.Options{
		Stream: s, Lake: l, IDs: ids, Erasures: tombstones, Quarantine: filepath.Join(dir, "quarantine"),
		Now: time.Now, Age: time.Millisecond,
	})
	if err != nil {
		return nil, err
	}
	return l, loader.Await(ctx, s, l, one.Run, nil, false)
}

// reapplyErasures deletes what an old version of the tables brought back, and what a killed erasure has left.
func reapplyErasures(ctx context.Context, e *engine.Engine, t *erasure.Tombstones, l *lake.Lake) error {
	if err := t.Reopen(ctx, l.EventsUpdated()); err != nil {
		return err
	}
	done, err := deletion.Apply(ctx, t, l, hooks.now().Add(-service.ErasureTime), nil)
	log, auditErr := audit.Open(ctx, e)
	if auditErr == nil {
		auditErr = service.NoteErased(ctx, log, actor(), hooks.now(), done)
	}
	return errors.Join(err, auditErr)
}

// dataExists tells a mistyped directory from one without events: an erasure, or a backup, would seem done.
func dataExists(cmd *cobra.Command) error {
	o := engineOptions(cmd)
	if o.URL != "" || engine.Exists(o.Dir) {
		return nil
	}
	what := "service in the"
	if _, err := os.Stat(o.Dir); errors.Is(err, fs.ErrNotExist) {
		what = "data"
	}
	return fmt.Errorf("there is no %s directory %s: name the server's with --data or SLUICE_DATA", what, o.Dir)
}
