package stream

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"sluice/internal/engine"
)

// Move copies the stream of an embedded engine into an external one, under the same sequence numbers: submission ids,
// watermarks and cursors name them. Nobody else writes to either. First Frames, then Keys: both can be repeated, and
// continue where they ended.
type Move struct {
	o        MoveOptions
	from, to *engine.Partitions
}

// MoveOptions say what is moved. From and To are required.
type MoveOptions struct {
	From, To *engine.Engine
	Limits   engine.PartitionOptions // of the partitions in To, with their Origin

	// Progress is called now and then with how many frames of how many are copied, or keys written (total 0); nil is for none.
	Progress func(done, total uint64)
	// Step is called before each write, with move.advance, move.frames and move.keys. Its error ends the move. Tests crash
	// with it; nil is for none.
	Step func(name string) error
}

const (
	// moveWait is how long a move waits for an external engine that stores nothing (arbitrary: longer than an election).
	moveWait = time.Minute
	// moveBatch is how many frames or keys are on their way at once, and moveBytes how many bytes of frames: enough to share
	// syncs, and little memory. Arbitrary.
	moveBatch = 256
	moveBytes = 2 << 20
)

// OpenMove opens both streams, and makes the partitions in the external engine. Close it when done.
func OpenMove(ctx context.Context, o MoveOptions) (*Move, error) {
	from, err := o.From.Partitions(ctx, engine.PartitionOptions{})
	if err != nil {
		return nil, fmt.Errorf("open stream: %w", err)
	}
	to, err := o.To.Partitions(ctx, o.Limits)
	if err != nil {
		from.Close()
		return nil, fmt.Errorf("open the stream of the cluster: %w", err)
	}
	m := &Move{o: o, from: from, to: to}
	if to.ID != from.ID || !to.ByHash || len(to.List) < len(from.List) {
		m.Close()
		return nil, errors.New("the stream of the cluster is another one")
	}
	return m, nil
}

// Close ends reading.
func (m *Move) Close() {
	m.from.Close()
	m.to.Close()
}

func (m *Move) step(name string) error {
	if m.o.Step == nil {
		return nil
	}
	return m.o.Step("move." + name)
}

func (m *Move) progress(done, total uint64) {
	if m.o.Progress != nil {
		m.o.Progress(done, total)
	}
}

// Frames copies every frame, and returns how many there are.
func (m *Move) Frames(ctx context.Context) (uint64, error) {
	var total, done uint64
	for p, source := range m.from.List {
		st, err := source.State(ctx)
		if err != nil {
			return 0, fmt.Errorf("partition %d: %w", p, err)
		}
		total += st.Messages
	}
	for p := range m.from.List {
		c := partitionCopy{m: m, from: m.from.List[p], to: m.to.List[p]}
		c.copied = func(n uint64) {
			done += n
			m.progress(done, total)
		}
		if err := c.run(ctx); err != nil {
			return done, fmt.Errorf("copy partition %d: %w", p, err)
		}
	}
	return total, nil
}

// partitionCopy copies one partition.
type partitionCopy struct {
	m        *Move
	from, to *engine.Partition
	copied   func(frames uint64)
	first    uint64 // number of the oldest frame of from
	last     uint64 // number of the newest
	next     uint64 // number that is copied next
}

// run copies what the other partition does not have yet. Only one that has nothing at all begins with a higher number than 1;
// one with frames gets an empty one for each that has aged out since.
func (c *partitionCopy) run(ctx context.Context) error {
	if err := c.look(ctx); err != nil {
		return err
	}
	there, err := c.to.State(ctx)
	if err != nil {
		return err
	}
	if there.Messages == 0 && there.LastSeq+1 < c.first {
		if err := c.m.step("advance"); err != nil {
			return err
		}
		if err := c.to.Advance(ctx, c.first-1); err != nil {
			return err
		}
		there.LastSeq = c.first - 1
	}
	c.next = there.LastSeq + 1
	if c.next > c.first {
		c.copied(min(c.next, c.last+1) - c.first)
	}
	reader, err := c.from.Reader(moveBatch, moveBytes)
	if err != nil {
		return err
	}
	defer reader.Close()
	for c.next <= c.last {
		messages, err := reader.Next(ctx, c.next)
		if errors.Is(err, engine.ErrInterrupted) {
			continue
		}
		if err != nil {
			return err
		}
		if len(messages) == 0 {
			if messages, err = c.search(ctx); err != nil {
				return err
			}
		}
		if err := c.store(ctx, messages); err != nil {
			return err
		}
	}
	return nil
}

