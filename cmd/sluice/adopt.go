package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"sluice/internal/engine"
	"sluice/internal/lake"
	"sluice/internal/stream"
)

func newLakeAdopt() *cobra.Command {
	var from string
	cmd := &cobra.Command{
		Use:   "adopt --from POSITION",
		Short: "Let tables of another stream, or without watermarks, go on with this stream",
		Long: `The tables note which stream they are loaded from, and up to where. Where that note names another stream, or
another program has removed it, the server accepts events and loads nothing: it cannot know which events are
in the tables. This command tells it. POSITION is one of:

  oldest      nothing that the stream holds is in the tables: load all of it
  newest      everything that the stream holds now is in the tables: load what comes later
  0:17,1:4    partition 0 is in the tables up to sequence number 17, partition 1 up to 4; sluice.watermark in
              the summary of an older snapshot has this form

A wrong answer stores events twice, or not at all. It changes nothing where the tables belong to the stream. A
running server goes on within seconds.`,
		Example: `  sluice lake adopt --from oldest`,
		Args:    cobra.NoArgs,
	}
	cmd.Flags().StringVar(&from, "from", "",
		"up to where the stream is in the tables: oldest, newest, or watermarks such as 0:17,1:4")
	_ = cmd.MarkFlagRequired("from")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return failed(withStream(cmd, func(e *engine.Engine, s *stream.Stream) error { return adoptLake(cmd, e, s, from) }))
	}
	return cmd
}

func adoptLake(cmd *cobra.Command, e *engine.Engine, s *stream.Stream, from string) error {
	ctx := cmd.Context()
	place, err := commandTables(cmd, e)
	if err != nil {
		return err
	}
	bounds, err := s.Bounds(ctx)
	if err != nil {
		return err
	}
	marks, err := positionOf(from, bounds)
	if err != nil {
		return err
	}
	l, err := lakeOf(ctx, place, s.ID())
	if err != nil {
		return err
	}
	adopted, err := l.Adopt(ctx, marks)
	if err != nil {
		return err
	}
	if !adopted {
		fmt.Fprintln(cmd.ErrOrStderr(), "The tables belong to this stream already. Nothing was changed.")
		return nil
	}
	if err := noteIn(cmd, e, "lake adopt", place.String(), map[string]string{"from": from}); err != nil {
		return err
	}
	fmt.Fprintln(cmd.ErrOrStderr(), "The tables go on with this stream.")
	return nil
}

// positionOf is the watermarks that --from names.
func positionOf(from string, bounds []stream.Bounds) (map[uint8]uint64, error) {
	marks := map[uint8]uint64{}
	for p, b := range bounds {
		switch from {
		case "oldest":
			marks[uint8(p)] = b.First - 1
		case "newest":
			marks[uint8(p)] = b.Last
		}
	}
	if len(marks) > 0 {
		return marks, nil
	}
	marks, err := lake.ParseWatermarks(from)
	if err != nil {
		return nil, fmt.Errorf("--from is oldest, newest, or watermarks: %w", err)
	}
	for p, mark := range marks {
		if int(p) >= len(bounds) || mark > bounds[p].Last {
			return nil, errors.New("--from names a position that the stream has not reached")
		}
	}
	return marks, nil
}
