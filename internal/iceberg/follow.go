package iceberg

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"time"

	"sluice/internal/parquetfile"
)

// Follower reads a table again and again, each time only what is new. Zero has read nothing. One goroutine uses it.
type Follower[T any] struct {
	seen string                    // the end of the version that was read whole
	days map[int32]map[string]bool // the files that were read, by day
}

// Day is what is new of one day of a table; a follower that has read nothing hands over all days as one, the newest.
type Day[T any] struct {
	Day  int32 // since 1970-01-01, UTC
	Anew bool  // these are all rows of the day: what was handed over of it before no longer holds
	// Each hands the rows to yield, in the order of the table's first column, valid until it returns; its error ends it.
	// What cannot be read of a file is counted and left out. It is called once.
	Each func(yield func(*T) error) error
}

// Version is a version of a table.
type Version struct{ s *state }

// Version is the newest version of the table, as far as this process knows if it asked not long ago.
func (t *table) Version(ctx context.Context) (Version, error) {
	s, err := t.lately(ctx)
	return Version{s}, err
}

// Read hands the days from oldest on that have changed in a version of t to yield, the newest first. A day that only
// gained files is read on; one of which files are gone was compacted, deleted from or dropped, and is handed over anew.
// It says whether all days are read now: files can be replaced while it reads, and then the next version has their
// successors. A day whose yield answers an error is handed over anew by the next call.
func (f *Follower[T]) Read(
	ctx context.Context, t *Table[T], v Version, oldest time.Time, yield func(Day[T]) error,
) (all bool, err error) {
	s := v.s
	if s.end == f.seen {
		return true, nil
	}
	if f.days == nil {
		f.days = map[int32]map[string]bool{}
	}
	listed := map[int32][]*dataFile{}
	for day := range f.days {
		if day >= dayOf(oldest.Unix()) {
			listed[day] = nil // unless it is listed, it was dropped
		} else {
			delete(f.days, day)
		}
	}
	for _, file := range s.files() {
		if file.day >= dayOf(oldest.Unix()) {
			listed[file.day] = append(listed[file.day], file)
		}
	}
	all, err = f.readListed(ctx, t, listed, yield)
	if err == nil && all {
		f.seen = s.end
	}
	return all, errors.Join(err, ctx.Err())
}

func (f *Follower[T]) readListed(
	ctx context.Context, t *Table[T], listed map[int32][]*dataFile, yield func(Day[T]) error,
) (all bool, err error) {
	days := slices.Sorted(maps.Keys(listed))
	slices.Reverse(days)
	if len(f.days) == 0 && len(days) > 1 {
		err := f.readFirst(ctx, t, days, listed, yield)
		if isMissing(err) {
			t.doubt()
			return false, nil
		}
		return err == nil, err
	}
	all = true
	for _, day := range days {
		err := f.readDay(ctx, t, day, listed[day], yield)
		if isMissing(err) {
			t.doubt()
			all = false
			continue
		}
		if err != nil {
			return false, err
		}
	}
	return all, nil
}

// readFirst hands over all days at once: who sums up by the first column has each of its values once.
func (f *Follower[T]) readFirst(
	ctx context.Context, t *Table[T], days []int32, listed map[int32][]*dataFile, yield func(Day[T]) error,
) error {
	read, begun := map[int32]map[string]bool{}, map[int32]map[string]bool{}
	var files []*dataFile
	for _, day := range days {
		read[day], begun[day] = namesOf(listed[day]), map[string]bool{unfinished: true}
		files = append(files, listed[day]...)
	}
	err := yield(Day[T]{Day: days[0], Each: func(yield func(*T) error) error {
		err := t.merged(ctx, files, yield)
		if !isMissing(err) {
			f.days = begun
		}
		return err
	}})
	if err == nil {
		f.days = read
	}
	return err
}

// unfinished is the file of a day that was not handed over whole: no table lists it, so the day comes anew.
const unfinished = "unfinished"

func (f *Follower[T]) readDay(
	ctx context.Context, t *Table[T], day int32, listed []*dataFile, yield func(Day[T]) error,
) error {
	now, read := namesOf(listed), f.days[day]
	anew := false
	for name := range read {
		anew = anew || !now[name]
	}
	unread := listed
	if !anew {
		unread = slices.DeleteFunc(slices.Clone(listed), func(file *dataFile) bool { return read[file.name] })
	}
	if len(unread) == 0 && !anew {
		return nil
	}
	f.days[day] = map[string]bool{unfinished: true}
	each := func(yield func(*T) error) error { return t.merged(ctx, unread, yield) }
	if err := yield(Day[T]{Day: day, Anew: anew, Each: each}); err != nil {
		return err
	}
	if f.days[day] = now; len(now) == 0 {
		delete(f.days, day)
	}
	return nil
}

// Files are the files that were read whole, by day, for Resume.
func (f *Follower[T]) Files() map[int32][]string {
	out := map[int32][]string{}
	for day, names := range f.days {
		if !names[unfinished] {
			out[day] = slices.Sorted(maps.Keys(names))
		}
	}
	return out
}

// Resume begins where another follower of the same table was when it said what its Files are.
func (f *Follower[T]) Resume(files map[int32][]string) {
	f.seen, f.days = "", map[int32]map[string]bool{}
	for day, names := range files {
		f.days[day] = map[string]bool{}
		for _, name := range names {
			f.days[day][name] = true
		}
	}
}

// merged hands the rows of some files to yield, in the order of the table's first column. What cannot be read of a file
// is counted and left out; one that is missing is an error before the first row.
func (t *Table[T]) merged(ctx context.Context, files []*dataFile, yield func(*T) error) error {
	in, gone, err := t.openThere(ctx, files)
	if err != nil {
		return err
	}
	defer in.close()
	if len(gone) > 0 {
		return fmt.Errorf("%s: %w", gone[0].name, fs.ErrNotExist)
	}
	damaged := func(source int, err error) { t.reportDamage(files[source].name, err) }
	return errors.Join(
		parquetfile.MergeRows(ctx, in.sources, t.schema.Columns, t.schema.Compare, damaged, yield), ctx.Err())
}
