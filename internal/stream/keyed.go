package stream

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"time"

	"sluice/internal/engine"
)

// home returns the writer of a key, and the key as the engine knows it: 192 bits of its hash. No two keys will ever
// have the same, and the engine keeps every key in memory, so it is short.
func (s *Stream) home(key string) (*writer, string) {
	sum := sha256.Sum256([]byte(key))
	w := s.writers[int(sum[31])%s.parts.Keyed]
	return w, base64.RawURLEncoding.EncodeToString(sum[:24])
}

// AppendKeyed stores a record under a key, unless there is one: then it returns ErrExists and ReadKeyed has it, or will
// have it as soon as the other call succeeds. It is the engine that decides, so this holds between processes and after
// any crash, for as long as records are kept. Otherwise it is like Append, but costs a sync of its own.
func (s *Stream) AppendKeyed(ctx context.Context, key string, record []byte) (Position, error) {
	if err := s.admit(ctx, len(record)); err != nil {
		return Position{}, err
	}
	defer s.queued.Add(-int64(len(record)))
	w, name := s.home(key)
	if err := w.enter(ctx); err != nil {
		return Position{}, err
	}
	defer w.leave()

	buf := frames.Get().(*[]byte)
	frame := appendRecord(beginFrame(*buf), record)
	sealFrame(frame, 1)
	start := s.o.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, s.o.AckTimeout, ErrTimeout)
	defer cancel()
	seq, err := w.publish(ctx, "keyed", name, frame)
	if cap(frame) <= maxPooled {
		*buf = frame[:0]
		frames.Put(buf)
	}
	switch {
	case err == nil:
		s.n.committed(1, len(frame), s.o.Now().Sub(start))
		return Position{Partition: w.part, Seq: seq}, nil
	case !errors.Is(err, ErrExists):
		s.n.failed.Add(1)
	}
	return Position{}, err
}

// ReadKeyed returns the record stored under a key. Without one it returns ErrNotFound.
func (s *Stream) ReadKeyed(ctx context.Context, key string) ([]byte, Position, error) {
	w, name := s.home(key)
	m, err := w.log.GetKey(ctx, name)
	if errors.Is(err, engine.ErrNotFound) {
		return nil, Position{}, ErrNotFound
	}
	if err != nil {
		return nil, Position{}, err
	}
	records, err := DecodeFrame(m.Data)
	if err != nil || len(records) != 1 {
		return nil, Position{}, ErrDamaged
	}
	return records[0], Position{Partition: w.part, Seq: m.Seq}, nil
}

// maxKeyed is how many messages with keys are on their way at once. The engine writes one after the other, so more
// gain nothing; and when the disk becomes slow, all that are on their way may be too late.
const maxKeyed = 16

// enter takes a place for a caller that writes past the groups, and counts it, so that Run waits for it. One that would
// wait too long is rejected: nothing of it is stored then, and its sender knows.
func (w *writer) enter(ctx context.Context) error {
	select {
	case w.places <- struct{}{}:
	default:
		timer := time.NewTimer(w.s.o.AckTimeout / 2)
		defer timer.Stop()
		select {
		case w.places <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
			w.s.n.reject(ErrOverloaded)
			return ErrOverloaded
		}
	}
	err := w.join()
	if err != nil {
		<-w.places
	}
	return err
}

func (w *writer) join() error {
	if w.acks.crowded(w.s.o.AckTimeout) {
		w.s.n.reject(ErrOverloaded)
		return ErrOverloaded
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return ErrClosed
	}
	w.keyed.Add(1)
	return nil
}

func (w *writer) leave() {
	w.keyed.Done()
	<-w.places
}
