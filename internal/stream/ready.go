package stream

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// Ready returns nil when a record would be taken now, and else why not. It asks nobody and returns at once.
func (s *Stream) Ready() error {
	select {
	case <-s.started:
	default:
		return fmt.Errorf("%w: not running", ErrUnavailable)
	}
	if err := s.refusal(); err != nil {
		return err
	}
	if s.queued.Load() >= s.o.MaxQueue {
		return ErrOverloaded
	}
	if err := s.e.Health(); err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return nil
}

// refusal returns why no record is taken, as far as one look at a few flags can tell.
func (s *Stream) refusal() error {
	if s.stopped.Load() {
		return ErrClosed
	}
	if err := s.down.Load(); err != nil {
		return ErrUnavailable
	}
	if s.space.short.Load() {
		return ErrNoSpace
	}
	return nil
}

// watch looks at the disk every second, and when a write went wrong probes the engine until it takes writes again.
func (s *Stream) watch(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	short := false
	for {
		if err := s.space.look(); err != nil && !short {
			s.o.Log.Error("stream cannot see the disk", "err", err)
		}
		if now := s.space.short.Load(); now != short {
			short = now
			s.o.Log.Warn("stream disk headroom", "short", short, "free_bytes", s.space.free.Load())
		}
		s.revive(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-s.alarm:
		case <-s.e.Changed():
		}
	}
}

// revive probes every partition and opens the stream again when all of them took the probe.
func (s *Stream) revive(ctx context.Context) {
	cause := s.down.Load()
	if cause == nil || ctx.Err() != nil || s.e.Health() != nil || s.space.short.Load() {
		return
	}
	for _, l := range s.lanes {
		if err := l.fill(ctx); err != nil {
			return
		}
	}
	// A fault that came in since the probe began must stand.
	if s.down.CompareAndSwap(cause, nil) {
		s.n.revived.Add(1)
		s.o.Log.Info("stream takes writes again")
	}
}

// fill writes an empty frame, and more of them until the sequence numbers are past every one that was ever given out.
// They may have fallen back when the engine lost its newest block; readers are past those numbers and would not see
// what is stored under them a second time.
func (l *lane) fill(ctx context.Context) error {
	for {
		seq, err := l.probe(ctx)
		if err != nil {
			return err
		}
		high := l.high.Load()
		if seq >= high {
			l.raise(seq)
			return nil
		}
		l.s.o.Log.Warn("stream sequence fell back, filling up", "partition", l.part, "at", seq, "to", high)
		if err := l.fillTo(ctx, seq, high); err != nil {
			return err
		}
	}
}

// fillTo writes as many empty frames as lie between seq and high, many at a time: each costs a sync, but they queue.
func (l *lane) fillTo(ctx context.Context, seq, high uint64) error {
	const together = 32
	for seq < high {
		n := min(together, high-seq)
		errs := make([]error, n)
		var wg sync.WaitGroup
		for i := range errs {
			wg.Go(func() { _, errs[i] = l.probe(ctx) })
		}
		wg.Wait()
		for _, err := range errs {
			if err != nil {
				return err
			}
		}
		seq += n
	}
	return nil
}

// probe writes an empty frame.
func (l *lane) probe(ctx context.Context) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, l.s.o.AckTimeout)
	defer cancel()
	return request(ctx, l.s.nc, &nats.Msg{Subject: l.subject, Data: AppendFrame(nil)})
}

// Resume makes sure that the next record of a partition gets a sequence number above seq: the last one its reader has
// dealt with. The engine normally is past it; if it came back from a crash or from damage without its newest block, it
// would give numbers out again that the reader will never look at. Call it before Run.
func (s *Stream) Resume(ctx context.Context, partition uint8, seq uint64) error {
	l := s.lanes[partition]
	l.raise(seq)
	last, err := s.Last(ctx, partition)
	if err != nil {
		return err
	}
	if last >= seq {
		return nil
	}
	s.o.Log.Warn("stream ends before its reader, filling up", "partition", partition, "at", last, "to", seq)
	if err := l.fillTo(ctx, last, seq); err != nil {
		return fmt.Errorf("resume partition %d: %w", partition, err)
	}
	return nil
}
