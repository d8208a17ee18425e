package loader

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/engine"
	"sluice/internal/stream"
)

// Backlog knows what is in the stream and not in the tables yet. It is a fact of the stream and of the watermarks,
// whoever loads, and if nobody does. Every node has one, and so has the command that shows the state of a cluster.
type Backlog struct {
	o    BacklogOptions
	all  atomic.Pointer[[]*tail]
	grow sync.Mutex
}

// BacklogOptions are all required.
type BacklogOptions struct {
	Engine     *engine.Engine
	Partitions func() int
	// Watermark is up to which number of a partition everything is in the tables, as far as is known. Where nothing is
	// known everything in the stream counts as waiting.
	Watermark func(partition uint8) (seq uint64, known bool)
}

const (
	// askEvery is how often the engine is asked, at most.
	askEvery = time.Second
	// askAgain is after how long the engine is asked for a frame again that waits: it may have aged out. Arbitrary.
	askAgain = 10 * time.Second
	// askWait bounds a look. Arbitrary: a partition without a leader does not answer.
	askWait = 2 * time.Second
	// passMost bounds how many frames without records one look passes over. Arbitrary: a node writes five a second at
	// most.
	passMost = 256
	// silentAfter is for how long an answer of the engine counts. Arbitrary: two looks that fail, and a third.
	silentAfter = 5 * time.Second
	// UnloadedAfter is for how long a watermark may stand still though frames wait, before nobody loads the partition. A
	// loader that dies is replaced after 9 s; arbitrary multiple of that.
	UnloadedAfter = 30 * time.Second
)

// tail is a partition behind its watermark. Only look changes it.
type tail struct {
	passed uint64 // up to here, frames behind the watermark have no records
	clock  clock
	now    atomic.Pointer[sight]
}

// clock is what time it is for the engine, which dates the frames: the clock of this machine may be wrong by hours.
type clock struct{ theirs, ours time.Time }

// age is how old a frame is.
func (c *clock) age(stored time.Time) time.Duration {
	return c.theirs.Sub(stored) + time.Since(c.ours)
}

// sight is what a look has found. Times of this process are only compared with each other.
type sight struct {
	mark  uint64
	known bool
	moved time.Time     // the watermark did
	begun time.Time     // the first look was
	asked time.Time     // the engine last answered
	first uint64        // number of the first frame that waits; 0 if none does
	seen  time.Time     // when this process first saw it
	age   time.Duration // it had then
}

// NewBacklog makes one that knows nothing until the first Look.
func NewBacklog(o BacklogOptions) *Backlog {
	b := &Backlog{o: o}
	b.all.Store(new([]*tail))
	return b
}

// Run looks every second until ctx ends.
func (b *Backlog) Run(ctx context.Context) error {
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			b.Look(ctx)
		}
	}
}

// Look asks the engine for the first frame behind the watermark of each partition. A partition that does not answer
// keeps what was known of it.
func (b *Backlog) Look(ctx context.Context) {
	b.grow.Lock()
	defer b.grow.Unlock()
	all := *b.all.Load()
	if n := b.o.Partitions(); len(all) < n {
		all = slices.Clone(all)
		for len(all) < n {
			all = append(all, &tail{})
		}
		b.all.Store(&all)
	}
	ctx, cancel := context.WithTimeout(ctx, askWait)
	defer cancel()
	var wg sync.WaitGroup
	for p, t := range all {
		wg.Go(func() { b.look(ctx, uint8(p), t) })
	}
	wg.Wait()
}

