package stream

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"sluice/internal/engine"
)

// A copy of a partition is its frames, in order, each behind its sequence number (8 bytes, little endian) and its
// length (4 bytes, little endian). A number without a frame is that of a lost one.
const (
	copyHeader = 8 + 4
	maxCopied  = 64 << 20 // bytes of a frame: as many as a NATS server allows for a message
)

// Copy writes every frame of a partition that is stored now to w. keep gets each record and returns what is copied in
// its place, nil for all as they are. With it a frame that cannot be read becomes a lost one: nobody can say what it
// holds. Keys are copied with their records.
func (s *Stream) Copy(ctx context.Context, partition uint8, w io.Writer,
	keep func(record []byte) []byte,
) (engine.PartitionCopy, error) {
	about, err := s.e.DescribePartition(ctx, partition)
	if err != nil || about.First > about.Last {
		return about, err
	}
	err = s.Scan(ctx, partition, about.First, func(fr Frame) error {
		if fr.Seq > about.Last { // the last one is lost
			fr = Frame{Seq: about.Last, Damaged: ErrDamaged}
		}
		err := writeCopied(w, fr.Seq, copied(&fr, keep))
		if err == nil && fr.Seq == about.Last {
			return errRead
		}
		return err
	})
	if err != nil && !errors.Is(err, errRead) {
		return about, fmt.Errorf("copy partition %d: %w", partition, err)
	}
	return about, nil
}

// copied is a frame as it is copied.
func copied(fr *Frame, keep func([]byte) []byte) []byte {
	switch {
	case fr.Damaged == nil:
		return frameOf(fr.Records, fr.keys, keep)
	case keep == nil && fr.Raw != nil:
		return fr.Raw
	}
	return lostFrame()
}

// frameOf makes a frame of what is kept of records.
func frameOf(records [][]byte, keys []slotKey, keep func([]byte) []byte) []byte {
	f := beginFrame(nil)
	for _, r := range records {
		if keep != nil {
			r = keep(r)
		}
		f = appendRecord(f, r)
	}
	f = appendKeys(f, keys)
	sealFrame(f, len(records))
	return f
}

func writeCopied(w io.Writer, seq uint64, frame []byte) error {
	var head [copyHeader]byte
	binary.LittleEndian.PutUint64(head[:], seq)
	binary.LittleEndian.PutUint32(head[8:], uint32(len(frame)))
	if _, err := w.Write(head[:]); err != nil {
		return err
	}
	_, err := w.Write(frame)
	return err
}

// RestoreOptions say what a stream is restored from.
type RestoreOptions struct {
	Partitions int                                          // of the stream: at least as many as were copied
	Copies     []engine.PartitionCopy                       // what Copy returned for each partition
	Open       func(partition uint8) (io.ReadCloser, error) // what Copy wrote
	Keep       func(record []byte) []byte                   // as for Copy
	// called before each write, with restore.frames and restore.keys; nil is for none
	Step func(name string) error
}

// Restore makes the stream of an engine that has none from a copy. Every frame has its number again, and the time of
// now: it ages from now on. An external engine finds a key as a message of its own: for each key of a frame it gets one
// that says when it was restored, behind all frames.
func Restore(ctx context.Context, e *engine.Engine, o RestoreOptions) error {
	parts, err := e.MakePartitions(ctx, o.Partitions, o.Copies)
	if err != nil {
		return fmt.Errorf("restore the stream: %w", err)
	}
	defer parts.Close()
	if o.Step == nil {
		o.Step = noStep
	}
	r := restorer{o: &o, parts: parts, waiting: make([][]string, parts.Keyed)}
	if err := r.all(ctx, r.frames); err != nil || e.Mode() != engine.External {
		return err
	}
	if err := r.all(ctx, r.keys); err != nil {
		return err
	}
	for home := range r.waiting {
		if err := r.flush(ctx, home); err != nil {
			return err
		}
	}
	return nil
}

const (
	// restoreBatch is how many frames or keys are on their way at once, and restoreBytes how many bytes of frames: enough
	// to share syncs, and little memory. Arbitrary.
	restoreBatch = 256
	restoreBytes = 2 << 20
)

// restorer brings copies into an engine.
type restorer struct {
	o       *RestoreOptions
	parts   *engine.Partitions
	waiting [][]string // keys that are to be stored, by the partition that they belong to
}

