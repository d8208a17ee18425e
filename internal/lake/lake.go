// Package lake keeps stored events as Iceberg tables of Parquet parts.
package lake

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"sluice/event"
)

// Options say where a lake lies and how it is kept. Only Dir and Now are required.
type Options struct {
	Dir    string           // made if it is not there
	Now    func() time.Time //
	Log    *slog.Logger     // default: nothing is logged
	Retain time.Duration    // rows received longer ago are dropped, whole days at a time; 0 keeps all
	Keep   time.Duration    // for how long snapshots and their files stay readable; default 24 h

	PartBytes int64 // compaction merges parts up to this size; default 192 MiB

	// Step is called before each named step of a commit, compaction or erasure; its error ends it there. Tests
	// crash with it. The names are in the comments of the functions that take the steps.
	Step func(name string) error
}

// Lake is the tables events, rejections and hours. It may be used by many goroutines, and by several processes
// on one directory.
type Lake struct {
	o          Options
	events     *table
	rejections *table
	hours      *table

	mu sync.Mutex // one Commit at a time: a file that is being written takes megabytes

	turn     atomic.Uint32 // whose turn it is to be compacted
	counters counters
}

// Open opens the tables, or makes them. Nothing runs until Run.
func Open(ctx context.Context, o Options) (*Lake, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Keep == 0 {
		o.Keep = 24 * time.Hour // readers look back, read increments, and run for hours
	}
	if o.PartBytes == 0 {
		o.PartBytes = 192 << 20 // few parts a day, and a row group or two for each core of a reader
	}
	l := &Lake{o: o}
	for _, t := range []struct {
		layout *layout
		into   **table
	}{{&rejectionSchema.layout, &l.rejections}, {&hourSchema.layout, &l.hours}, {&eventSchema.layout, &l.events}} {
		store, err := openDisk(filepath.Join(o.Dir, t.layout.name))
		if err != nil {
			return nil, fmt.Errorf("open table %s: %w", t.layout.name, err)
		}
		*t.into = &table{layout: t.layout, store: store, now: o.Now, log: o.Log, step: o.Step, keep: o.Keep}
		if err := (*t.into).open(ctx); err != nil {
			return nil, fmt.Errorf("open table %s: %w", t.layout.name, err)
		}
	}
	return l, nil
}

// tables is all of them in the order of commits.
func (l *Lake) tables() []*table { return []*table{l.rejections, l.hours, l.events} }

// ErrFenced says that another loader moved the watermark: start again from Marks.
var ErrFenced = errors.New("another loader has moved the watermark")

// Marks are the sequence numbers in one partition of the stream up to which each table holds everything.
type Marks struct{ Events, Rejections, Hours uint64 }

// Batch is what a run of frames of one partition holds, for each table without what it has already.
type Batch struct {
	Partition  uint8
	From       Marks  // where each table stands
	To         uint64 // sequence number of the last frame
	Events     []event.Row
	Rejections []Rejection
	Hours      []Hour
	Pace       *Pace // how much of a hurry there is
}

// Marks says where the tables stand. Events are committed last, and even when there are none: so what they have
// reached, the others have too, though nothing may have been written to them for long.
func (l *Lake) Marks(ctx context.Context, partition uint8) (Marks, error) {
	var seq [3]uint64
	for i, t := range l.tables() {
		s, err := t.refresh(ctx)
		if err != nil {
			return Marks{}, err
		}
		seq[i] = s.marks[partition]
	}
	events := seq[2]
	return Marks{Events: events, Rejections: max(events, seq[0]), Hours: max(events, seq[1])}, nil
}
