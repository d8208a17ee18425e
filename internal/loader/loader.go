// Package loader carries submissions from the stream into the lake, each once.
package loader

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"sluice/event"
	"sluice/internal/engine"
	"sluice/internal/erasure"
	"sluice/internal/lake"
	"sluice/internal/stream"
	"sluice/internal/submission"
	"sluice/internal/throttle"
)

// Source is the stream, as far as the loader knows it.
type Source interface {
	Partitions() int
	Follow(ctx context.Context, partition uint8, from uint64, gather time.Duration, yield func(stream.Frame) error) error
}

// Target is the lake, as far as the loader knows it.
type Target interface {
	Watermarks(ctx context.Context, partition uint8) (lake.Watermarks, error)
	Commit(ctx context.Context, b lake.Batch, slack time.Duration) error
	Pend(hours []lake.Hour)
}

// Options say what is loaded, and how. Stream, Lake, Quarantine and Now are required.
type Options struct {
	Stream     Source
	Lake       Target
	Quarantine string // directory for frames that cannot be read
	Now        func() time.Time
	Log        *slog.Logger // default: nothing is logged

	Throttle *throttle.Throttle // slows the decoding of frames down; nil does not

	// Engine keeps the leases that let one loader at a time work on a partition; nil takes none, for a single process.
	Engine *engine.Engine

	// Patience is how long commits may fail before this process leaves loading to another one, which may reach the tables;
	// 0 is for ever. It tries again if no other process takes over.
	Patience time.Duration

	// IDs gives rows the submission id that their sender has; nil gives none.
	IDs *submission.IDs

	// Erasures keeps rows out of the lake that were erased from it: a frame may be loaded again, into an older version of
	// the tables. nil knows of none.
	Erasures *erasure.Tombstones

	// Maintain looks after the tables: compaction, expiry, retention, sweep. The process that commits calls it; nil does
	// nothing. It returns when its context ends.
	Maintain func(context.Context) error

	Age     time.Duration // commits of events begin this long apart, and a fifth of it; default 5 s
	Settle  time.Duration // and of counts after this; default 12 times Age, 60 s; 20 times if Age is longer than 5 s
	MaxRows int           // or when so many rows wait; default 64,000
	MaxSize int           // or bytes of frames; default 16 MiB
}

// Loader loads all partitions of a stream.
type Loader struct {
	o          Options
	quarantine *quarantine

	outdated          atomic.Pointer[string]                  // what this program is too old for; nil is as it should be
	endLead           atomic.Pointer[context.CancelCauseFunc] // ends the work of the committer; nil while it is another
	commits, failures atomic.Int64
	complaints        complaints
	commitTime        atomic.Int64 // nanoseconds that commits took, from the first row that is decoded to the visible ones
	arrivals          chan arrival
	requests          chan request
	collected         chan struct{} // closed when the collector has ended

	decoded []event.Row // the events of one record, in memory that is used again; the collector alone uses it

	mu         sync.Mutex
	partitions []*partition
}

// New makes a loader. Nothing runs until Run.
func New(o Options) (*Loader, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.Age = cmp.Or(o.Age, 5*time.Second) // half of the promised ten
	if o.Settle == 0 {
		// Each table costs requests with each commit, and a bucket charges for them; between two, memory has the numbers. Who
		// commits less often wants fewer requests still: at 15 s a day costs fewer than 25,000 writes.
		o.Settle = 12 * o.Age
		if o.Age > 5*time.Second {
			o.Settle = 20 * o.Age
		}
	}
	o.MaxRows = cmp.Or(o.MaxRows, 64_000) // with their text some 60 MB in memory
	o.MaxSize = cmp.Or(o.MaxSize, 16<<20)
	kept, err := openQuarantine(o.Quarantine)
	if err != nil {
		return nil, err
	}
	l := &Loader{
		o: o, quarantine: kept, arrivals: make(chan arrival), requests: make(chan request), collected: make(chan struct{}),
	}
	l.grow()
	return l, nil
}

// grow follows the stream: partitions may be added while it runs.
func (l *Loader) grow() []*partition {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := len(l.partitions); i < l.o.Stream.Partitions(); i++ {
		l.partitions = append(l.partitions, &partition{l: l, id: uint8(i), log: l.o.Log.With("partition", i)})
	}
	return l.partitions
}

// Run loads until ctx ends, then returns nil. It is called once. It writes files, then commits them with the position
// they reach. A crash before the commit leaves files that no snapshot lists; after it, the same frames again are passed
// over. When ctx ends it ends a commit that is under way, and settles the counts of what is committed.
func (l *Loader) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return l.collect(ctx) })
	g.Go(func() error { return l.lead(ctx) })
	for _, p := range l.grow() {
		g.Go(func() error { return p.run(ctx) })
	}
	err := g.Wait()
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// Flush commits what is collected, with all counts, and returns when it is in the lake. It is an error if this process
// loads nothing.
func (l *Loader) Flush() error { return l.ask(request{commit: true, counts: true}) }

// Commit is Flush of the events alone.
func (l *Loader) Commit() error { return l.ask(request{commit: true}) }

// Watermark says up to which sequence number of a partition everything is in the lake, as this process knows it.
func (l *Loader) Watermark(partition uint8) uint64 {
	seq, _, _ := l.Reached(partition)
	return seq
}

// Reached is the watermark of a partition as this process read it, and how long ago that was. It is not known before
// the first time. It asks nobody.
func (l *Loader) Reached(partition uint8) (seq uint64, ago time.Duration, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if int(partition) >= len(l.partitions) {
		return 0, 0, false
	}
	return l.partitions[partition].at()
}

// PartitionStats is the state of one partition.
type PartitionStats struct {
	Partition  uint8
	Held       bool   // this process loads it: it has the lease, and could read the watermarks
	Watermark  uint64 // everything up to here is in the lake
	Commits    int64  // since New, with rows of the partition; one commit may have those of several
	Pending    int    // rows read and not yet committed
	LastCommit time.Time
	Failure    Failure
}

// Stats is the state of a loader.
type Stats struct {
	Partitions []PartitionStats
	Commits    int64         // by this process
	CommitTime time.Duration // of all of them, each from its beginning until its rows are visible
	Failures   int64         // commits and reads of the watermarks that had to be tried again
	Failure    Failure       // of the partition that has it for longest
	Damaged    int64         // frames and records that could not be read, in quarantine; counted over restarts
	Stopped    string        // why nothing is loaded until an operator has decided, and what to do; "" is as it should be
	Missing    int64         // sequence numbers that held nothing when the loader came to them; counted over restarts
}

// Stats answers from memory.
func (l *Loader) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := Stats{Commits: l.commits.Load(), Failures: l.failures.Load(), CommitTime: time.Duration(l.commitTime.Load())}
	out.Damaged, out.Missing = l.quarantine.counts()
	for _, p := range l.partitions {
		st := p.stats()
		out.Partitions = append(out.Partitions, st)
		if t := st.Failure; t.Error != "" && (out.Failure.Error == "" || t.Since.Before(out.Failure.Since)) {
			out.Failure = t
		}
		if why := p.stopped.Load(); why != nil {
			out.Stopped = *why
		}
	}
	if why := l.outdated.Load(); why != nil {
		out.Stopped = *why
	}
	return out
}
