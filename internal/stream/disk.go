package stream

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"sluice/internal/durable"
	"sluice/internal/engine"
)

const (
	// minFiles is how many files the disk must still be able to hold: the engine starts a file per block and writes its
	// indexes beside them. The figure is arbitrary.
	minFiles = 64
	// spaceStep is after how many written bytes the disk is asked again, whatever the time.
	spaceStep = 8 << 20
)

// disk knows whether there is space. Near the end no record is taken, because an engine that meets a full disk takes
// nothing at all until it is restarted.
type disk struct {
	ask      func() (durable.Disk, error)
	remote   bool // it is the storage of an external engine: to ask costs a question over the network
	headroom int64
	copies   func() int   // of each byte, as far as the storage counts them
	margin   func() int64 // see Margin; nothing for a disk, which this process alone fills

	size    atomic.Int64 // at the last look; 0 while unknown
	free    atomic.Int64 // at the last look
	need    atomic.Int64 // below which the disk counts as full
	written atomic.Int64 // since then
}

func (d *disk) init(s *Stream, o Options, e *engine.Engine) {
	d.headroom, d.ask = o.Headroom, o.Disk
	d.copies, d.margin = func() int { return 1 }, func() int64 { return 0 }
	if d.ask != nil {
		return
	}
	if dir := e.Dir(); dir != "" {
		d.ask = func() (durable.Disk, error) { return durable.Space(dir) }
		return
	}
	d.ask, d.remote = func() (durable.Disk, error) { return askStorage(e) }, true
	d.copies = func() int { return max(1, e.Copies()) }
	d.margin = func() int64 { return Margin(d.copies(), o.Nodes(), s.Partitions()) }
}

// inFlightBytes is what a node may have on its way to one partition when it learns that the storage is full.
const inFlightBytes = 3 << 20 // the defaults of InFlight and MaxFrame

// Margin is how many bytes of an account may be written before the last node knows that it is full, and stops: each
// node counts what it writes itself, and asks after spaceStep bytes. The account counts every copy.
func Margin(copies, nodes, partitions int) int64 {
	return int64(copies) * int64(nodes) * (spaceStep + int64(partitions)*inFlightBytes)
}

// reserve is how much of the storage must be free for records to be taken.
func (d *disk) reserve(size int64) int64 {
	if d.headroom > 0 {
		return d.headroom + d.margin()
	}
	return Headroom(size) + d.margin()
}

// Fits returns nil if the account of an external engine is large enough for the stream, and else how large it must be:
// events get at least as much as the reserve.
func (s *Stream) Fits() error {
	d := &s.disk
	if !d.remote {
		return nil
	}
	now, err := d.ask()
	if err != nil || now.Size == 0 {
		return nil // the stream says what is wrong
	}
	if need := 2 * d.reserve(0); now.Size < need {
		return fmt.Errorf("the NATS account may store %s, and %s are needed for this many nodes, partitions and copies: "+
			"raise its max_file to that or more",
			mebibytes(now.Size), mebibytes(need+1<<20-1))
	}
	return nil
}

// askStorage asks an external engine. Events stop near the end of its storage, so that leases and the registry can
// still be written: else loading would stop, and no key could be revoked. Storage without a limit that we can see is
// not limited here; the engine itself then says that it is full.
func askStorage(e *engine.Engine) (durable.Disk, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	used, limit, err := e.Storage(ctx)
	if err != nil || limit == 0 {
		return durable.Disk{}, err
	}
	return durable.Disk{Size: limit, Free: max(0, limit-used), Files: -1}, nil
}

// look asks the disk, and says whether there is enough space. A disk that cannot be asked has none. An external engine
// may be slow to answer: until it does, the last answer counts, less what was written since.
func (d *disk) look() (enough bool, err error) {
	before := d.written.Swap(0)
	now, err := d.ask()
	if err != nil && d.remote {
		d.written.Add(before)
		return !d.usedUp(), nil
	}
	if err != nil {
		return false, fmt.Errorf("look at the disk: %w", err)
	}
	d.size.Store(now.Size)
	if now.Size == 0 { // unknown
		d.free.Store(0)
		return true, nil
	}
	need := d.reserve(now.Size)
	d.free.Store(now.Free)
	d.need.Store(need)
	return now.Free >= need && (now.Files < 0 || now.Files >= minFiles), nil
}

// Headroom is how many bytes of a disk must be free for records to be taken, unless Options say otherwise. Of an
// account Margin must be free beside them.
func Headroom(size int64) int64 { return max(16<<20, min(512<<20, size/20)) }

// full says what is full.
func (d *disk) full() string {
	if d.remote {
		return "the NATS account has nearly reached its storage limit"
	}
	return "the disk is nearly full"
}

// wrote counts bytes. It says that it is time to look: when many were written since the last look, or enough to use up
// what was free.
func (d *disk) wrote(n int) (look bool) {
	if d.remote && d.free.Load() == 0 {
		return false
	}
	copied := int64(n) * int64(d.copies())
	now := d.written.Add(copied)
	crossed := func(step int64) bool { return now >= step && now-copied < step }
	return crossed(spaceStep*int64(d.copies())) || crossed(d.free.Load()-d.need.Load())
}

// usedUp says whether as much was written since the last look as was free then.
func (d *disk) usedUp() bool {
	return d.free.Load() > 0 && d.written.Load() >= d.free.Load()-d.need.Load()
}

// mebibytes writes bytes for people.
func mebibytes(n int64) string { return fmt.Sprintf("%d MiB", n>>20) }
