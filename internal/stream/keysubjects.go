package stream

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/engine"
)

// keySubjects lets an external engine decide which records with a key are stored, for there are other writers: each is
// a message of its own, on a subject made from the key, published on the condition that the subject has no message.
type keySubjects struct {
	s       *Stream
	parts   []*keyPartition // those that have keys
	counted time.Time       // when keys were last counted; only tend touches it
}

// keyPartition is a partition with the records of some keys: the engine compares keys within one partition.
type keyPartition struct {
	w      *writer
	keys   atomic.Int64   // that the engine holds
	calls  sync.WaitGroup // of publish
	places chan struct{}  // taken by them
}

func newKeySubjects(s *Stream) *keySubjects {
	k := &keySubjects{s: s}
	for _, w := range s.writers {
		k.parts = append(k.parts, &keyPartition{w: w, places: make(chan struct{}, maxKeyed)})
	}
	return k
}

// home is the partition that a key belongs to.
func (k *keySubjects) home(name *key) *keyPartition { return k.parts[name.home(k.s.parts.Keyed)] }

// home is the partition that a key belongs to in an external engine, if so many have keys.
func (k *key) home(keyed int) int { return int(k[len(k)-1]) % keyed }

func (k *keySubjects) load(context.Context) error { return nil }

func (k *keySubjects) close() {
	for _, p := range k.parts {
		p.calls.Wait()
	}
}

func (k *keySubjects) append(ctx context.Context, name *key, record []byte) (Position, error) {
	defer k.s.queued.Add(-int64(len(record)))
	if err := k.admit(ctx, name); err != nil {
		return Position{}, err
	}
	return k.home(name).publish(ctx, name, record)
}

// admit rejects a new key while as many are in use as may be.
func (k *keySubjects) admit(ctx context.Context, name *key) error {
	if k.count() < int64(k.s.o.MaxKeys) {
		return nil
	}
	_, _, err := k.read(ctx, name)
	switch {
	case used(err):
		return ErrExists
	case errors.Is(err, ErrNotFound):
		return ErrTooManyKeys
	}
	return translate(err)
}

// count is how many keys the engine holds: at the last look, and those that this process has stored since.
func (k *keySubjects) count() (n int64) {
	for _, p := range k.parts {
		n += p.keys.Load()
	}
	return n
}

// Each look costs a question for each partition. Other nodes store keys, too: near the bound it is asked more often.
// Arbitrary, and far less than what fits between the two.
const (
	countEvery = 10 * time.Second
	countSoon  = time.Second
)

// tend asks the engine how many keys it holds, when it is time. Each is a subject of its own; one more has the frames
// without a key. A partition that does not answer keeps the number that is known.
func (k *keySubjects) tend(ctx context.Context) {
	every := countEvery
	if k.count() >= int64(k.s.o.MaxKeys)/4*3 {
		every = countSoon
	}
	now := k.s.o.Now()
	if d := now.Sub(k.counted); d >= 0 && d < every {
		return
	}
	k.counted = now
	var asked sync.WaitGroup
	for _, p := range k.parts {
		asked.Go(func() {
			if st, err := p.w.log.State(ctx); err == nil {
				p.keys.Store(max(0, int64(st.Subjects)-1))
			}
		})
	}
	asked.Wait()
}

// publish stores a record as a message of its own; the engine rejects a second one with the same key.
func (p *keyPartition) publish(ctx context.Context, name *key, record []byte) (Position, error) {
	w, s := p.w, p.w.s
	if down := w.down.Load(); down != nil {
		s.n.reject(ErrUnavailable)
		return Position{}, fmt.Errorf("%w: %w", ErrUnavailable, *down)
	}
	if err := p.enter(ctx); err != nil {
		return Position{}, err
	}
	defer p.leave()

	frame := appendRecord(beginFrame(*frames.Get().(*[]byte)), record)
	sealFrame(frame, 1)
	start := s.o.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, s.o.AckTimeout, ErrTimeout)
	defer cancel()
	seq, err := w.publish(ctx, "keyed", name.text(), frame)
	reuse(frame)
	switch {
	case err == nil:
		p.keys.Add(1)
		s.n.committed(1, len(frame), s.o.Now().Sub(start))
		return Position{Partition: w.part, Seq: seq}, nil
	case !errors.Is(err, ErrExists):
		s.n.failed.Add(1)
	}
	return Position{}, err
}

// read asks the engine for the message with a key.
func (k *keySubjects) read(ctx context.Context, name *key) ([]byte, Position, error) {
	w := k.home(name).w
	m, err := w.log.GetKey(ctx, name.text())
	if errors.Is(err, engine.ErrNotFound) {
		return nil, Position{}, ErrNotFound
	}
	if err != nil {
		return nil, Position{}, err
	}
	records, err := DecodeFrame(m.Data)
	switch {
	case err != nil || len(records) > 1:
		return nil, Position{}, ErrDamaged
	case len(records) == 0:
		return nil, Position{}, &RestoredError{m.Time}
	}
	return records[0], Position{Partition: w.part, Seq: m.Seq}, nil
}

// maxKeyed is how many messages with keys are on their way at once. The engine syncs once for those that arrive
// together: with 64 its servers take 0.6 of the processor time that they take with 16. When the disk becomes slow, all
// that are on their way may be too late.
const maxKeyed = 64

// enter takes a place for a caller that writes past the groups, and counts it, so that Run waits for it. One that would
// wait too long is rejected: nothing of it is stored then, and its sender knows.
func (p *keyPartition) enter(ctx context.Context) error {
	select {
	case p.places <- struct{}{}:
	default:
		timer := time.NewTimer(p.w.s.o.AckTimeout / 2)
		defer timer.Stop()
		select {
		case p.places <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
			p.w.s.n.reject(ErrOverloaded)
			return ErrOverloaded
		}
	}
	err := ErrClosed
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	switch {
	case p.w.acks.crowded(p.w.s.o.AckTimeout):
		p.w.s.n.reject(ErrOverloaded)
		err = ErrOverloaded
	case !p.w.closed:
		p.calls.Add(1)
		return nil
	}
	<-p.places
	return err
}

func (p *keyPartition) leave() {
	p.calls.Done()
	<-p.places
}
