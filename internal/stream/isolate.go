package stream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"sluice/internal/engine"
)

// A cluster chooses a leader for each partition by itself. While one partition has none, the others take records: only
// that partition is down, appends without a key go around it, and the phase of the stream stays Writing. An engine in
// this process has one disk for all partitions, so there a failed write stops the stream.

// isolated says whether one partition can be down by itself.
func (s *Stream) isolated() bool { return len(s.writers) > 1 && s.e.Mode() == engine.External }

// up says whether the partition takes records as far as is known.
func (w *writer) up() bool { return w.down.Load() == nil }

// fault stops the taking of records for this partition, or for the stream if no other partition takes any, because of
// err. It returns err.
func (w *writer) fault(err error) error {
	s := w.s
	first := w.down.Swap(&err) == nil
	if !s.isolated() || s.e.Health() != nil || !slices.ContainsFunc(s.writers, (*writer).up) {
		s.move(nil, Probing, err)
		return err
	}
	if first {
		s.o.Log.Warn("a partition takes no records; the others do", "partition", w.part, "error", err)
		s.e.Suspect() // the server that the connection goes to may be the cause, and then it is that of all partitions
	}
	s.notice()
	return err
}

// pick returns the partition for the next record: the one whose turn it is, as long as that keeps up, else one after it
// that does. When none keeps up, it is the first for which not too much waits; and when there is none, the next that is
// up.
//
// A turn ends when nothing waits for the partition, and after a second: records that come together share a frame, and
// partitions grow alike. Each frame costs each server of a cluster a sync, however small it is. When records took turns
// one by one, six partitions cost twice the processor time of one for 64 senders of single events. A slow disk makes
// all partitions slow, and then it is all the more important to share frames.
func (s *Stream) pick() *writer {
	n := uint32(len(s.writers))
	if n == 1 {
		return s.writers[0]
	}
	now := s.o.Now()
	turn := s.turn(now)
	for _, slowToo := range []bool{false, true} {
		for i := range n {
			if w := s.writers[(turn+i)%n]; w.up() && w.waiting.Load() < enoughWaiting && (slowToo || !w.slow(now)) {
				return w
			}
		}
	}
	turn = s.turns.Add(1)
	for i := range n {
		if w := s.writers[(turn+i)%n]; w.up() {
			return w
		}
	}
	return s.writers[turn%n]
}

// turn is the number of the turn; the partitions have them one after the other.
func (s *Stream) turn(now time.Time) uint32 { return s.turns.Load() + uint32(now.Unix()) }

// endTurn is called when nothing waits for a partition.
func (w *writer) endTurn() {
	s := w.s
	if turn := s.turn(s.o.Now()); s.writers[turn%uint32(len(s.writers))] == w {
		s.turns.Add(1)
	}
}

// A partition keeps up while less than this waits for it, and no frame is on its way for longer (both arbitrary: some
// large batches, and some syncs of a slow disk). So records go around a partition that lost its leader before it counts
// as down.
const (
	enoughWaiting = 1 << 20
	slowFrame     = 100 * time.Millisecond
)

// slow says whether a frame of the partition is on its way for long.
func (w *writer) slow(now time.Time) bool {
	oldest := w.oldest.Load()
	return oldest != nil && now.Sub(oldest.born) >= slowFrame
}

// errElsewhere ends the wait of a record behind a slow frame: another partition can take it.
var errElsewhere = fmt.Errorf("%w: another partition is faster", ErrUnavailable)

// evictBehind evicts what waits behind a frame, again and again while the frame is on its way. The caller may stop the
// first time.
func (w *writer) evictBehind(g *group) *time.Timer {
	return time.AfterFunc(slowFrame, func() {
		w.evict()
		w.mu.Lock()
		defer w.mu.Unlock()
		if g.phase == sending {
			w.evictBehind(g)
		}
	})
}

// evict ends the wait of records, if another partition keeps up. Nothing of them was sent.
func (w *writer) evict() {
	s := w.s
	if to := s.pick(); to == w || to.slow(s.o.Now()) {
		return
	}
	w.mu.Lock()
	waiting := w.full
	if w.open != nil {
		waiting = append(waiting, w.open)
	}
	w.full, w.open = nil, nil
	for _, g := range waiting {
		w.answer(g, 0, errElsewhere)
	}
	w.mu.Unlock()
	for _, g := range waiting {
		w.release(g)
	}
}

// goesElsewhere says whether err means that nobody got the record, and another partition may take it.
func (s *Stream) goesElsewhere(err error) bool {
	return err != nil && (errors.Is(err, engine.ErrNoLeader) || errors.Is(err, errElsewhere)) && s.isolated() &&
		s.status.Load().Phase == Writing
}

// appendElsewhere is Append for a record that its partition did not get, in the time that is left. That partition is
// known to be down or slow by now, so others are picked.
func (s *Stream) appendElsewhere(ctx context.Context, record []byte, left time.Duration) (at Position, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, left, ErrTimeout)
	defer cancel()
	for err = errElsewhere; s.goesElsewhere(err) && ctx.Err() == nil; {
		at, err = s.appendOnce(ctx, record)
	}
	if err == context.DeadlineExceeded && context.Cause(ctx) == ErrTimeout {
		err = ErrTimeout
	}
	return at, err
}

// revive probes partitions at the same time and marks those that stored it as up. It calls found with the first.
func (s *Stream) revive(ctx context.Context, which []*writer, found func()) (errs []error) {
	errs = make([]error, len(which))
	var once sync.Once
	var wg sync.WaitGroup
	for i, w := range which {
		wg.Go(func() {
			err := w.fill(ctx)
			if err == nil {
				_, err = w.write(ctx, AppendFrame(nil)) // the probe
			}
			if errs[i] = err; err != nil {
				w.down.Store(&err)
				s.o.Log.Debug("stream probe", "partition", w.part, "error", err)
				return
			}
			if w.down.Swap(nil) != nil && s.isolated() && s.status.Load().Phase == Writing {
				s.o.Log.Info("a partition takes records again", "partition", w.part)
			}
			if found != nil {
				once.Do(found)
			}
		})
	}
	wg.Wait()
	return errs
}

// ailing are the partitions that are down.
func (s *Stream) ailing() (down []*writer) {
	for _, w := range s.writers {
		if !w.up() {
			down = append(down, w)
		}
	}
	return down
}

// search says when to try another server of a cluster. The one that the connection goes to may be cut off from the
// others: it answers and stores nothing, or nothing for partitions that are led by a server that it does not reach.
type search struct {
	since time.Time // when partitions were first down, or the connections were last made; only differences count
	moves int       // without success so far
}

// While no partition takes records, a server gets this long: a probe takes up to two time-outs. While some do, a move
// costs them what is on its way; so first there is time for an election, which takes up to 8 s, and then more and more.
const (
	tryAll     = 2500 * time.Millisecond
	trySome    = 10 * time.Second
	trySomeMax = 2 * time.Minute // arbitrary
)

// due says whether to move now, with so many partitions of all down. A server has its time from when all connections
// stand.
func (f *search) due(now time.Time, settled bool, down, all int) bool {
	if down == 0 {
		*f = search{}
		return false
	}
	if f.since.IsZero() || !settled {
		f.since = now
	}
	wait := tryAll
	if down < all {
		wait = min(trySome<<min(f.moves, 4), trySomeMax)
	}
	if now.Sub(f.since) < wait {
		return false
	}
	f.since = now
	f.moves++
	return true
}