// look finds out what there is to copy. What ages out meanwhile is not there any more.
func (c *partitionCopy) look(ctx context.Context) error {
	st, err := c.from.State(ctx)
	c.first, c.last = max(1, st.FirstSeq), st.LastSeq
	return err
}

// search looks for a frame number by number, behind damage. Where there is none, it returns the last number without bytes.
func (c *partitionCopy) search(ctx context.Context) ([]engine.Message, error) {
	if err := c.look(ctx); err != nil {
		return nil, err
	}
	for seq := max(c.next, c.first); seq <= c.last; seq++ {
		m, err := c.from.Get(ctx, seq)
		if err == nil {
			return []engine.Message{m}, nil
		}
		if !errors.Is(err, engine.ErrNotFound) {
			return nil, err
		}
	}
	return []engine.Message{{Seq: c.last}}, nil
}

// store writes frames, and one for each number before them that has none.
func (c *partitionCopy) store(ctx context.Context, messages []engine.Message) error {
	if messages[0].Seq > c.next { // aged out, or damaged?
		if err := c.look(ctx); err != nil {
			return err
		}
	}
	for len(messages) > 0 {
		run := make([][]byte, 0, moveBatch)
		for next := c.next; len(run) < moveBatch && len(messages) > 0; next++ {
			switch m := messages[0]; {
			case m.Seq == next && m.Data != nil:
				run = append(run, moved(m))
			case next < c.first:
				run = append(run, AppendFrame(nil))
			default:
				run = append(run, lostFrame())
			}
			if messages[0].Seq == next {
				messages = messages[1:]
			}
		}
		if err := c.publish(ctx, run); err != nil {
			return err
		}
	}
	return nil
}

// moved is a frame as it is stored in the external engine: with its keys, which the message of an earlier version has as
// its name.
func moved(m engine.Message) []byte {
	records, keys, err := decodeFrame(m.Data)
	if name := messageKey(m); err == nil && len(keys) == 0 && len(records) == 1 && len(name) > 0 {
		frame := appendKeys(appendRecord(beginFrame(nil), records[0]), name)
		sealFrame(frame, 1)
		return frame
	}
	return m.Data
}

