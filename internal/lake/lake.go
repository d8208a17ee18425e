// Package lake keeps what was accepted, and what was rejected, in Iceberg tables: events and rejections, and counts of
// them by hour and by day.
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
	"sluice/internal/watermark"
)

// Options say where a lake lies and how it is kept. Only Store and Now are required.
type Options struct {
	Store objectstore.Store
	Now   func() time.Time
	Log   *slog.Logger // default: nothing is logged

	// Retention says how long rows are kept; it is asked before each run of retention. nil keeps all.
	Retention func(context.Context) (Retention, error)

	// SnapshotRetention is for how long a snapshot, with its files, stays readable after the next one has come; default
	// 24 h: readers look back, read increments, and run for hours.
	SnapshotRetention time.Duration
	FileBytes         int64              // compaction merges files up to this size; default 192 MiB
	Throttle          *throttle.Throttle // slows commits and compaction down; nil does not

	// Stream is the identity of the stream that the tables are loaded from. With it, Watermarks and Commit answer
	// ErrOtherStream or ErrNoWatermark for tables that do not belong to it. "" is for who does not load.
	Stream string

	// PutBack is called when somebody has put an older copy of the table of events in its place, with the time at which
	// the copy was last changed, before anything is done with it; after its error nothing is. nil does nothing.
	PutBack func(ctx context.Context, changed time.Time) error

	// Step is called before each named step that changes a table; its error ends it there. Tests crash with it. The names
	// are in the comments of package iceberg.
	Step func(name string) error
}

// Lake is the tables events, rejections, hours and days. It may be used by many goroutines, and by several processes
// at once.
type Lake struct {
	o          Options
	events     *eventTable
	rejections *rejectionTable
	hours      *hourTable
	days       *dayTable

	backlog backlog       // commits that leave compaction no time
	mu      sync.Mutex    // one Commit at a time: a file that is being written takes megabytes
	pendMu  sync.RWMutex  // held while the table of hours changes
	pending []Hour        // see Pend
	next    atomic.Uint32 // which table is compacted next
	running atomic.Bool   // Run runs: this process commits and maintains

	// The days that could not be summed because a file is damaged, with the time of the last try.
	unsummable sync.Map
}

// The tables, in the order in which a commit reaches them. Events come last: where they are, the others are too.
const (
	rejectionsTable = "rejections"
	hoursTable      = "hours"
	eventsTable     = "events"
	daysTable       = "days" // no commit of the loader reaches it
)

// TableNames are the tables, in the order in which people ask for them.
func TableNames() []string { return []string{eventsTable, rejectionsTable, hoursTable, daysTable} }

// ErrDamaged says that some of the lake could not be read. What could be was served before it came.
var ErrDamaged = iceberg.ErrDamaged

// ErrFenced says that another loader moved the watermark: start again from Watermarks.
var ErrFenced = watermark.ErrFenced

// ErrNotFound says that the lake holds nothing of what was asked for.
var ErrNotFound = errors.New("not found")

// ErrNotOpen says that the tables are not open yet.
var ErrNotOpen = iceberg.ErrNotOpen

// Open is New, and then the Open of the lake.
func Open(ctx context.Context, o Options) (*Lake, error) {
	l := New(o)
	if err := l.Open(ctx); err != nil {
		return nil, err
	}
	return l, nil
}

// New is a lake whose tables are not open: until Open has returned nil, what needs them is ErrNotOpen. Nothing runs
// until Run.
func New(o Options) *Lake {
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
	l.rejections = iceberg.New(rejectionSchema, l.table(rejectionsTable))
	l.hours = iceberg.New(hourSchema, l.table(hoursTable))
	l.days = iceberg.New(daySchema, l.table(daysTable))
	l.events = iceberg.New(eventSchema, l.table(eventsTable))
	return l
}

// Open opens the tables, or makes them unless the store is read only. After an error it can be called again.
func (l *Lake) Open(ctx context.Context) error {
	for _, t := range l.tables() {
		if err := t.Open(ctx); err != nil {
			return err
		}
	}
	return nil
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
	o := iceberg.Options{
		Store: l.o.Store.Sub(name), Now: l.o.Now, Log: l.o.Log, Step: l.o.Step,
		SnapshotRetention: l.o.SnapshotRetention, FileBytes: l.o.FileBytes, Committing: l.running.Load,
	}
	if name == eventsTable {
		o.PutBack = l.o.PutBack
	}
	return o
}

// anyTable is what all tables can do, whatever their rows are.
type anyTable interface {
	Open(context.Context) error
	Files(context.Context) ([]string, error)
	Compact(context.Context, *throttle.Job) (bool, error)
	Expire(context.Context) error
	Retain(context.Context, iceberg.Retention) (int64, error)
	Release(context.Context) (int64, error)
	Days() (oldest, newest time.Time)
	Sweep(context.Context) (int, error)
	Check(context.Context, func(iceberg.Finding), func(done, total int)) (iceberg.Checked, error)
	Document(context.Context, *iceberg.Document) (*iceberg.Document, error)
	CopyTo(context.Context, objectstore.Store, func(done, total int)) error
	Progress(context.Context) (watermark.Progress, error)
	Adopt(ctx context.Context, stream string, marks map[uint8]uint64) (bool, error)
	DamagedFiles() []string
	StillDamaged(ctx context.Context, location string) (bool, error)
	Stats() iceberg.Stats
}

// tables is all of them.
func (l *Lake) tables() []anyTable { return append(l.loaded(), l.days) }

// loaded are the tables that the loader commits to, in the order of commits.
func (l *Lake) loaded() []anyTable { return []anyTable{l.rejections, l.hours, l.events} }

// Commit is a commit to the table of events.
type Commit = iceberg.Commit

// Commits returns the commits to the table of events whose snapshots are kept, after a sequence number, oldest first.
func (l *Lake) Commits(after int64) []Commit { return l.events.Commits(after) }

// Files lists the Parquet files of the newest snapshot of a table, for a program that reads no Iceberg. They stay for
// the retention of snapshots after they were replaced. A name that is none of TableNames is ErrNotFound.
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

// DamagedFiles returns where the files of all tables lie that this process could not read, and that StillDamaged has
// not found whole since.
func (l *Lake) DamagedFiles() (out []string) {
	for _, t := range l.tables() {
		out = append(out, t.DamagedFiles()...)
	}
	return out
}

// StillDamaged says whether a table lists a file that cannot be read.
func (l *Lake) StillDamaged(ctx context.Context, location string) (bool, error) {
	for _, t := range l.tables() {
		if still, err := t.StillDamaged(ctx, location); still || err != nil {
			return still, err
		}
	}
	return false, nil
}

// Stats is the state of a lake.
type Stats struct {
	Tables []iceberg.Stats // rejections, hours, events, days; only those that are open
}

// Stats answers from memory.
func (l *Lake) Stats() (out Stats) {
	for _, t := range l.tables() {
		if s := t.Stats(); s.Version > 0 {
			out.Tables = append(out.Tables, s)
		}
	}
	return out
}
