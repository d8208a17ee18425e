package stream

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/engine"
)

// lane is the way into one partition. Records that arrive while a frame is being written gather in the open group; it
// is sent when the way is free, so an idle stream waits for nobody and a busy one shares each sync among many.
type lane struct {
	s      *Stream
	part   uint8
	log    *engine.Partition
	high   atomic.Uint64 // the highest sequence number known to have been given out
	grown  bell          // high was raised
	marked uint64        // the high that was last noted; only watch touches it
	pace   pace

	mu     sync.Mutex
	ready  sync.Cond // something may be taken, or the lane is closed
	open   *group    // takes records; nil when there are none
	full   []*group  // closed groups in order, waiting for a place in flight
	flying []*group  // on their way
	closed bool
	direct sync.WaitGroup // calls that write on their own
	places chan struct{}  // taken by them
}

// group is a frame in the making, shared by the callers that wait for it.
type group struct {
	buf    []byte
	n      int
	size   int64 // of the records
	born   time.Time
	timer  *time.Timer
	ctx    context.Context // of the write; ends with the group's time
	cancel context.CancelCauseFunc

	mu   sync.Mutex
	sent bool
	conn uint64        // the connection it was sent over
	over bool          // the fields below are final
	done chan struct{} // closed when over
	seq  uint64
	err  error
}

func newLane(s *Stream, log *engine.Partition, p uint8) *lane {
	l := &lane{s: s, part: p, log: log, pace: pace{begun: s.o.Now()}, places: make(chan struct{}, maxDirect)}
	l.ready.L = &l.mu
	return l
}

// overlap is how large the open group must be to be sent while another frame is on its way. Below it, waiting for the
// frame on its way and sharing one sync costs less than a second sync; above it, encoding and copying the next frame
// are better done while the disk works. Measured; the figure is not sharp.
const overlap = 64 << 10

var frames = sync.Pool{New: func() any { b := make([]byte, 0, 64<<10); return &b }}

// Append stores a record. It returns a position only once the record is on stable storage; callers that append
// together share the cost of one sync. After ErrTimeout or the end of ctx the record may or may not be there; after
// any other error it is not. The record is the caller's again when Append returns.
func (s *Stream) Append(ctx context.Context, record []byte) (Position, error) {
	if err := s.admit(ctx, len(record)); err != nil {
		return Position{}, err
	}
	l := s.lanes[0]
	if len(s.lanes) > 1 {
		l = s.lanes[s.next.Add(1)%uint32(len(s.lanes))]
	}
	g, slot, err := l.add(record)
	if err != nil {
		s.queued.Add(-int64(len(record)))
		return Position{}, err
	}
	select {
	case <-g.done:
	case <-ctx.Done():
		s.n.abandoned.Add(1)
		return Position{}, ctx.Err()
	}
	if g.err != nil {
		return Position{}, g.err
	}
	return Position{Partition: l.part, Seq: g.seq, Slot: slot}, nil
}

// admit refuses early what could not be written, and else counts size bytes as waiting.
func (s *Stream) admit(ctx context.Context, size int) error {
	if size > s.maxRecord {
		return ErrTooLarge
	}
	if err := s.awaitRun(ctx); err != nil {
		return err
	}
	if err := s.refusal(); err != nil {
		s.n.refuse(err)
		return err
	}
	if s.queued.Add(int64(size)) > s.o.MaxQueue {
		s.queued.Add(-int64(size))
		s.n.refuse(ErrOverloaded)
		return ErrOverloaded
	}
	return nil
}

// awaitRun lets a caller that comes before Run wait for it.
func (s *Stream) awaitRun(ctx context.Context) error {
	select {
	case <-s.started:
		return nil
	default:
	}
	timer := time.NewTimer(s.o.AckTimeout)
	defer timer.Stop()
	select {
	case <-s.started:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return ErrUnavailable
	}
}

