package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"sluice/cmd/sluice/internal/tables"
	"sluice/internal/engine"
	"sluice/internal/stream"
)

func newLakeUse() *cobra.Command {
	var other bool
	cmd := &cobra.Command{
		Use: "use URL", Short: "Move to tables at another place, which are a copy", Args: cobra.ExactArgs(1),
		Long: `Records that the tables of the data directory --data are at URL from now on: server and commands use them
there, without --lake. The tables at URL must be a copy that "sluice lake copy" made, and the stream must
still hold what came after it. The server must be stopped. A bucket needs --s3-endpoint or --s3-region with
every command.

The tables stay where they were, too. Delete them there when you no longer need them: an erasure does not
reach them any more. The nodes of a cluster move with "sluice cluster set --tables".`,
		Example: `  sluice lake copy --to s3://my-bucket/sluice --s3-region eu-central-1
  sluice lake use s3://my-bucket/sluice --s3-region eu-central-1
  sluice lake use file:///mnt/lake`,
	}
	cmd.Flags().BoolVar(&other, "other", false, "also if the tables there are others, or if there are none")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		place, err := parsePlace(cmd, "the place", args[0])
		if err != nil {
			return err
		}
		return failed(useLake(cmd, place, other))
	}
	return cmd
}

func useLake(cmd *cobra.Command, place tables.Location, other bool) error {
	ctx, dir := cmd.Context(), engineOptions(cmd).Dir
	e, err := openService(cmd)
	if err != nil {
		return err
	}
	defer e.Close()
	switch e.Mode() {
	case engine.External:
		return errors.New("the tables of a cluster move with: sluice cluster set --tables")
	case engine.Attached:
		return fmt.Errorf("a server runs on %s and writes to the tables that it uses: stop it first", dir)
	}
	if !other {
		if err := isCopy(cmd, e, place); err != nil {
			return err
		}
	}
	if err := tables.Move(ctx, e, dir, place); err != nil {
		return err
	}
	if other { // where there are none
		if err := newTables(cmd, e, place); err != nil {
			return err
		}
	}
	if err := noteIn(cmd, e, "lake use", place.String(), nil); err != nil {
		return err
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "The tables of this service are at %s from now on. Start the server.\n", place)
	return nil
}

// isCopy says whether the tables at a place can go on for those of an engine: they are a copy, and the stream holds
// what came after it.
func isCopy(cmd *cobra.Command, e *engine.Engine, place tables.Location) error {
	ctx := cmd.Context()
	now, err := tables.Recorded(ctx, e, engineOptions(cmd).Dir, s3Flags(cmd))
	if err != nil {
		return err
	}
	own, _, err := tables.There(ctx, now)
	if err != nil {
		return fmt.Errorf("the tables at %s cannot be read, to compare them: %w; --other does without", now, err)
	}
	there, marks, err := tables.There(ctx, place)
	switch {
	case err != nil:
		return err
	case there == "":
		return fmt.Errorf("there are no tables at %s: copy them with sluice lake copy --to first", place)
	case there != own:
		return fmt.Errorf("the tables at %s are not a copy of those at %s: make one with sluice lake copy --to, at an empty "+
			"place; --other uses them as they are", place, now)
	}
	return onStream(cmd, e, func(s *stream.Stream) error { return streamHolds(ctx, s, place, marks) })
}

// streamHolds says whether the stream holds what tables with these watermarks lack.
func streamHolds(ctx context.Context, s *stream.Stream, place tables.Location, marks map[uint8]uint64) error {
	bounds, err := s.Bounds(ctx)
	if err != nil {
		return err
	}
	for p, b := range bounds {
		if marks[uint8(p)]+1 < b.First {
			return fmt.Errorf("the copy at %s is too old: the stream no longer holds what it lacks; run sluice lake copy "+
				"--to again", place)
		}
	}
	return nil
}
