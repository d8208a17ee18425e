package stream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"sluice/internal/engine"
)

// How far each partition reaches is noted outside the partition, a second late at most. If the engine later says that
// it ends earlier, frames were lost that nothing else would tell of.

func markKey(p uint8) string { return "high." + strconv.Itoa(int(p)) }

// openMarks reads how far the partitions were known to reach.
func (s *Stream) openMarks(ctx context.Context) error {
	kv, err := s.e.Bucket(ctx, engine.StreamEnds)
	if err != nil {
		return err
	}
	s.marks = kv
	for _, l := range s.lanes {
		kve, err := kv.Get(ctx, markKey(l.part))
		if errors.Is(err, engine.ErrNotFound) {
			continue
		}
		if err != nil {
			return fmt.Errorf("end of partition %d: %w", l.part, err)
		}
		seq, err := strconv.ParseUint(string(kve.Value), 10, 64)
		if err != nil {
			s.o.Log.Warn("stream end cannot be read", "partition", l.part)
			continue
		}
		l.raise(seq)
		l.marked = seq
	}
	return nil
}

// mark notes how far the partitions reach.
func (s *Stream) mark(ctx context.Context) {
	if s.down.Load() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	for _, l := range s.lanes {
		high := l.high.Load()
		if high == l.marked {
			continue
		}
		if _, err := s.marks.Put(ctx, markKey(l.part), strconv.AppendUint(nil, high, 10)); err != nil {
			s.o.Log.Warn("stream end not noted", "partition", l.part, "error", err)
			return
		}
		l.marked = high
	}
}
