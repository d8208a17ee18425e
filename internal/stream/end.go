package stream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"sluice/internal/engine"
)

// The stream saves the highest sequence number of each partition outside the partition, at most a second late. If the
// engine later says that the partition ends earlier, it has lost frames, and nothing else shows that.

func endKey(p uint8) string { return "high." + strconv.Itoa(int(p)) }

// openEnds reads how far the partitions were known to reach.
func (s *Stream) openEnds(ctx context.Context) error {
	kv, err := s.e.Bucket(ctx, engine.StreamEnds)
	if err != nil {
		return err
	}
	s.ends = kv
	for _, w := range s.writers {
		kve, err := kv.Get(ctx, endKey(w.part))
		if errors.Is(err, engine.ErrNotFound) {
			continue
		}
		if err != nil {
			return fmt.Errorf("end of partition %d: %w", w.part, err)
		}
		seq, err := strconv.ParseUint(string(kve.Value), 10, 64)
		if err != nil {
			s.o.Log.Warn("stream end cannot be read", "partition", w.part)
			continue
		}
		w.raise(seq)
		w.saved = seq
	}
	return nil
}

// saveEnds saves how far the partitions reach. It gives up when the engine becomes unwell: the watcher has other things
// to do then.
func (s *Stream) saveEnds(ctx context.Context, unwell <-chan struct{}) {
	if phase := s.status.Load().Phase; phase == Starting || phase == Probing {
		return
	}
	if !slices.ContainsFunc(s.writers, func(w *writer) bool { return w.high.Load() != w.saved }) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	go func() {
		select {
		case <-unwell:
			cancel()
		case <-ctx.Done():
		}
	}()
	for _, w := range s.writers {
		high := w.high.Load()
		if high == w.saved {
			continue
		}
		if err := s.raiseEnd(ctx, w.part, high); err != nil {
			s.o.Log.Warn("stream end not saved", "partition", w.part, "error", err)
			return
		}
		w.saved = high
	}
}

// raiseEnd saves an end, unless another node has saved a higher one.
func (s *Stream) raiseEnd(ctx context.Context, partition uint8, high uint64) error {
	return s.ends.Change(ctx, endKey(partition), func(before []byte) ([]byte, error) {
		if there, err := strconv.ParseUint(string(before), 10, 64); err == nil && there >= high {
			return nil, nil
		}
		return strconv.AppendUint(nil, high, 10), nil
	})
}
