package stream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"sluice/internal/engine"
)

// Phase says whether the stream takes records. There is one phase for all partitions; isolate.go says when a partition
// is down by itself.
//
//	Starting ──────────── the first probe is stored ─────────────▶ Writing
//	   │                                                           │ │
//	   │ the probe fails                                           │ │
//	   ▼                          a write fails, or                │ │
//	Probing ◀───────────────────── the engine says it cannot ──────┘ │
//	 │ ▲ │ └────────────────────── a probe is stored ───────▶ Writing   │
//	 │ │ │                                                           │
//	 │ │ └─── the disk is nearly full ──▶ NoSpace ◀──────────────────┘
//	 │ └───── there is space again ──────────┘
//	 ▼
//	Closed: from every phase, when the context of Run ends, or with Close
//
// Only a stored probe leads to Writing: that the engine can write is shown before a sender's record depends on it.
type Phase uint8

// The phases.
const (
	Starting Phase = iota // Run has not shown yet that the engine takes writes
	Probing               // a write went wrong: the stream probes the engine until it takes writes
	Writing               // records are taken
	NoSpace               // the disk, or the account of an external engine, is nearly full
	Closed                // for good
)

var phaseNames = [...]string{"starting", "probing", "writing", "no space", "closed"}

// String returns the phase's name.
func (p Phase) String() string { return phaseNames[p] }

// successors are the moves there are.
var successors = [...][]Phase{
	Starting: {Writing, Probing, NoSpace, Closed},
	Probing:  {Writing, Probing, NoSpace, Closed}, // a new cause is a new Probing
	Writing:  {Probing, NoSpace, Closed},
	NoSpace:  {Probing, Closed},
	Closed:   {},
}

// Status is what everybody reads who asks whether the stream takes records.
type Status struct {
	Phase Phase
	Err   error // why no record is taken; nil exactly in Writing
}

// move changes the phase. It does nothing, and returns false, for a move that does not exist; and with a status that
// was read before, if that is no longer the newest: a fault that came while a probe ran must stand.
func (s *Stream) move(since *Status, to Phase, cause error) bool {
	st := Status{Phase: to}
	switch to {
	case Probing:
		st.Err = fmt.Errorf("%w: %w", ErrUnavailable, cause)
	case NoSpace:
		st.Err = fmt.Errorf("%w: %s", ErrNoSpace, s.disk.full())
	case Closed:
		st.Err = ErrClosed
	}
	s.moving.Lock()
	before := s.status.Load()
	if since != nil && since != before || !slices.Contains(successors[before.Phase], to) {
		s.moving.Unlock()
		return false
	}
	s.status.Store(&st)
	s.moving.Unlock()

	if before.Phase == Starting {
		close(s.begun)
	}
	s.logMove(before.Phase, &st)
	if to == Probing {
		s.e.Suspect()
		s.notice()
	}
	return true
}

// notice makes watch act at once.
func (s *Stream) notice() {
	select {
	case s.noticed <- struct{}{}:
	default:
	}
}

// logMove says once that no record is taken, and once that records are taken again.
func (s *Stream) logMove(from Phase, to *Status) {
	switch {
	case to.Phase == Writing && from != Starting:
		s.n.revived.Add(1)
		s.o.Log.Info("stream takes records again")
	case to.Phase == Probing && from != Probing && from != NoSpace:
		s.o.Log.Error("stream takes no records", "error", to.Err)
	case to.Phase == NoSpace:
		s.o.Log.Warn("stream takes no records: "+s.disk.full(),
			"free", mebibytes(s.disk.free.Load()), "needed", mebibytes(s.disk.need.Load()))
	}
}

// Status says whether a record would be taken now. It asks nobody and returns at once.
func (s *Stream) Status() Status {
	st := *s.status.Load()
	if st.Phase == Writing && s.queued.Load() >= s.o.MaxQueue {
		st.Err = ErrOverloaded
	}
	return st
}

// Ready returns nil when a record would be taken now, and else why not.
func (s *Stream) Ready() error { return s.Status().Err }