// storeRun stores something of a run of frames. after is the number before the first.
type storeRun func(ctx context.Context, p uint8, after uint64, run [][]byte) error

// all reads every copy and calls store with runs of its frames.
func (r *restorer) all(ctx context.Context, store storeRun) error {
	for p, about := range r.o.Copies {
		if err := r.partition(ctx, uint8(p), about, store); err != nil {
			return fmt.Errorf("restore partition %d: %w", p, err)
		}
	}
	return nil
}

func (r *restorer) partition(ctx context.Context, p uint8, about engine.PartitionCopy, store storeRun) error {
	f, err := r.o.Open(p)
	if err != nil {
		return err
	}
	defer f.Close()
	in := restoring{r: bufio.NewReaderSize(f, 1<<20), next: about.First, last: about.Last, keep: r.o.Keep}
	for in.next <= in.last {
		after := in.next - 1
		run, err := in.run()
		if err == nil {
			err = store(ctx, p, after, run)
		}
		if err != nil {
			return fmt.Errorf("behind frame %d: %w", after, err)
		}
	}
	return nil
}

// frames stores frames under their numbers.
func (r *restorer) frames(ctx context.Context, p uint8, after uint64, run [][]byte) error {
	if err := r.o.Step("restore.frames"); err != nil {
		return err
	}
	return r.parts.List[p].StoreRun(ctx, after, run)
}

// keys collects the keys of frames. A damaged one has none.
func (r *restorer) keys(ctx context.Context, _ uint8, _ uint64, run [][]byte) error {
	for _, frame := range run {
		_, keys, err := decodeFrame(frame)
		if err != nil {
			continue
		}
		for _, k := range keys {
			home := k.key.home(r.parts.Keyed)
			if r.waiting[home] = append(r.waiting[home], k.key.text()); len(r.waiting[home]) < restoreBatch {
				continue
			}
			if err := r.flush(ctx, home); err != nil {
				return err
			}
		}
	}
	return nil
}

// flush stores what was collected for a partition.
func (r *restorer) flush(ctx context.Context, home int) error {
	keys := r.waiting[home]
	if len(keys) == 0 {
		return nil
	}
	if err := r.o.Step("restore.keys"); err != nil {
		return err
	}
	if err := r.parts.List[home].StoreKeys(ctx, keys, AppendFrame(nil)); err != nil {
		return fmt.Errorf("restore keys of partition %d: %w", home, err)
	}
	r.waiting[home] = keys[:0]
	return nil
}

// restoring reads a copy.
type restoring struct {
	r          *bufio.Reader
	next, last uint64 // numbers of the frames to come
	keep       func([]byte) []byte
	at         uint64 // number of the frame that was read and comes later; 0 for none
	frame      []byte
}

var errCopy = errors.New("the copy is damaged")

// run returns some of the frames that come next.
func (c *restoring) run() (out [][]byte, err error) {
	for bytes := 0; c.next <= c.last && len(out) < restoreBatch && bytes < restoreBytes; c.next++ {
		if c.at == 0 {
			if err := c.read(); err != nil {
				return nil, err
			}
		}
		if c.at > c.next {
			out = append(out, lostFrame())
			continue
		}
		out, bytes, c.at = append(out, c.frame), bytes+len(c.frame), 0
	}
	return out, nil
}

// read reads the next frame that the copy has.
func (c *restoring) read() error {
	var head [copyHeader]byte
	if _, err := io.ReadFull(c.r, head[:]); err != nil {
		return fmt.Errorf("%w: frame %d of %d: %w", errCopy, c.next, c.last, err)
	}
	c.at = binary.LittleEndian.Uint64(head[:])
	size := int(binary.LittleEndian.Uint32(head[8:]))
	if c.at < c.next || c.at > c.last || size > maxCopied {
		return fmt.Errorf("%w: behind frame %d", errCopy, c.next-1)
	}
	c.frame = make([]byte, size)
	if _, err := io.ReadFull(c.r, c.frame); err != nil {
		return fmt.Errorf("%w: frame %d of %d: %w", errCopy, c.at, c.last, err)
	}
	if c.keep == nil {
		return nil
	}
	records, keys, err := decodeFrame(c.frame)
	if err != nil {
		c.frame = lostFrame()
		return nil
	}
	c.frame = frameOf(records, keys, c.keep)
	return nil
}
