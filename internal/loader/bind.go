package loader

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"sluice/internal/lake"
	"sluice/internal/stream"
)

// Bind makes sure that a stream and the tables continue each other, before anything is written to the stream. The lake
// was opened for the stream.
//
// Tables that belong to the stream tell it how far they are: a stream that came back without its newest frames must not
// give their numbers out again. Others, and those without watermarks, are adopted if the stream is empty. Else Bind
// returns nil, and the loader does not load: see Stopped.
//
// Order of an adoption: the stream gives up the numbers that the tables have used, then the tables take its name. A
// crash in between leaves an empty stream, and the next call does the rest. Numbers go on, so a submission id and a
// cursor of the feed never mean two things.
func Bind(ctx context.Context, s *stream.Stream, l *lake.Lake, log *slog.Logger) error {
	for p := range s.Partitions() {
		marks, err := l.Watermarks(ctx, uint8(p))
		if stopped(err) && !gone(err) {
			return adopt(ctx, s, l, log)
		}
		if err != nil {
			return err
		}
		bounds, err := s.Bounds(ctx)
		if err != nil {
			return err
		}
		most := max(marks.Events, marks.Rejections, marks.Hours)
		if isEmpty(bounds) && bounds[p].Last < most { // everything up to there is in the tables
			if err := s.Advance(ctx, uint8(p), most); err != nil {
				return fmt.Errorf("advance partition %d: %w", p, err)
			}
			log.Info("the stream is empty and goes on after what the tables hold", "partition", p, "sequence", most)
		} else {
			tellBehind(log, p, bounds[p].Last, marks)
		}
		s.Resume(uint8(p), marks.Events)
	}
	return nil
}

// tellBehind says what is missing if a stream came back older than the tables. It says so once: when the stream is
// written to, its numbers go on after those of the tables.
func tellBehind(log *slog.Logger, partition int, last uint64, marks lake.Watermarks) {
	if last >= marks.Events {
		return
	}
	log.Warn("the stream ends before the tables do, as after the restore of an older backup. "+
		"All events up to where the tables end are stored; the stream goes on after them",
		"partition", partition, "stream", last, "tables", marks.Events)
	if counted := max(last, min(marks.Rejections, marks.Hours)); counted < marks.Events {
		log.Warn("the tables rejections and hours lack the counts of frames that the stream no longer has; "+
			"their events are stored",
			"partition", partition, "first", counted+1, "last", marks.Events)
	}
}

// adopt lets the tables continue an empty stream.
func adopt(ctx context.Context, s *stream.Stream, l *lake.Lake, log *slog.Logger) error {
	bounds, err := s.Bounds(ctx)
	if err != nil || !isEmpty(bounds) {
		return err
	}
	reached, err := l.Reached(ctx)
	if err != nil {
		return err
	}
	marks := map[uint8]uint64{}
	for p, b := range bounds {
		marks[uint8(p)] = max(reached[uint8(p)], b.Last)
		if err := s.Advance(ctx, uint8(p), marks[uint8(p)]); err != nil {
			return fmt.Errorf("advance partition %d: %w", p, err)
		}
	}
	// Another node may have been faster, and have records by now. Then the tables have its stream's name, and stay.
	adopted, err := l.Adopt(ctx, marks)
	if err != nil {
		return err
	}
	if adopted {
		log.Info("the tables were loaded from an earlier stream; they go on with this one, which is empty", "stream", s.ID())
	}
	for p := range bounds {
		s.Resume(uint8(p), marks[uint8(p)])
	}
	return nil
}

func isEmpty(bounds []stream.Bounds) bool {
	return !slices.ContainsFunc(bounds, func(b stream.Bounds) bool { return b.First <= b.Last })
}

// stopped says whether an error means that nothing may be loaded until an operator has decided.
func stopped(err error) bool {
	return errors.Is(err, lake.ErrOtherStream) || errors.Is(err, lake.ErrNoWatermark) || gone(err)
}

// gone says whether an error means that somebody has removed the tables while they were open, or put others in their
// place.
func gone(err error) bool {
	return errors.Is(err, lake.ErrNoTable) || errors.Is(err, lake.ErrOtherTable)
}

// remedy says what to do about an error that stops loading.
func remedy(err error) string {
	if gone(err) {
		return "Somebody has removed the tables while this server was running, or has put others in their place. " +
			"Events are accepted and wait in the stream. " +
			"Put the tables back, from a backup or the versions of the bucket, and loading goes on by itself. " +
			"Without a copy of them restart the server: it makes new tables and loads what the stream holds; " +
			"in a cluster run sluice lake reload first"
	}
	if errors.Is(err, lake.ErrNoWatermark) {
		return "Another program has removed it. Nothing is lost: events wait in the stream. " +
			"Roll the table back to a snapshot of Sluice's, or say what of the stream is in the tables with: " +
			"sluice lake adopt --from WATERMARKS"
	}
	return "Nothing is lost: events wait in the stream. " +
		"Start with the --data or --nats of the stream that the tables belong to, or with --lake and an empty place, " +
		"or say that nothing of this stream is in the tables with: sluice lake adopt --from oldest"
}
