package stream

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"sluice/internal/engine"
)

// run sends groups until the lane is closed and empty. Several run at once.
func (l *lane) run() {
	for {
		g := l.take()
		if g == nil {
			return
		}
		l.commit(g)
		// The callers just answered often come straight back; letting them run first makes the next frame larger, which
		// saves a tenth of the processor time per record at 64 callers.
		runtime.Gosched()
		l.landed(g)
		l.release(g)
	}
}

// commit sends a group and answers its callers. One that expired in the queue is not sent: its callers were told that
// it failed, and sending it would only make duplicates of their retries.
func (l *lane) commit(g *group) {
	s := l.s
	if !g.send(s.e.Connection()) {
		return
	}
	sealFrame(g.buf, g.n)
	start := s.o.Now()
	seq, err := l.publish(g.ctx, "append", "", g.buf)
	if first := g.finish(seq, err); err != nil {
		if first {
			s.n.failed.Add(uint64(g.n))
		}
		return
	}
	s.n.committed(g.n, len(g.buf), s.o.Now().Sub(start))
}

// expire tells a group's callers that its time is up.
func (l *lane) expire(g *group) {
	l.mu.Lock()
	taken := l.open != g
	if !taken { // nobody came for it in all its time
		l.open = nil
	}
	l.mu.Unlock()
	if !g.finish(0, ErrTimeout) {
		return
	}
	l.s.n.failed.Add(uint64(g.n))
	if g.wasSent() && !l.pace.alive(l.s.o.Now(), l.s.o.AckTimeout) {
		l.s.fault(ErrTimeout)
	}
	if !taken {
		l.release(g)
	}
}

// release takes back what a group holds, once nobody writes from it any more.
func (l *lane) release(g *group) {
	l.s.queued.Add(-g.size)
	if buf := g.buf[:0]; cap(buf) <= 2<<20 { // one huge record is rare: its memory is not kept
		frames.Put(&buf)
	}
}

// publish sends one message and waits for it to be stored. An error that makes further writes doubtful takes the
// stream down until a probe has succeeded. The end of ctx is such a one only if ErrTimeout is its cause: else it is
// the caller who lost patience, and the engine is none the worse. Nor is it when it answers others: then it is slow.
//
// Steps: append.publish, append.stored; with a key once.publish, once.stored. A crash before the first leaves nothing,
// one at the second leaves a record whose sender has no answer, and between the two either may be.
func (l *lane) publish(ctx context.Context, what, key string, frame []byte) (uint64, error) {
	high := l.high.Load()
	seq, err := l.send(ctx, what, key, frame)
	switch {
	case err == nil:
	case errors.Is(err, ErrExists), errors.Is(err, ErrFull), errors.Is(err, errStep):
		return 0, err
	case ctx.Err() != nil && context.Cause(ctx) != ErrTimeout:
		l.s.n.abandoned.Add(1)
		return 0, ctx.Err()
	case ctx.Err() != nil && l.pace.alive(l.s.o.Now(), l.s.o.AckTimeout):
		return 0, ErrTimeout // the disk is slow; the engine goes on
	default:
		return 0, l.s.fault(err)
	}
	if seq <= high {
		// The engine came back without its newest frames and gives their numbers out again. A reader that is past
		// them would never see this record, so it must not count as stored.
		return 0, l.s.fault(fmt.Errorf("%w: it has lost its newest frames", ErrUnavailable))
	}
	l.raise(seq)
	l.s.space.wrote(len(frame))
	return seq, l.s.at(what, "stored")
}

// send sends one message, and learns how fast the engine is.
func (l *lane) send(ctx context.Context, what, key string, frame []byte) (uint64, error) {
	n, start := l.pace.enter(), l.s.o.Now()
	err := l.s.at(what, "publish")
	var seq uint64
	if err == nil {
		if key == "" {
			seq, err = l.log.Publish(ctx, frame)
		} else {
			seq, err = l.log.PublishNew(ctx, key, frame)
		}
		err = translate(err)
	}
	now := l.s.o.Now()
	switch {
	case err == nil, errors.Is(err, ErrExists), errors.Is(err, ErrFull):
		l.pace.answered(n, now, now.Sub(start))
	case context.Cause(ctx) == ErrTimeout:
		l.pace.late(n, now.Sub(start))
	default:
		l.pace.leave()
	}
	return seq, err
}

// errStep marks the error of a step.
var errStep = fmt.Errorf("%w: stopped at a step", ErrTimeout)

// at tells Options.Step where an append is.
func (s *Stream) at(what, step string) error {
	if s.o.Step == nil {
		return nil
	}
	if err := s.o.Step(what + "." + step); err != nil {
		return fmt.Errorf("%w: %w", errStep, err)
	}
	return nil
}

// raise notes that the stream reaches seq.
func (l *lane) raise(seq uint64) {
	for {
		high := l.high.Load()
		if seq <= high || l.high.CompareAndSwap(high, seq) {
			break
		}
	}
	l.grown.ring()
}

// translate turns the engine's error into one of ours.
func translate(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, engine.ErrExists):
		return ErrExists
	case errors.Is(err, engine.ErrFull):
		return ErrFull
	case errors.Is(err, engine.ErrTimeout):
		return ErrTimeout
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// fault takes the stream down and returns err.
func (s *Stream) fault(err error) error {
	if s.down.Swap(&err) == nil {
		s.o.Log.Error("stream takes no writes", "error", err)
	}
	s.e.Suspect()
	select {
	case s.alarm <- struct{}{}:
	default:
	}
	return err
}