// watch moves the phase until ctx ends. Every second, and at once when something happens, it looks at the disk and at
// the engine, probes the engine if a write went wrong, and saves how far the partitions reach.
func (s *Stream) watch(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		changed, unwell := s.e.Changed(), s.e.Unwell()
		s.look(ctx)
		if s.e.Mode() == engine.External && s.search.due(s.o.Now(), s.e.Settled(), len(s.ailing()), len(s.writers)) {
			s.o.Log.Warn("the NATS server does not store records; trying another one", "partitions_down", len(s.ailing()))
			s.e.Move()
		}
		s.saveEnds(ctx, unwell)
		s.keys.tend(ctx)
		var again <-chan time.Time
		if s.e.Mode() == engine.External && len(s.ailing()) > 0 { // as soon as there is a leader again, senders should know
			again = time.After(probeAgain)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-again:
		case <-s.noticed:
		case <-unwell:
		case <-changed:
		}
		if closed(unwell) { // it may be well again by now, but what was on its way is lost
			s.move(nil, Probing, errors.New("the engine or the connection to it was lost"))
		}
		if closed(changed) {
			for _, w := range s.writers {
				w.abort()
			}
		}
	}
}

// probeAgain is the time between two probes of a partition that is down (arbitrary).
const probeAgain = 200 * time.Millisecond

// closed says whether a channel is closed that nobody sends to.
func closed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// look moves the phase by what disk and engine say.
func (s *Stream) look(ctx context.Context) {
	if !s.disk.remote || s.e.Health() == nil {
		s.checkDisk()
	}
	if err := s.e.Health(); err != nil {
		st := s.status.Load()
		if st.Phase == Writing || st.Phase == Starting || st.Phase == Probing &&
			!strings.Contains(st.Err.Error(), err.Error()) {
			s.move(st, Probing, err) // who asks is told the newest cause
		}
		return
	}
	if st := s.status.Load(); st.Phase == Starting || st.Phase == Probing {
		s.probe(ctx, st)
	}
	if s.status.Load().Phase != Writing {
		return
	}
	if down := s.ailing(); len(down) > 0 {
		s.revive(ctx, down, nil)
	}
	for _, w := range s.writers {
		if err := w.settle(ctx); err != nil {
			s.o.Log.Debug("keys not settled yet", "partition", w.part, "error", err)
		}
	}
}

// checkDisk asks the disk. A disk that cannot be asked counts as full.
func (s *Stream) checkDisk() {
	enough, err := s.disk.look()
	phase := s.status.Load().Phase
	switch {
	case !enough:
		if s.move(nil, NoSpace, nil) && err != nil {
			s.o.Log.Error("stream cannot see the disk", "error", err)
		}
	case phase == NoSpace:
		s.move(nil, Probing, errors.New("there was no space"))
	}
}

// timeToLook asks the disk now, because much was written; in the background where the question goes over a network. No
// answer is waited for when what was free is used up.
func (s *Stream) timeToLook() {
	if s.disk.remote {
		if s.disk.usedUp() {
			s.move(nil, NoSpace, nil)
		}
		s.notice()
		return
	}
	s.checkDisk()
}

// probe writes to every partition and moves to Writing when all of them stored it; on a cluster when one did.
func (s *Stream) probe(ctx context.Context, since *Status) {
	if ctx.Err() != nil {
		return
	}
	if err := s.keys.load(ctx); err != nil {
		s.o.Log.Error("idempotency keys cannot be read", "error", err)
		if since.Phase == Starting {
			s.move(since, Probing, err)
		}
		return
	}
	var found func()
	if s.isolated() {
		found = func() { s.move(since, Writing, nil) }
	}
	errs := slices.DeleteFunc(s.revive(ctx, s.writers, found), func(err error) bool { return err == nil })
	switch {
	case len(errs) == 0 && found == nil:
		s.move(since, Writing, nil)
	case len(errs) > 0 && since.Phase == Starting:
		s.move(since, Probing, errs[0])
	}
}

