package iceberg

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"
)

// Follower reads a table again and again, and each time only what is new. The zero value has read nothing. Nobody but
// one goroutine uses it.
type Follower[T any] struct {
	version int64
	days    map[int32]map[string]bool // the files that were read, by day
	rows    []T                       // memory for what is being read: there is much of it, again and again
}

// Day is what is new of one day of a table.
type Day[T any] struct {
	Day  int32 // since 1970-01-01, UTC
	Anew bool  // Rows are all of the day: what was handed over of it before no longer holds
	Rows []T   // valid until yield returns
}

// Read hands the days from oldest on that have changed to yield, the newest first. A day that only gained files is read
// on; one of which files are gone was compacted, deleted from or dropped, and is handed over anew. It says whether all
// days are read now: files can be replaced while it reads, and then the next call finds their successors. An error of
// yield ends it; days that were handed over before count as read. seen is called when it knows which version it reads.
func (f *Follower[T]) Read(ctx context.Context, t *Table[T], oldest time.Time, seen func(), yield func(Day[T]) error) (all bool, err error) {
	s, err := t.lately(ctx)
	seen()
	if err != nil || s.version == f.version {
		return err == nil, err
	}
	if f.days == nil {
		f.days = map[int32]map[string]bool{}
	}
	listed := map[int32][]*dataFile{}
	for day := range f.days {
		listed[day] = nil // unless it is listed, it was dropped
	}
	for _, file := range s.files() {
		if file.day >= dayOf(oldest.Unix()) {
			listed[file.day] = append(listed[file.day], file)
		}
	}
	all = true
	for _, day := range slices.Backward(slices.Sorted(maps.Keys(listed))) {
		err := f.readDay(t, day, listed[day], yield)
		if isMissing(err) {
			t.checked.Store(0)
			all = false
			continue
		}
		if err != nil {
			return false, err
		}
	}
	if all {
		f.version = s.version
	}
	return all, ctx.Err()
}

func (f *Follower[T]) readDay(t *Table[T], day int32, listed []*dataFile, yield func(Day[T]) error) error {
	now := map[string]bool{}
	var unread []*dataFile
	for _, file := range listed {
		now[file.name] = true
		if !f.days[day][file.name] {
			unread = append(unread, file)
		}
	}
	anew := false
	for name := range f.days[day] {
		anew = anew || !now[name]
	}
	if anew {
		unread = listed
	}
	if len(unread) == 0 && !anew {
		return nil
	}
	f.rows = f.rows[:0]
	defer func() { clear(f.rows) }()
	for _, file := range unread {
		if err := f.readFile(t, file); err != nil {
			return err
		}
	}
	if err := yield(Day[T]{Day: day, Anew: anew, Rows: f.rows}); err != nil {
		return err
	}
	if f.days[day] = now; len(now) == 0 {
		delete(f.days, day)
	}
	return nil
}

// readFile adds the rows of a file. What cannot be read of it is counted and left out.
func (f *Follower[T]) readFile(t *Table[T], file *dataFile) error {
	o, err := t.store.Open(file.name)
	if err != nil {
		return err
	}
	sel := &selection[T]{rest: t.schema.Columns}
	err = readRowsOf(file, o, sel, func(err error) { t.reportDamage(file.name, err) }, func(rows []T) error {
		f.rows = append(f.rows, rows...)
		return nil
	})
	return errors.Join(err, o.Close())
}