func (b *Backlog) look(ctx context.Context, p uint8, t *tail) {
	now := time.Now()
	s := sight{moved: now, begun: now}
	if before := t.now.Load(); before != nil {
		s = *before
	}
	mark, known := b.o.Watermark(p)
	if mark < s.mark { // the table was rolled back
		t.passed, s.first = 0, 0
	}
	if mark != s.mark {
		s.mark, s.moved = mark, now
	}
	s.known = known
	defer func() { t.now.Store(&s) }()
	if s.first > mark && now.Sub(s.asked) < askAgain {
		return
	}
	for range passMost {
		seq, at, records, err := stream.Peek(ctx, b.o.Engine.Partition(p), max(mark, t.passed)+1)
		switch {
		case errors.Is(err, stream.ErrNotFound):
			s.first, s.asked = 0, now
			return
		case err != nil:
			return
		case records:
			if seq != s.first {
				if b.readClock(ctx, p, &t.clock); t.clock.theirs.IsZero() {
					return // its age is not known: the next look asks again
				}
				s.first, s.seen, s.age = seq, now, max(0, t.clock.age(at))
			}
			s.asked = now
			return
		}
		t.passed = seq
	}
}

// readClock asks the engine for its time, at most every ten seconds. If it does not answer, the last one counts.
func (b *Backlog) readClock(ctx context.Context, p uint8, c *clock) {
	if !c.theirs.IsZero() && time.Since(c.ours) < askAgain {
		return
	}
	if st, err := b.o.Engine.Partition(p).State(ctx); err == nil {
		*c = clock{st.Asked, time.Now()}
	}
}

// PartitionBacklog is what waits in a partition.
type PartitionBacklog struct {
	Watermark uint64
	Known     bool          // somebody could read the watermark; else everything in the stream counts as waiting
	First     uint64        // number of the first frame with records behind the watermark; 0 if there is none
	Age       time.Duration // of that frame; without one, for how long the engine could not say that there is none
	Still     time.Duration // for how long it waits and the watermark has not moved; 0 if none waits
	Silent    bool          // the engine does not answer: there may be more than is known
}

// BacklogStats is what waits in all partitions, by number.
type BacklogStats []PartitionBacklog

// Stats answers from memory.
func (b *Backlog) Stats() BacklogStats {
	all := *b.all.Load()
	out := make(BacklogStats, len(all))
	for p, t := range all {
		out[p] = t.stats()
	}
	return out
}

// Age is that of Stats. It asks nobody, and every request may call it.
func (b *Backlog) Age() (age time.Duration) {
	for _, t := range *b.all.Load() {
		age = max(age, t.stats().Age)
	}
	return age
}

func (t *tail) stats() PartitionBacklog {
	s := t.now.Load()
	if s == nil {
		return PartitionBacklog{Silent: true}
	}
	silent := time.Since(s.asked)
	out := PartitionBacklog{
		Watermark: s.mark, Known: s.known, First: s.first, Silent: s.asked.IsZero() || silent > askAgain+silentAfter,
	}
	if s.first > 0 {
		out.Age = s.age + time.Since(s.seen)
		out.Still = max(0, min(out.Age, time.Since(s.moved)))
		return out
	}
	if out.Silent = s.asked.IsZero() || silent > silentAfter; out.Silent {
		if out.Age = silent; s.asked.IsZero() {
			out.Age = time.Since(s.begun)
		}
	}
	return out
}

// Age is how long the oldest event that is not in the tables has waited; while the engine does not answer, at most.
func (s BacklogStats) Age() (age time.Duration) {
	for _, p := range s {
		age = max(age, p.Age)
	}
	return age
}

// Waits says whether an event waits.
func (s BacklogStats) Waits() bool {
	return slices.ContainsFunc(s, func(p PartitionBacklog) bool { return p.First > 0 })
}

// Known says whether the engine answers for every partition, and somebody could read the watermark of each one that
// holds anything.
func (s BacklogStats) Known() bool {
	unknown := func(p PartitionBacklog) bool { return p.Silent || p.First > 0 && !p.Known }
	return len(s) > 0 && !slices.ContainsFunc(s, unknown)
}

// Unloaded counts the partitions in which events wait and that nobody loads.
func (s BacklogStats) Unloaded() (n int) {
	for _, p := range s {
		if p.Still > UnloadedAfter {
			n++
		}
	}
	return n
}
