// Package lake keeps what was accepted, and what was rejected, in three Iceberg tables: events, rejections and hours.
package lake

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/iceberg"
	"sluice/internal/objectstore"
	"sluice/internal/throttle"
)

// Options say where a lake lies and how it is kept. Only Store and Now are required.
type Options struct {
	Store     objectstore.Store
	Now       func() time.Time
	Log       *slog.Logger  // default: nothing is logged
	Retention time.Duration // rows received longer ago are dropped, whole days at a time; 0 keeps all

	// SnapshotRetention is for how long a snapshot, with its files, stays readable after the next one has come; default
	// 24 h: readers look back, read increments, and run for hours.
	SnapshotRetention time.Duration
	FileBytes         int64              // compaction merges files up to this size; default 192 MiB
	Throttle          *throttle.Throttle // slows commits and compaction down; nil does not

	// Stream is the identity of the stream that the tables are loaded from. With it, Watermarks and Commit answer
	// ErrOtherStream or ErrNoWatermark for tables that do not belong to it. "" is for who does not load.
	Stream string

	// Step is called before each named step that changes a table; its error ends it there. Tests crash with it. The names
	// are in the comments of package iceberg.
	Step func(name string) error
}

// Lake is the tables events, rejections and hours. It may be used by many goroutines, and by several processes
// at once.
type Lake struct {
	o          Options
	events     *eventTable
	rejections *rejectionTable
	hours      *hourTable

	backlog  backlog       // commits that leave compaction no time
	mu       sync.Mutex    // one Commit at a time: a file that is being written takes megabytes
	pendMu   sync.RWMutex  // held while the table of hours changes
	pending  []Hour        // see Pend
	next     atomic.Uint32 // which table is compacted next
	running  atomic.Bool   // Run runs: this process commits and maintains
	failures atomic.Int64
}

// The tables, in the order in which a commit reaches them. Events come last: where they are, the others are too.
const (
	rejectionsTable = "rejections"
	hoursTable      = "hours"
	eventsTable     = "events"
)

// TableNames are the tables, in the order in which people ask for them.
func TableNames() []string { return []string{eventsTable, rejectionsTable, hoursTable} }

// ErrDamaged says that some of the lake could not be read. What could be was served before it came.
var ErrDamaged = iceberg.ErrDamaged

// ErrFenced says that another loader moved the watermark: start again from Watermarks.
var ErrFenced = iceberg.ErrFenced

// ErrNotFound says that the lake holds nothing of what was asked for.
var ErrNotFound = errors.New("not found")

// Open opens the tables, or makes them. Nothing runs until Run.
func Open(ctx context.Context, o Options) (_ *Lake, err error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.SnapshotRetention == 0 {
		o.SnapshotRetention = 24 * time.Hour
	}
	if o.FileBytes == 0 {
		o.FileBytes = 192 << 20 // few files a day, and a row group or two for each core of a reader
	}
	l := &Lake{o: o}
	if l.rejections, err = iceberg.Open(ctx, rejectionSchema, l.table(rejectionsTable)); err != nil {
		return nil, err
	}
	if l.hours, err = iceberg.Open(ctx, hourSchema, l.table(hoursTable)); err != nil {
		return nil, err
	}
	l.events, err = iceberg.Open(ctx, eventSchema, l.table(eventsTable))
	return l, err
}

// OpenDir opens a lake in a directory, which is made if it is not there.
func OpenDir(ctx context.Context, dir string, o Options) (*Lake, error) {
	store, err := objectstore.OpenDir(dir)
	if err != nil {
		return nil, err
	}
	o.Store = store
	return Open(ctx, o)
}

func (l *Lake) table(name string) iceberg.Options {
	return iceberg.Options{
		Store: l.o.Store.Sub(name), Now: l.o.Now, Log: l.o.Log, Step: l.o.Step,
		SnapshotRetention: l.o.SnapshotRetention, FileBytes: l.o.FileBytes, Committing: l.running.Load,
	}
}

// anyTable is what all tables can do, whatever their rows are.
type anyTable interface {
	Files(context.Context) ([]string, error)
	Compact(context.Context, *throttle.Job) (bool, error)
	Expire(context.Context) error
	DropBefore(context.Context, time.Time) (int64, error)
	Sweep(context.Context) (int, error)
	Check(context.Context, func(iceberg.Finding), func(done, total int)) (iceberg.Checked, error)
	Repair(context.Context, func(done, total int)) (iceberg.Repaired, error)
	Document(context.Context, *iceberg.Document) (*iceberg.Document, error)
	CopyTo(context.Context, objectstore.Store, func(done, total int)) error
	Progress(context.Context) (iceberg.Progress, error)
	Adopt(ctx context.Context, stream string, marks map[uint8]uint64) (bool, error)
	Stats() iceberg.Stats
}

// tables is all of them in the order of commits.
func (l *Lake) tables() []anyTable { return []anyTable{l.rejections, l.hours, l.events} }

// Commit is a commit to the table of events.
type Commit = iceberg.Commit

// Commits returns the commits to the table of events whose snapshots are kept, after a sequence number, oldest first.
func (l *Lake) Commits(after int64) []Commit { return l.events.Commits(after) }

// Files lists where the Parquet files of a table lie that its newest snapshot holds, for a program that reads Parquet
// but not Iceberg. They stay for the retention of snapshots after they were replaced. A name that is none of TableNames
// is ErrNotFound.
func (l *Lake) Files(ctx context.Context, table string) ([]string, error) {
	for _, t := range l.tables() {
		if t.Stats().Name == table {
			return t.Files(ctx)
		}
	}
	return nil, fmt.Errorf("table %q: %w", table, ErrNotFound)
}

// WriteParquet writes the chosen events to w as one Parquet file with the columns of the table, and says how many.
// It holds one row group in memory.
func (l *Lake) WriteParquet(ctx context.Context, q Query, w io.Writer) (rows int64, err error) {
	return l.events.WriteParquet(ctx, q.query(), w)
}

// Stats is the state of a lake.
type Stats struct {
	Tables       []iceberg.Stats // rejections, hours, events
	DamagedFiles int64           // files, or row groups of files, that could not be read since Open

	Compactions, CompactedRows int64 // since Open
	Failures                   int64 // times maintenance did not work since Open
}

// Stats answers from memory.
func (l *Lake) Stats() Stats {
	out := Stats{Failures: l.failures.Load()}
	for _, t := range l.tables() {
		s := t.Stats()
		out.Tables = append(out.Tables, s)
		out.DamagedFiles += s.DamagedFiles
		out.Compactions += s.Compactions
		out.CompactedRows += s.CompactedRows
	}
	return out
}
