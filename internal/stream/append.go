package stream

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/engine"
)

// writer writes one partition. Records that arrive while a frame is being written gather in the open group; it is sent
// when the way is free, so an idle stream waits for nobody and a busy one shares each sync among many.
type writer struct {
	s          *Stream
	part       uint8
	log        *engine.Partition
	overlap    int           // how large the open group must be to be sent beside another frame
	high       atomic.Uint64 // the highest sequence number known to have been given out
	grown      broadcast     // high was raised
	saved      uint64        // the high that was last saved; only watch touches it
	stored     atomic.Uint64 // up to here the reader has stored everything: see Resume
	acks       ackTime
	down       atomic.Pointer[error] // why it takes no records while others do; nil when it does
	confirming sync.Mutex            // one question at a time whether the partition ends early

	mu     sync.Mutex
	ready  sync.Cond // something may be taken, or the writer is closed
	open   *group    // gathering; nil when there is none
	full   []*group  // queued, in order
	flying []*group  // sending

	waiting atomic.Int64          // bytes of records whose callers have no answer
	oldest  atomic.Pointer[group] // the first of flying; nil when there is none

	index     *keyIndex   // of keys; nil with an external engine
	unsettled []unsettled // keys of frames that may or may not be stored
	taken     uint64      // how many groups were taken to be sent
	newest    sent        // the frame that is stored and was taken last
	probed    time.Time   // when settle last wrote a frame; only watch touches it
	closed    bool
}

func newWriter(s *Stream, log *engine.Partition, p uint8) *writer {
	w := &writer{s: s, part: p, log: log, overlap: overlap, acks: ackTime{begun: s.o.Now()}}
	if s.e.Mode() == engine.External {
		w.overlap = clusterOverlap
	}
	w.ready.L = &w.mu
	return w
}

// overlap is how large the open group must be to be sent while another frame is on its way. Below it, waiting for the
// frame on its way and sharing one sync costs less than a second sync; above it, encoding and copying the next frame
// are better done while the disk works. A cluster syncs each frame on each of its servers. Measured; the figures are
// not sharp.
const (
	overlap        = 64 << 10
	clusterOverlap = 256 << 10
)

// Append stores a record. It returns a position only once the record is on stable storage; callers that append
// together share the cost of one sync. After ErrTimeout or the end of ctx the record may or may not be there; after
// any other error it is not. The record is the caller's again when Append returns.
func (s *Stream) Append(ctx context.Context, record []byte) (Position, error) {
	start := s.o.Now()
	at, err := s.appendOnce(ctx, record)
	if s.goesElsewhere(err) {
		return s.appendElsewhere(ctx, record, s.o.AckTimeout-s.o.Now().Sub(start))
	}
	return at, err
}

func (s *Stream) appendOnce(ctx context.Context, record []byte) (Position, error) {
	if err := s.admit(ctx, len(record)); err != nil {
		return Position{}, err
	}
	return s.appendGroup(ctx, record, nil)
}

// appendGroup puts an admitted record into a group, with the key that was claimed for it, if any, and waits for its
// answer.
func (s *Stream) appendGroup(ctx context.Context, record []byte, name *key) (Position, error) {
	w := s.pick()
	g, slot, err := w.add(record, name)
	if err != nil {
		s.queued.Add(-int64(len(record)))
		if name != nil {
			w.index.release(slotKey{key: *name})
		}
		return Position{}, err
	}
	select {
	case <-g.done:
	case <-ctx.Done():
		return Position{}, ctx.Err()
	}
	if g.err != nil {
		return Position{}, g.err
	}
	return Position{Partition: w.part, Seq: g.seq, Slot: slot}, nil
}

// admit rejects early what could not be written, and else counts size bytes as waiting.
func (s *Stream) admit(ctx context.Context, size int) error {
	if size > s.maxRecord {
		return ErrTooLarge
	}
	st := s.status.Load()
	if st.Phase == Starting {
		if err := s.awaitRun(ctx); err != nil {
			return err
		}
		st = s.status.Load()
	}
	if st.Phase != Writing {
		s.n.reject(st.Err)
		return st.Err
	}
	if s.queued.Add(int64(size)) > s.o.MaxQueue {
		s.queued.Add(-int64(size))
		s.n.reject(ErrOverloaded)
		return ErrOverloaded
	}
	return nil
}

