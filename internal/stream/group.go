package stream

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"
)

// group is a frame in the making, shared by the callers that wait for it. The writer's lock guards it until it is
// answered; from then on nothing of it changes.
type group struct {
	phase groupPhase
	buf   []byte
	n     int // records
	keys  []slotKey
	size  int64 // of the records
	born  time.Time
	timer *time.Timer // ends the group's time

	ctx    context.Context // of the write; ends with the group's time
	cancel context.CancelCauseFunc
	conn   uint64 // the connection that its frame is sent over, or notSent
	low    uint64 // its frame will have a higher number
	order  uint64 // which group it is of those that were taken to be sent

	done chan struct{} // closed when answered
	seq  uint64
	err  error
}

// groupPhase is where a group is in its life.
//
//	            it is full         a writer takes it       stored, failed, or its time is up
//	gathering ─────────────▶ queued ─────────────▶ sending ────────────────────────────▶ answered
//	  │ │                      │                      ▲                                       ▲
//	  │ └─ a writer is free ───┼──────────────────────┘                                       │
//	  └────────────────────────┴─ its time is up, or evict: it is never sent ────────────────┘
//
// A group whose time is up before it is sent is dropped: its callers got an error, and sending it would only make
// duplicates of their retries. One whose time is up while it is sent may be stored or not: the callers get ErrTimeout.
type groupPhase uint8

const (
	gathering groupPhase = iota // the writer's open group: it takes records
	queued                      // in the writer's full list: it takes no more
	sending                     // in the writer's flying list
	answered                    // the callers have their answer
)

// notSent is the connection of a frame that is about to be sent.
const notSent = math.MaxUint64

var frames = sync.Pool{New: func() any { b := make([]byte, 0, 64<<10); return &b }}

func (w *writer) newGroup() *group {
	g := &group{buf: beginFrame(*frames.Get().(*[]byte)), born: w.s.o.Now(), done: make(chan struct{})}
	g.ctx, g.cancel = context.WithCancelCause(context.Background())
	g.timer = time.AfterFunc(w.s.o.AckTimeout, func() { w.expire(g) })
	return g
}

// answer gives the callers of a group their answer; only the first one counts. It reports whether this was it. The lock
// is held.
func (w *writer) answer(g *group, seq uint64, err error) bool {
	if g.phase == answered {
		return false
	}
	g.phase, g.seq, g.err = answered, seq, err
	g.timer.Stop()
	g.cancel(err)
	if w.waiting.Add(-g.size) == 0 {
		w.endTurn() // before the callers come back
	}
	close(g.done)
	return true
}

// expire ends a group whose time is up.
func (w *writer) expire(g *group) {
	w.mu.Lock()
	before := g.phase
	w.mu.Unlock()
	if before == sending && !w.acks.alive(w.s.o.Now(), w.s.o.AckTimeout) {
		_ = w.fault(ErrTimeout) // before the callers have their answer: they look at the status
	}
	w.mu.Lock()
	before = g.phase
	first := w.answer(g, 0, ErrTimeout)
	switch {
	case !first:
	case before == gathering:
		w.open = nil
	case before == queued:
		w.full = slices.DeleteFunc(w.full, func(f *group) bool { return f == g })
	}
	w.mu.Unlock()
	if !first {
		return
	}
	w.s.n.failed.Add(uint64(g.n))
	if before != sending {
		if len(g.keys) > 0 {
			w.index.release(g.keys...)
		}
		w.release(g)
	}
}

// release takes back what a group holds, once nobody writes from it any more.
func (w *writer) release(g *group) {
	w.s.queued.Add(-g.size)
	reuse(g.buf)
}

// reuse gives the buffer of a frame back that nobody needs any more.
func reuse(buf []byte) {
	if buf = buf[:0]; cap(buf) <= maxPooled {
		frames.Put(&buf)
	}
}

// maxPooled is the largest buffer that is used again: one huge record is rare, and its memory is not kept.
const maxPooled = 2 << 20