// add puts a copy of the record into the open group.
func (l *lane) add(record []byte) (*group, uint16, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, 0, ErrClosed
	}
	if g := l.open; g != nil && (len(g.buf)+len(record) > l.s.o.MaxFrame || g.n == MaxSlots) {
		l.full = append(l.full, g)
		l.open = nil
		l.ready.Signal()
	}
	// When the oldest waiting group has used half its time, more would only wait in vain.
	if l.late() {
		l.s.n.refuse(ErrOverloaded)
		return nil, 0, ErrOverloaded
	}
	g := l.open
	if g == nil {
		buf := frames.Get().(*[]byte)
		g = &group{buf: beginFrame(*buf), born: l.s.o.Now(), done: make(chan struct{})}
		g.ctx, g.cancel = context.WithCancelCause(context.Background())
		g.timer = time.AfterFunc(l.s.o.AckTimeout, func() { l.expire(g) })
		l.open = g
	}
	before := len(g.buf)
	g.buf = appendRecord(g.buf, record)
	slot := uint16(g.n)
	g.n++
	g.size += int64(len(record))
	if len(l.flying) == 0 && g.n == 1 || before < overlap && len(g.buf) >= overlap {
		l.ready.Signal()
	}
	return g, slot, nil
}

// late says whether the oldest waiting group has used half its time. One that has used more than all of it would be
// gone: then the clock was set.
func (l *lane) late() bool {
	if len(l.full) == 0 {
		return false
	}
	age := l.s.o.Now().Sub(l.full[0].born)
	return age > l.s.o.AckTimeout/2 && age <= l.s.o.AckTimeout
}

// take waits for a group that should be sent now. It returns nil when the lane is closed and empty.
func (l *lane) take() *group {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		free := len(l.flying) == 0 || !l.pace.crowded(l.s.o.AckTimeout)
		if len(l.full) > 0 && free {
			g := l.full[0]
			l.full = l.full[1:]
			l.flying = append(l.flying, g)
			return g
		}
		if g := l.open; g != nil && len(l.full) == 0 && free && (len(l.flying) == 0 || len(g.buf) >= overlap) {
			l.open = nil
			l.flying = append(l.flying, g)
			return g
		}
		if l.closed && l.open == nil && len(l.full) == 0 {
			return nil
		}
		l.ready.Wait()
	}
}

// abort ends the wait for frames that were sent over a connection that is gone: no acknowledgement will come, and what
// waits behind them need not wait as well.
func (l *lane) abort() {
	now := l.s.e.Connection()
	l.mu.Lock()
	flying := slices.Clone(l.flying)
	l.mu.Unlock()
	for _, g := range flying {
		if g.sentBefore(now) {
			l.expire(g)
		}
	}
}

// landed frees the place of a frame that is no longer on its way.
func (l *lane) landed(g *group) {
	l.mu.Lock()
	i := slices.Index(l.flying, g)
	l.flying = slices.Delete(l.flying, i, i+1)
	if l.open != nil || len(l.full) > 0 || l.closed {
		l.ready.Signal()
	}
	l.mu.Unlock()
}

// close refuses further records; those already taken are still written.
func (l *lane) close() {
	l.mu.Lock()
	l.closed = true
	l.ready.Broadcast()
	l.mu.Unlock()
}

// finish gives the group's callers their answer; only the first one counts. It reports whether this was it.
func (g *group) finish(seq uint64, err error) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.over {
		return false
	}
	g.over, g.seq, g.err = true, seq, err
	g.timer.Stop()
	g.cancel(err)
	close(g.done)
	return true
}

// send marks the group as on its way over a connection, unless its callers have their answer already.
func (g *group) send(conn uint64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sent, g.conn = !g.over, conn
	return g.sent
}

func (g *group) sentBefore(conn uint64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.sent && g.conn < conn
}

func (g *group) wasSent() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.sent
}

// bell wakes all who wait for the next event.
type bell struct {
	mu sync.Mutex
	ch chan struct{}
}

// wait returns a channel that the next ring closes.
func (b *bell) wait() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch == nil {
		b.ch = make(chan struct{})
	}
	return b.ch
}

func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch != nil {
		close(b.ch)
		b.ch = nil
	}
}
