package stream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sluice/internal/engine"
)

const (
	// fetchBytes bounds one batch of a scan. A batch keeps writers out while the engine reads it, so it is small; three
	// are in memory at once, each with at most one frame too many.
	fetchBytes = 2 << 20
	// fetchFrames bounds a batch of small frames. The figure is arbitrary: many enough that asking costs little.
	fetchFrames = 256
	// pollWait is how late a follower sees a frame that another process wrote, at most.
	pollWait = 250 * time.Millisecond
)

// Frame is what a scan meets at one sequence number.
type Frame struct {
	Seq     uint64
	Time    time.Time // when the engine stored it
	Records [][]byte
	Missing uint64 // how many sequence numbers right before Seq hold nothing any more
	Damaged error  // why there are no Records; wraps ErrDamaged
	Raw     []byte // the bytes of a damaged frame; nil when the engine has none

	keys []slotKey // of the records that have one
}

// Scan calls yield for every frame of a partition from a sequence number on, in order, and returns nil after the last
// one there is. From 0 means from the oldest kept. The frames show damage and gaps, which stop nothing. The
// frame's memory is yield's to keep. An error of yield ends the scan and is returned as it is.
// ErrBehind means that the partition ends before from, so numbers were or will be given out twice; see Resume.
func (s *Stream) Scan(ctx context.Context, partition uint8, from uint64, yield func(Frame) error) error {
	return s.scan(ctx, &fetcher{s: s, part: partition, next: from}, yield)
}

// Follow is Scan, but at the end waits for more until ctx ends, and outlives restarts of the engine. One that has
// everything lets new frames gather before it asks for them: a question for each frame would cost as much as storing
// it, and the engine keeps a block in memory for ten seconds that was read while it was being written.
func (s *Stream) Follow(
	ctx context.Context, partition uint8, from uint64, gather time.Duration, yield func(Frame) error,
) error {
	return s.scan(ctx, &fetcher{s: s, part: partition, next: from, follow: true, gather: gather}, yield)
}

func (s *Stream) scan(ctx context.Context, f *fetcher, yield func(Frame) error) error {
	if int(f.part) >= len(s.writers) {
		return fmt.Errorf("scan partition %d: %w", f.part, ErrNotFound)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	batches, next := make(chan []engine.Message, 1), f.next
	go func() {
		defer close(batches)
		if err := f.run(ctx, batches); err != nil {
			cancel(fmt.Errorf("scan partition %d: %w", f.part, err))
		}
	}()
	defer func() { // the fetcher is gone when the scan returns
		cancel(nil)
		for range batches {
		}
	}()
	for messages := range batches {
		for _, m := range messages {
			if err := yield(newFrame(m, next)); err != nil {
				return err
			}
			next = m.Seq + 1
		}
	}
	return context.Cause(ctx)
}

// newFrame makes a frame of a message that was expected to have the sequence number next.
func newFrame(m engine.Message, next uint64) Frame {
	fr := Frame{Seq: m.Seq, Time: m.Time}
	if next > 0 {
		fr.Missing = m.Seq - next
	}
	if m.Data == nil {
		fr.Damaged = fmt.Errorf("%w: the engine has no bytes for it", ErrDamaged)
	} else if records, keys, err := decodeFrame(m.Data); err == nil {
		fr.Records, fr.keys = records, keys
		if m.Key != "" {
			fr.keys = messageKey(m)
		}
	} else {
		fr.Damaged = fmt.Errorf("%w: %w", ErrDamaged, err)
		if !errors.Is(err, errLost) {
			fr.Raw = m.Data
		}
	}
	return fr
}

// fetcher reads ahead of a scan.
type fetcher struct {
	s      *Stream
	part   uint8
	next   uint64 // sequence number to ask for; 0 means the oldest
	follow bool
	gather time.Duration
}

// run sends to out what each question to the engine brings, until the end, or while following until ctx ends.
func (f *fetcher) run(ctx context.Context, out chan<- []engine.Message) error {
	reader, err := f.s.writers[f.part].log.Reader(fetchFrames, fetchBytes)
	if err != nil {
		return err
	}
	defer reader.Close()
	if err := f.start(ctx); err != nil {
		return err
	}
	for ctx.Err() == nil {
		grown, changed := f.s.writers[f.part].grown.wait(), f.s.e.Changed()
		messages, err := reader.Next(ctx, f.next)
		if err != nil && !f.follow {
			return err
		}
		if len(messages) > 0 {
			f.next = messages[len(messages)-1].Seq + 1
			f.s.writers[f.part].raise(f.next - 1)
			select {
			case out <- messages:
			case <-ctx.Done():
			}
			if f.follow && short(messages) {
				f.rest(ctx, grown, changed)
			}
			continue
		}
		if !f.follow {
			return nil
		}
		if err != nil && !errors.Is(err, engine.ErrInterrupted) && ctx.Err() == nil {
			f.s.o.Log.Warn("stream cannot be read, trying again", "partition", f.part, "error", err)
			grown = nil
		}
		f.rest(ctx, grown, changed)
	}
	return nil
}

// short says whether the engine gave less than it was asked for, so that there was probably no more.
func short(messages []engine.Message) bool {
	size := 0
	for _, m := range messages {
		size += len(m.Data)
	}
	return len(messages) < fetchFrames && size < fetchBytes/2
}

// rest waits until there may be more to read. A new frame is given some time for company.
func (f *fetcher) rest(ctx context.Context, grown, changed <-chan struct{}) {
	poll := time.NewTimer(pollWait)
	defer poll.Stop()
	select {
	case <-grown:
		poll.Reset(f.gather)
	case <-changed:
		return
	case <-poll.C:
		return
	case <-ctx.Done():
		return
	}
	select {
	case <-poll.C:
	case <-ctx.Done():
	}
}

// start finds the first sequence number and rejects one that the partition has not reached.
func (f *fetcher) start(ctx context.Context) error {
	for {
		st, err := f.s.writers[f.part].log.State(ctx)
		if err == nil {
			if f.next == 0 {
				f.next = max(1, st.FirstSeq)
			}
			if f.next > st.LastSeq+1 {
				return fmt.Errorf("%w: at %d, wanted %d", ErrBehind, st.LastSeq, f.next)
			}
			return nil
		}
		if !f.follow || ctx.Err() != nil {
			return err
		}
		f.rest(ctx, nil, nil)
	}
}