// awaitRun lets a caller that comes before Run wait for it.
func (s *Stream) awaitRun(ctx context.Context) error {
	timer := time.NewTimer(s.o.AckTimeout)
	defer timer.Stop()
	select {
	case <-s.begun:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return ErrUnavailable
	}
}

// add puts a copy of the record into the open group.
func (w *writer) add(record []byte, name *key) (*group, uint16, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, 0, ErrClosed
	}
	if g := w.open; g != nil && (len(g.buf)+len(record) > w.s.o.MaxFrame || g.n == MaxSlots) {
		g.phase = queued
		w.full = append(w.full, g)
		w.open = nil
		w.ready.Signal()
	}
	// When the oldest queued group has used half its time, more would only wait in vain.
	if w.late() {
		w.s.n.reject(ErrOverloaded)
		return nil, 0, ErrOverloaded
	}
	if w.open == nil {
		w.open = w.newGroup()
	}
	g := w.open
	before := len(g.buf)
	g.buf = appendRecord(g.buf, record)
	slot := uint16(g.n)
	if name != nil {
		g.keys = append(g.keys, slotKey{slot, *name})
	}
	g.n++
	g.size += int64(len(record))
	w.waiting.Add(int64(len(record)))
	if len(w.flying) == 0 && g.n == 1 || before < w.overlap && len(g.buf) >= w.overlap {
		w.ready.Signal()
	}
	return g, slot, nil
}

// late says whether the oldest queued group has used half its time. One that has used more than all of it would be
// gone: then the clock was set.
func (w *writer) late() bool {
	if len(w.full) == 0 {
		return false
	}
	age := w.s.o.Now().Sub(w.full[0].born)
	return age > w.s.o.AckTimeout/2 && age <= w.s.o.AckTimeout
}

// next waits for a group that should be sent now. It returns nil when the writer is closed and empty.
func (w *writer) next() *group {
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		if g := w.due(); g != nil {
			w.taken++
			g.phase, g.conn, g.low, g.order = sending, notSent, w.high.Load(), w.taken
			w.flying = append(w.flying, g)
			w.oldest.Store(w.flying[0])
			return g
		}
		if w.closed && w.open == nil && len(w.full) == 0 {
			return nil
		}
		w.ready.Wait()
	}
}

// due removes the group that should be sent now from where it waits, if there is one.
func (w *writer) due() *group {
	if len(w.flying) > 0 && w.acks.crowded(w.s.o.AckTimeout) {
		return nil
	}
	if len(w.full) > 0 {
		g := w.full[0]
		w.full[0] = nil // the array stays, and would hold its frame
		w.full = w.full[1:]
		return g
	}
	if g := w.open; g != nil && (len(w.flying) == 0 || len(g.buf) >= w.overlap) {
		w.open = nil
		return g
	}
	return nil
}

// abort ends the wait for frames that were sent over a connection that is gone: no acknowledgement will come, and what
// waits behind them need not wait as well.
func (w *writer) abort() {
	now := w.s.e.Connection()
	var lost []*group
	w.mu.Lock()
	for _, g := range w.flying {
		if g.conn < now {
			lost = append(lost, g)
		}
	}
	w.mu.Unlock()
	for _, g := range lost {
		w.expire(g)
	}
}

// landed frees the place of a frame that is no longer on its way.
func (w *writer) landed(g *group) {
	w.mu.Lock()
	w.flying = slices.DeleteFunc(w.flying, func(f *group) bool { return f == g })
	w.oldest.Store(nil)
	if len(w.flying) > 0 {
		w.oldest.Store(w.flying[0])
	}
	if w.open != nil || len(w.full) > 0 || w.closed {
		w.ready.Signal()
	}
	w.mu.Unlock()
}

// close rejects further records; those already taken are still written.
func (w *writer) close() {
	w.mu.Lock()
	w.closed = true
	w.ready.Broadcast()
	w.mu.Unlock()
}

// broadcast wakes all who wait for the next event.
type broadcast struct {
	mu sync.Mutex
	ch chan struct{}
}

// wait returns a channel that the next send closes.
func (b *broadcast) wait() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch == nil {
		b.ch = make(chan struct{})
	}
	return b.ch
}

func (b *broadcast) send() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch != nil {
		close(b.ch)
		b.ch = nil
	}
}