// publish stores frames from the next number on. An answer that does not come is asked for: the partition says where it
// ends.
func (c *partitionCopy) publish(ctx context.Context, run [][]byte) error {
	patience := time.NewTimer(moveWait)
	defer patience.Stop()
	for {
		if err := c.m.step("frames"); err != nil {
			return err
		}
		last, err := c.send(ctx, run)
		if n := last + 1 - c.next; n > 0 {
			run, c.next = run[n:], last+1
			patience.Reset(moveWait)
			c.copied(n)
		}
		if len(run) == 0 {
			return nil
		}
		if !again(err) {
			return explain(err)
		}
		select { // an election takes seconds
		case <-ctx.Done():
			return ctx.Err()
		case <-patience.C:
			return err
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// send tries once, and returns the number up to which the partition has what it shall have.
func (c *partitionCopy) send(ctx context.Context, run [][]byte) (uint64, error) {
	attempt, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	last, err := c.to.PublishRun(attempt, c.next-1, run)
	if !again(err) {
		return last, err
	}
	st, stErr := c.to.State(ctx)
	if stErr != nil {
		return last, err
	}
	if end := c.next - 1 + uint64(len(run)); st.LastSeq > end {
		return last, fmt.Errorf("somebody else writes to the partition: it ends at %d", st.LastSeq)
	}
	return max(last, st.LastSeq), err
}

// again says whether an error may pass by itself.
func again(err error) bool {
	return errors.Is(err, engine.ErrTimeout) || errors.Is(err, engine.ErrUnavailable) || errors.Is(err, engine.ErrRevision)
}

// explain adds what to do.
func explain(err error) error {
	if errors.Is(err, engine.ErrFull) {
		return fmt.Errorf("%w: give the account or the servers more storage, and run the same command again. If the stream has a limit (--max-stream), "+
			"undo the move, start the directory once with a larger one, and begin again", err)
	}
	return err
}

// Keys writes a reference for every key of the frames, where an external engine looks for the key. It returns how many
// there are.
func (m *Move) Keys(ctx context.Context) (uint64, error) {
	k := keyCopy{m: m, waiting: make([][]engine.Keyed, m.to.Keyed)}
	for p, source := range m.from.List {
		if err := k.partition(ctx, uint8(p), source); err != nil {
			return k.done, fmt.Errorf("keys of partition %d: %w", p, err)
		}
	}
	for home := range k.waiting {
		if err := k.flush(ctx, home); err != nil {
			return k.done, fmt.Errorf("keys: %w", err)
		}
	}
	return k.done, nil
}

// keyCopy collects references by the partition that they go to.
type keyCopy struct {
	m       *Move
	waiting [][]engine.Keyed
	done    uint64
}

func (k *keyCopy) partition(ctx context.Context, p uint8, source *engine.Partition) error {
	c := partitionCopy{m: k.m, from: source}
	if err := c.look(ctx); err != nil {
		return err
	}
	reader, err := source.Reader(moveBatch, moveBytes)
	if err != nil {
		return err
	}
	defer reader.Close()
	for c.next = c.first; c.next <= c.last; {
		messages, err := reader.Next(ctx, c.next)
		if errors.Is(err, engine.ErrInterrupted) {
			continue
		}
		if err == nil && len(messages) == 0 {
			messages, err = c.search(ctx)
		}
		if err != nil {
			return err
		}
		for _, m := range messages {
			if err := k.frame(ctx, p, m); err != nil {
				return err
			}
			c.next = m.Seq + 1
		}
	}
	return nil
}

// frame collects the keys of a frame. A damaged one has none.
func (k *keyCopy) frame(ctx context.Context, p uint8, m engine.Message) error {
	_, keys, err := decodeFrame(moved(m))
	if err != nil {
		return nil
	}
	for _, found := range keys {
		home := found.key.home(k.m.to.Keyed)
		k.waiting[home] = append(k.waiting[home], engine.Keyed{
			Key: base64.RawURLEncoding.EncodeToString(found.key[:]), Data: referenceTo(Position{p, m.Seq, found.slot}),
		})
		if len(k.waiting[home]) == moveBatch {
			if err := k.flush(ctx, home); err != nil {
				return err
			}
		}
	}
	return nil
}

// flush writes what was collected for a partition.
func (k *keyCopy) flush(ctx context.Context, home int) error {
	keys := k.waiting[home]
	if len(keys) == 0 {
		return nil
	}
	patience := time.NewTimer(moveWait)
	defer patience.Stop()
	for stored := false; !stored; {
		if err := k.m.step("keys"); err != nil {
			return err
		}
		attempt, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := k.m.to.List[home].PublishKeys(attempt, keys)
		cancel()
		if stored = err == nil; stored {
			continue
		}
		if !again(err) {
			return explain(err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-patience.C:
			return err
		case <-time.After(100 * time.Millisecond):
		}
	}
	k.done += uint64(len(keys))
	k.waiting[home] = keys[:0]
	k.m.progress(k.done, 0)
	return nil
}
