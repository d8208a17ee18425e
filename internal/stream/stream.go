// Package stream is the durable log of submissions.
//
// A record that Append took is on stable storage and has a position; records are read back by position, or in order
// from a sequence number. What a record means is not known here.
package stream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/durable"
	"sluice/internal/engine"
)

// What callers branch on. Every error of Append and AppendKeyed but ErrExists and ErrTooLarge means: not now, try
// later.
var (
	ErrOverloaded  = errors.New("stream: too much is waiting to be written")
	ErrNoSpace     = errors.New("stream: too little space is left")
	ErrFull        = errors.New("stream: the stream has reached its size limit")
	ErrTimeout     = errors.New("stream: no acknowledgement in time; the record may or may not be stored")
	ErrUnavailable = errors.New("stream: the engine takes no writes")
	ErrClosed      = errors.New("stream: closed")
	ErrTooLarge    = errors.New("stream: record too large")
	ErrExists      = errors.New("stream: a record with this key exists")
	ErrNotFound    = errors.New("stream: no such record")
	ErrGone        = errors.New("stream: the record has aged out")
	ErrDamaged     = errors.New("stream: the record cannot be read")
	ErrBehind      = errors.New("stream: the stream ends before the position to read from")
	ErrTooManyKeys = errors.New("stream: as many keys are in use as there may be")
)

// MaxPartitions is how many partitions there can be.
const MaxPartitions = engine.MaxPartitions

// Position says where a record is.
type Position struct {
	Partition uint8
	Seq       uint64 // of the frame, from 1
	Slot      uint16 // of the record within the frame
}

// Options are the stream's limits. The zero value opens a stream as it is, or makes one with the defaults named here.
type Options struct {
	Partitions int           // 0 means those there are, or 1; may grow, never shrink
	MaxAge     time.Duration // how long a record is kept; 0 means as it is, or 72 h
	MaxBytes   int64         // of each partition; 0 means as it is, or no limit but the disk; negative means no limit
	// free bytes of the disk below which nothing is taken; 0 means 5 % of it, at least 16 MiB and at most 512 MiB
	Headroom   int64
	AckTimeout time.Duration // from Append to its error at the latest; 0 means 900 ms
	MaxQueue   int64         // bytes that may wait at once; 0 means 64 MiB
	MaxFrame   int           // bytes of a frame that records share; 0 means 1 MiB
	InFlight   int           // frames of a partition on their way at once; 0 means 3
	// keys in use at one time: 16 bytes of memory each, or about 170 in each server of an external engine; 0 means 32 Mi
	MaxKeys int

	Nodes func() int                   // how many processes write to an external engine; nil means this one alone
	Disk  func() (durable.Disk, error) // free space; nil asks the file system of the engine's directory
	Now   func() time.Time             // nil means time.Now
	Log   *slog.Logger                 // nil means nothing is logged

	// Step is called before each named step of an append; its error leaves the outcome open. Tests crash with it. The
	// names are in the comment of the function that takes the steps.
	Step func(name string) error
}

func (o *Options) setDefaults() {
	o.AckTimeout = cmp.Or(o.AckTimeout, 900*time.Millisecond)
	o.MaxQueue = cmp.Or(o.MaxQueue, 64<<20)
	o.MaxFrame = cmp.Or(o.MaxFrame, 1<<20)
	o.InFlight = cmp.Or(o.InFlight, 3)
	o.MaxKeys = cmp.Or(o.MaxKeys, defaultMaxKeys)
	if o.Nodes == nil {
		o.Nodes = func() int { return 1 }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Step == nil {
		o.Step = noStep
	}
}

func noStep(string) error { return nil }

// Stream is an open stream. Its methods may be called by many goroutines.
type Stream struct {
	o         Options
	e         *engine.Engine
	parts     *engine.Partitions
	writers   []*writer
	maxRecord int

	turns  atomic.Uint32 // of partitions to take records
	queued atomic.Int64  // bytes waiting or on their way
	disk   disk
	ends   *engine.Bucket
	keys   keyStore

	status  atomic.Pointer[Status] // changed by move alone
	moving  sync.Mutex             // one move at a time
	begun   chan struct{}          // closed when Starting is over
	noticed chan struct{}          // the phase is Probing: watch acts at once
	search  search                 // only watch touches it

	n counters
}

// Open makes the partitions where they do not exist and returns the stream. Reading works at once, appending while Run
// runs. Close it when done.
func Open(ctx context.Context, e *engine.Engine, o Options) (*Stream, error) {
	o.setDefaults()
	s := &Stream{
		o: o, e: e, maxRecord: e.MaxMessage(),
		begun: make(chan struct{}), noticed: make(chan struct{}, 1),
	}
	s.disk.init(s, o, e)
	s.status.Store(&Status{Starting, fmt.Errorf("%w: starting", ErrUnavailable)})
	parts, err := e.Partitions(ctx, engine.PartitionOptions{Count: o.Partitions, MaxAge: o.MaxAge, MaxBytes: o.MaxBytes})
	if err != nil {
		return nil, fmt.Errorf("open stream: %w", err)
	}
	s.parts = parts
	for i, p := range parts.List {
		s.writers = append(s.writers, newWriter(s, p, uint8(i)))
	}
	s.openKeys()
	s.turns.Store(rand.Uint32()) // so that processes use different partitions, as far as chance goes
	if err := s.openEnds(ctx); err != nil {
		parts.Close()
		return nil, fmt.Errorf("open stream: %w", err)
	}
	s.keys.tend(ctx)
	return s, nil
}

// openKeys chooses who decides about keys.
func (s *Stream) openKeys() {
	if s.e.Mode() == engine.External {
		s.keys = newKeySubjects(s)
		return
	}
	index := newKeyIndex(s)
	for _, w := range s.writers {
		w.index = index
	}
	s.keys = index
}

// Close ends reading. Run must have returned.
func (s *Stream) Close() error {
	s.move(nil, Closed, nil)
	s.parts.Close()
	return nil
}

// Partitions returns how many partitions there are.
func (s *Stream) Partitions() int { return len(s.writers) }

// Run writes what Append is given until ctx ends; then it takes nothing more, finishes what it has, and returns nil.
func (s *Stream) Run(ctx context.Context) error {
	watch, stopWatch := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWatch()
	s.look(ctx)

	var writers, watcher sync.WaitGroup
	for _, w := range s.writers {
		for range s.o.InFlight {
			writers.Go(w.run)
		}
	}
	watcher.Go(func() { s.watch(watch) })

	<-ctx.Done()
	s.move(nil, Closed, nil)
	for _, w := range s.writers {
		w.close()
	}
	writers.Wait()
	stopWatch()
	watcher.Wait()
	s.keys.close()
	s.saveEnds(context.WithoutCancel(ctx), nil)
	return nil
}
