package stream

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Ready returns nil when a record would be taken now, and else why not. It asks nobody and returns at once.
func (s *Stream) Ready() error {
	select {
	case <-s.started:
	default:
		return fmt.Errorf("%w: not running", ErrUnavailable)
	}
	err := s.refusal()
	if err != nil && err != ErrUnavailable {
		return err
	}
	if sick := s.e.Health(); sick != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, sick)
	}
	if cause := s.down.Load(); cause != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, *cause)
	}
	if s.queued.Load() >= s.o.MaxQueue {
		return ErrOverloaded
	}
	return nil
}

// refusal returns why no record is taken, as far as one look at a few flags can tell.
func (s *Stream) refusal() error {
	if s.stopped.Load() {
		return ErrClosed
	}
	if s.space.short.Load() {
		return ErrNoSpace
	}
	if s.down.Load() != nil || s.e.Faulted() {
		return ErrUnavailable
	}
	return nil
}

// watch looks at the disk and notes how far the stream reaches every second, and when a write went wrong probes the
// engine until it takes writes again.
func (s *Stream) watch(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	short := false
	for {
		changed := s.e.Changed()
		if err := s.space.look(); err != nil && !short {
			s.o.Log.Error("stream cannot see the disk", "error", err)
		}
		if now := s.space.short.Load(); now != short {
			short = now
			s.o.Log.Warn("stream disk headroom", "short", short, "free_bytes", s.space.free.Load())
		}
		s.revive(ctx)
		s.mark(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-s.alarm:
		case <-changed:
			for _, l := range s.lanes {
				l.abort()
			}
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
		err := l.fill(ctx)
		if err == nil {
			err = l.probe(ctx)
		}
		if err != nil {
			s.o.Log.Debug("stream probe", "partition", l.part, "error", err)
			return
		}
	}
	// A fault that came in since the probe began must stand.
	if s.down.CompareAndSwap(cause, nil) && *cause != errStarting {
		s.n.revived.Add(1)
		s.o.Log.Info("stream takes writes again")
	}
}

// errStarting is the fault a stream begins with: that the engine takes writes has to be shown first.
var errStarting = errors.New("stream: starting")

// fill makes sure that the next sequence number is above every one that was ever given out. The engine's may have
// fallen back, because it drops the rest of a block behind a damaged byte without a word. Readers are past those
// numbers and would not see what is stored under them a second time, so a frame that tells of the loss takes each.
func (l *lane) fill(ctx context.Context) error {
	last, err := l.s.Last(ctx, l.part)
	high := l.high.Load()
	if err != nil || last >= high {
		return err
	}
	l.s.o.Log.Error("stream has lost its newest frames", "partition", l.part, "first", last+1, "last", high)
	const together = 32 // each costs a sync, but they queue
	for last < high {
		n := min(together, high-last)
		errs := make([]error, n)
		var wg sync.WaitGroup
		for i := range errs {
			wg.Go(func() { _, errs[i] = l.write(ctx, lostFrame()) })
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			return err
		}
		last += n
		l.s.n.lost.Add(n)
	}
	return nil
}

// probe writes an empty frame.
func (l *lane) probe(ctx context.Context) error {
	seq, err := l.write(ctx, AppendFrame(nil))
	if err == nil {
		l.raise(seq)
	}
	return err
}

// write stores a frame of our own making.
func (l *lane) write(ctx context.Context, frame []byte) (uint64, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, l.s.o.AckTimeout, ErrTimeout)
	defer cancel()
	return l.send(ctx, "probe", "", frame)
}

// Resume tells how far the reader of a partition has come, before Run. The engine normally is past that; if it came
// back from a crash or from damage without its newest frames, Run first takes the numbers they had, so that none is
// given out again to a record which the reader would then never see.
func (s *Stream) Resume(partition uint8, seq uint64) { s.lanes[partition].raise(seq) }