// fill makes sure that the next sequence number is above every one that was ever given out. The engine's may have
// fallen back, because it drops the rest of a block behind a damaged byte without a word. Readers are past those
// numbers and would not see what is stored under them a second time, so a frame that tells of the loss takes each. A
// thousand of these frames share one sync. What the reader has stored is not lost.
//
// A server that was the leader and does not know yet that it is none may answer with an end that lies behind. So the
// first of these frames is stored only if the partition really ends there: else nothing is lost. The others must follow
// it: another node may fill, too, and then the next probe goes on.
func (w *writer) fill(ctx context.Context) error {
	last, err := w.askEnd(ctx)
	high := w.high.Load()
	if err != nil || last >= high {
		return err
	}
	seq, err := w.writeLost(ctx, last)
	if err != nil || seq > high {
		return err
	}
	if first := max(seq, w.stored.Load()+1); first <= high {
		w.s.o.Log.Error("stream has lost its newest frames", "partition", w.part, "first", first, "last", high)
		w.s.n.lost.Add(high - first + 1)
	}
	last = seq
	for last < high {
		n := min(engine.MaxBatch, high-last)
		if last, err = w.writeAllLost(ctx, last, n); err != nil {
			return err
		}
	}
	return nil
}

// askEnd asks for the last sequence number, again after a while, and takes the first answer: nobody answers a question
// that came while the partition had no leader, and by now it may have one.
func (w *writer) askEnd(ctx context.Context) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, w.s.o.AckTimeout)
	defer cancel()
	type answer struct {
		last uint64
		err  error
	}
	answers := make(chan answer)
	ask := func() {
		last, err := w.s.Last(ctx, w.part)
		select {
		case answers <- answer{last, err}:
		case <-ctx.Done():
		}
	}
	tick := time.NewTicker(probeAgain)
	defer tick.Stop()
	for {
		go ask()
		select {
		case a := <-answers:
			return a.last, a.err
		case <-ctx.Done():
			return 0, ErrTimeout
		case <-tick.C:
		}
	}
}

// writeLost stores the first frame that tells of a loss behind the last one, or an empty one if that is not the last.
func (w *writer) writeLost(ctx context.Context, last uint64) (uint64, error) {
	if w.s.e.Mode() != engine.External { // what it says is so
		return w.write(ctx, lostFrame())
	}
	sent, cancel := context.WithTimeout(ctx, w.s.o.AckTimeout)
	defer cancel()
	seq, err := w.log.PublishAfter(sent, last, lostFrame())
	if errors.Is(err, engine.ErrRevision) {
		return w.write(ctx, AppendFrame(nil))
	}
	return seq, translate(err)
}

// fillWithin bounds one batch of fill. Arbitrary: much longer than a sync takes on a slow disk.
const fillWithin = 10 * time.Second

// writeAllLost stores n frames that tell of a loss behind the last one, and returns the number of the last of them.
func (w *writer) writeAllLost(ctx context.Context, last, n uint64) (uint64, error) {
	if err := w.s.at("lost", "publish"); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, fillWithin)
	defer cancel()
	seq, err := w.log.PublishBatch(ctx, last, slices.Repeat([][]byte{lostFrame()}, int(n)))
	return seq, translate(err)
}

// write stores a frame of our own making.
func (w *writer) write(ctx context.Context, frame []byte) (uint64, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, w.s.o.AckTimeout, ErrTimeout)
	defer cancel()
	seq, err := w.send(ctx, "probe", "", frame)
	if err == nil {
		w.raise(seq)
	}
	return seq, err
}

// High is the highest sequence number of a partition that is known to have been given out.
func (s *Stream) High(partition uint8) uint64 { return s.writers[partition].high.Load() }

// Resume tells up to where the reader of a partition has stored everything, before Run. The engine normally is past
// that; if it came back from a crash, from damage or from a backup without its newest frames, Run first takes the
// numbers they had, so that none is given out again to a record which the reader would then never see.
func (s *Stream) Resume(partition uint8, seq uint64) {
	w := s.writers[partition]
	w.stored.Store(seq)
	w.raise(seq)
}
