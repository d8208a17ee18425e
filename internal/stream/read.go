package stream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sluice/internal/engine"
)

// Read returns the record at a position. It is there from the moment Append returned. ErrGone means it has aged out,
// ErrNotFound that nothing was ever stored there, ErrDamaged that the engine lost it or its bytes are not whole.
func (s *Stream) Read(ctx context.Context, at Position) ([]byte, error) {
	if at.Partition >= MaxPartitions || at.Seq == 0 || int(at.Partition) >= len(s.writers) &&
		s.e.Mode() != engine.External {
		return nil, ErrNotFound
	}
	m, err := s.parts.At(at.Partition).Get(ctx, at.Seq) // another node may have added it
	if errors.Is(err, engine.ErrNotFound) {
		return nil, s.whyAbsent(ctx, at)
	}
	if err != nil {
		return nil, err
	}
	records, err := DecodeFrame(m.Data)
	if err != nil {
		return nil, ErrDamaged
	}
	if int(at.Slot) >= len(records) {
		return nil, ErrNotFound
	}
	return records[at.Slot], nil
}

// whyAbsent says why there is no message at a position.
func (s *Stream) whyAbsent(ctx context.Context, at Position) error {
	st, err := s.parts.At(at.Partition).State(ctx)
	switch {
	case err != nil:
		return err
	case at.Seq < st.FirstSeq:
		return ErrGone
	case at.Seq > st.LastSeq && int(at.Partition) >= len(s.writers):
		// this node does not write there, and cannot ask its leader
		return fmt.Errorf("%w: partition %d was added after this node was started", ErrUnavailable, at.Partition)
	case at.Seq > st.LastSeq && s.e.Mode() == engine.External:
		return s.confirmAbsent(ctx, at)
	case at.Seq > st.LastSeq:
		return ErrNotFound
	}
	return ErrDamaged
}

// confirmAbsent says whether a partition of a cluster really ends before a position. A server that was the leader and
// does not know yet that it is none may say so, and be wrong. Only the leader can store a frame, and its number shows
// where the partition ends.
func (s *Stream) confirmAbsent(ctx context.Context, at Position) error {
	w := s.writers[at.Partition]
	w.confirming.Lock() // one at a time: each costs a sync
	defer w.confirming.Unlock()
	if w.high.Load() >= at.Seq {
		// It was there once. Whether it is lost shows with the next frame that is stored.
		return fmt.Errorf("%w: the leader of partition %d is not known", ErrUnavailable, at.Partition)
	}
	seq, err := w.write(ctx, AppendFrame(nil))
	if err != nil {
		return err
	}
	if seq > at.Seq {
		return fmt.Errorf("%w: the answer came from a server that lags", ErrUnavailable)
	}
	return ErrNotFound
}

// Peek returns the number of the first frame from a number on, when it was stored, and whether it has records: one
// without any says nothing that could be loaded. A damaged frame counts as one with records. ErrNotFound means that
// there is none.
func Peek(ctx context.Context, p *engine.Partition, from uint64) (seq uint64, at time.Time, records bool, err error) {
	m, err := p.Next(ctx, from)
	if errors.Is(err, engine.ErrNotFound) {
		return 0, at, false, ErrNotFound
	}
	if err != nil {
		return 0, at, false, err
	}
	found, err := DecodeFrame(m.Data)
	return m.Seq, m.Time, len(found) > 0 || err != nil && !errors.Is(err, errLost), nil
}

// Last returns the sequence number of a partition's newest frame, 0 when there never was one.
func (s *Stream) Last(ctx context.Context, partition uint8) (uint64, error) {
	st, err := s.writers[partition].log.State(ctx)
	return st.LastSeq, err
}

// Retention says how long the stream keeps a record at the longest.
func (s *Stream) Retention(ctx context.Context) (time.Duration, error) {
	var longest time.Duration
	for _, w := range s.writers {
		st, err := w.log.State(ctx)
		if err != nil {
			return 0, err
		}
		longest = max(longest, st.MaxAge)
	}
	return longest, nil
}
