package stream

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"sluice/internal/engine"
)

// run sends groups until the writer is closed and empty. Several run at once.
func (w *writer) run() {
	for {
		g := w.next()
		if g == nil {
			return
		}
		w.commit(g)
		// The callers just answered often come straight back; letting them run first makes the next frame larger, which
		// saves a tenth of the processor time per record at 64 callers.
		runtime.Gosched()
		w.landed(g)
		w.release(g)
	}
}

// commit sends a group and answers its callers.
func (w *writer) commit(g *group) {
	s := w.s
	conn := s.e.Connection()
	w.mu.Lock()
	g.conn = conn
	w.mu.Unlock()
	g.buf = appendKeys(g.buf, g.keys)
	sealFrame(g.buf, g.n)
	start := s.o.Now()
	what := "append"
	if len(g.keys) > 0 {
		what = "keyed"
	}
	if s.isolated() {
		defer w.evictBehind(g).Stop()
	}
	seq, err := w.publish(g.ctx, what, "", g.buf)
	w.answered(g, seq, err)
	w.mu.Lock()
	if err == nil && g.order > w.newest.order {
		w.newest = sent{seq, conn, g.order}
	}
	first := w.answer(g, seq, err)
	w.mu.Unlock()
	if err == nil {
		s.n.committed(g.n, len(g.buf), s.o.Now().Sub(start))
	} else if first && !s.goesElsewhere(err) {
		s.n.failed.Add(uint64(g.n))
	}
}

// publish sends one message and waits for it to be stored. An error that makes further writes doubtful takes the
// stream to Probing, or only this partition. The end of ctx does so only if ErrTimeout is its cause: else the caller
// gave up, which says nothing about the engine. Nor does it while the engine answers others: then it is slow.
//
// Steps: append.publish, append.stored; with a key keyed.publish, keyed.stored. A crash before the first leaves
// nothing, one at the second leaves a record whose sender has no answer, and between the two either may be.
func (w *writer) publish(ctx context.Context, what string, key string, frame []byte) (uint64, error) {
	high := w.high.Load()
	seq, err := w.send(ctx, what, key, frame)
	switch {
	case err == nil:
	case errors.Is(err, ErrExists), errors.Is(err, ErrFull), errors.Is(err, errStep):
		return 0, err
	case ctx.Err() != nil && context.Cause(ctx) != ErrTimeout:
		return 0, ctx.Err()
	case ctx.Err() != nil && w.acks.alive(w.s.o.Now(), w.s.o.AckTimeout):
		return 0, ErrTimeout // the disk is slow; the engine goes on
	default:
		return 0, w.fault(err)
	}
	if seq <= high {
		// The engine came back without its newest frames and gives their numbers out again. A reader that is past
		// them would never see this record, so it must not count as stored.
		return 0, w.fault(errFellBack)
	}
	w.raise(seq)
	if w.s.disk.wrote(len(frame)) {
		w.s.timeToLook()
	}
	return seq, w.s.at(what, "stored")
}

// errFellBack means that the engine gives out sequence numbers a second time.
var errFellBack = fmt.Errorf("%w: it has lost its newest frames", ErrUnavailable)

// send sends one message, and learns how fast the engine is.
func (w *writer) send(ctx context.Context, what string, key string, frame []byte) (uint64, error) {
	n, start := w.acks.enter(), w.s.o.Now()
	err := w.s.at(what, "publish")
	var seq uint64
	if err == nil {
		if key == "" {
			seq, err = w.log.Publish(ctx, frame)
		} else {
			seq, err = w.log.PublishNew(ctx, key, frame)
		}
		err = translate(err)
	}
	now := w.s.o.Now()
	switch {
	case err == nil, errors.Is(err, ErrExists), errors.Is(err, ErrFull):
		w.acks.answered(n, now, now.Sub(start))
	case context.Cause(ctx) == ErrTimeout:
		w.acks.late(n, now.Sub(start))
	default:
		w.acks.leave()
	}
	return seq, err
}

// errStep marks the error of a step.
var errStep = fmt.Errorf("%w: stopped at a step", ErrTimeout)

// at tells Options.Step where an append is.
func (s *Stream) at(what, step string) error {
	if err := s.o.Step(what + "." + step); err != nil {
		return fmt.Errorf("%w: %w", errStep, err)
	}
	return nil
}

// raise notes that the stream reaches seq.
func (w *writer) raise(seq uint64) {
	for {
		high := w.high.Load()
		if seq <= high || w.high.CompareAndSwap(high, seq) {
			break
		}
	}
	w.grown.send()
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
