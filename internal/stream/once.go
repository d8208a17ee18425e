package stream

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"time"

	"sluice/internal/engine"
)

// home returns the lane of a key, and the key as the engine knows it: 192 bits of its hash. No two keys will ever
// have the same, and the engine keeps every key in memory, so it is short.
func (s *Stream) home(key string) (*lane, string) {
	sum := sha256.Sum256([]byte(key))
	l := s.lanes[int(sum[31])%s.parts.Keyed]
	return l, base64.RawURLEncoding.EncodeToString(sum[:24])
}

// AppendOnce stores a record under a key, unless there is one: then it returns ErrExists and ReadOnce has it, or will
// have it as soon as the other call succeeds. It is the engine that decides, so this holds between processes and after
// any crash, for as long as records are kept. Otherwise it is like Append, but costs a sync of its own.
func (s *Stream) AppendOnce(ctx context.Context, key string, record []byte) (Position, error) {
	if err := s.admit(ctx, len(record)); err != nil {
		return Position{}, err
	}
	defer s.queued.Add(-int64(len(record)))
	l, name := s.home(key)
	if err := l.enter(ctx); err != nil {
		return Position{}, err
	}
	defer l.leave()

	buf := frames.Get().(*[]byte)
	frame := appendRecord(beginFrame(*buf), record)
	sealFrame(frame, 1)
	start := s.o.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, s.o.AckTimeout, ErrTimeout)
	defer cancel()
	seq, err := l.publish(ctx, "once", name, frame)
	if cap(frame) <= 2<<20 {
		*buf = frame[:0]
		frames.Put(buf)
	}
	switch {
	case err == nil:
		s.n.committed(1, len(frame), s.o.Now().Sub(start))
		return Position{Partition: l.part, Seq: seq}, nil
	case !errors.Is(err, ErrExists):
		s.n.failed.Add(1)
	}
	return Position{}, err
}

// ReadOnce returns the record stored under a key. Without one it returns ErrNotFound.
func (s *Stream) ReadOnce(ctx context.Context, key string) ([]byte, Position, error) {
	l, name := s.home(key)
	m, err := l.log.GetKey(ctx, name)
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
	return records[0], Position{Partition: l.part, Seq: m.Seq}, nil
}

// maxDirect is how many messages with keys are on their way at once. The engine writes one after the other, so more
// gain nothing; and when the disk becomes slow, all that are on their way may be too late.
const maxDirect = 16

// enter takes a place for a caller that writes past the groups, and counts it, so that Run waits for it. One whose turn
// would come too late is refused: nothing of it is stored then, and its sender knows.
func (l *lane) enter(ctx context.Context) error {
	select {
	case l.places <- struct{}{}:
	default:
		timer := time.NewTimer(l.s.o.AckTimeout / 2)
		defer timer.Stop()
		select {
		case l.places <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
			l.s.n.refuse(ErrOverloaded)
			return ErrOverloaded
		}
	}
	err := l.join()
	if err != nil {
		<-l.places
	}
	return err
}

func (l *lane) join() error {
	if l.pace.crowded(l.s.o.AckTimeout) {
		l.s.n.refuse(ErrOverloaded)
		return ErrOverloaded
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return ErrClosed
	}
	l.direct.Add(1)
	return nil
}

func (l *lane) leave() {
	l.direct.Done()
	<-l.places
}
