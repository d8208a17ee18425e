package stream

import (
	"context"
	"fmt"
	"time"
)

// ID is the identity of the stream: another one that has, had or will have its place has another.
func (s *Stream) ID() string { return s.parts.ID }

// Advance makes sure that the next sequence number of an empty partition is above seq: those up to it are in the tables
// under the name of an earlier stream. What the partition holds above seq stays.
func (s *Stream) Advance(ctx context.Context, partition uint8, seq uint64) error {
	return s.writers[partition].log.Advance(ctx, seq)
}

// Bounds are where a partition begins and ends, and how much it holds.
type Bounds struct {
	First   uint64 // sequence number of the oldest frame that is kept; one more than Last when there is none
	Last    uint64 // of the newest frame, 0 when there never was one
	Frames  uint64
	Bytes   int64
	Oldest  time.Time // when the oldest frame was written; zero when there is none
	Created time.Time // of the partition
}

// Bounds asks the engine where each partition begins and ends, and how much it holds.
func (s *Stream) Bounds(ctx context.Context) ([]Bounds, error) {
	out := make([]Bounds, len(s.writers))
	for p, w := range s.writers {
		st, err := w.log.State(ctx)
		if err != nil {
			return nil, err
		}
		out[p] = Bounds{
			First: max(1, st.FirstSeq), Last: st.LastSeq, Frames: st.Messages, Bytes: int64(st.Bytes), Oldest: st.FirstTime,
			Created: st.Created,
		}
		if st.Messages == 0 {
			out[p].First, out[p].Oldest = st.LastSeq+1, time.Time{}
		}
	}
	return out, nil
}

// Page returns the frames of a partition from a sequence number on, in order: at most so many, and one more than so
// many bytes. None means that the partition has no frame at that number or behind it. Damage and gaps are in the
// frames. It is Scan for a caller that reads a little, keeps its position elsewhere, and comes back.
func (s *Stream) Page(ctx context.Context, partition uint8, from uint64, frames, bytes int) ([]Frame, error) {
	if int(partition) >= len(s.writers) {
		return nil, fmt.Errorf("read partition %d: %w", partition, ErrNotFound)
	}
	reader, err := s.writers[partition].log.Reader(frames, bytes)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	messages, err := reader.Next(ctx, from)
	if err != nil {
		return nil, fmt.Errorf("read partition %d: %w", partition, err)
	}
	out := make([]Frame, 0, len(messages))
	for _, m := range messages {
		out = append(out, newFrame(m, from))
		from = m.Seq + 1
	}
	return out, nil
}
