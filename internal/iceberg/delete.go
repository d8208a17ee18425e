package iceberg

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"sluice/internal/objectstore"
	"sluice/internal/parquetfile"
	"sluice/internal/watermark"
)

// Deleted is what a deletion did.
type Deleted struct {
	Rows     int64 // deleted
	Replaced int   // data files rewritten or dropped
	Files    int   // deleted
}

// Witness is told of the rows that a deletion deletes.
type Witness[T any] interface {
	// Rows gets rows before the commit that deletes them, the columns that Delete was told to read. A row may come again,
	// if another commit was faster, or after a crash.
	Rows(ctx context.Context, rows []T) error
	// Mark is called right before that commit. What it returns is noted in the snapshot and in those that follow; ""
	// leaves it as it was. With done nothing is left to delete.
	Mark(ctx context.Context, done bool) (string, error)
}

// nobody is the witness of a deletion that nobody has to know of.
type nobody[T any] struct{}

func (nobody[T]) Rows(context.Context, []T) error            { return nil }
func (nobody[T]) Mark(context.Context, bool) (string, error) { return "", nil }

// marked is the progress with a mark of deletions; nil leaves it as it is.
func (s *state) marked(mark string) *watermark.Progress {
	if mark == "" || mark == s.progress.Deleted {
		return nil
	}
	next := s.progress
	next.Deleted = mark
	return &next
}

// Delete deletes every row that meets a condition, so that no file holds one any more. Rows that are committed while it
// runs may be missed; rows that were there when it began are not, wherever compaction carried them. ErrDamaged comes
// back, with the result, when files could not be read and so may hold some still.
//
// Order: rewrite the files that hold one and commit them in the place of the old ones, until a look at all files finds
// none. If that changed anything, or an older snapshot lists a file with one, commit twice more without any older
// snapshot. Then delete what is no longer listed. A crash leaves either the old files listed, or unlisted, or listed by
// old snapshots only; running it again finishes each. Where there is no such row, older snapshots stay.
//
// Before each commit w is told of its rows, with the columns of c and the named ones; a nil w is told nothing.
//
// Steps: T.erase, then those of a commit, for each file; T.forget; T.sweep.
func (t *Table[T]) Delete(ctx context.Context, c Condition[T], w Witness[T], columns ...string) (_ Deleted, err error) {
	if w == nil {
		w = nobody[T]{}
	}
	q := Query[T]{Conditions: []Condition[T]{c}, Columns: append([]string{}, columns...)}
	d := deletion[T]{t: t, c: c, w: w, sel: t.selection(&q), seen: map[string]bool{}, broken: map[string]bool{}}
	held := false
	for {
		s, err := t.refresh(ctx)
		if err != nil {
			return d.out, err
		}
		found, err := d.rewrite(ctx, s.files())
		if err != nil {
			return d.out, err
		}
		held = held || found
		now, err := t.refresh(ctx)
		if err != nil {
			return d.out, err
		}
		if !found && now == s {
			break // else files came meanwhile: perhaps old rows in a new place
		}
	}
	if err := d.mark(ctx); err != nil {
		return d.out, err
	}
	d.w = nobody[T]{} // what follows is in older snapshots alone
	if !held {
		if held, err = d.inOlder(ctx); err != nil {
			return d.out, err
		}
	}
	switch {
	case held:
		d.out.Files, err = t.forget(ctx)
	case !t.remote: // what a crash in the middle left
		d.out.Files, err = t.sweep(ctx, keepVersions)
	}
	if err != nil {
		return d.out, err
	}
	// A file that was gone before it could be read has been replaced, by one that was looked at.
	left := 0
	for _, f := range t.state.Load().files() {
		if d.broken[f.name] {
			left++
		}
	}
	if left > 0 {
		return d.out, fmt.Errorf("%w: %d files could not be searched", ErrDamaged, left)
	}
	return d.out, nil
}

// deletion is one call of Delete.
type deletion[T any] struct {
	t            *Table[T]
	c            Condition[T]
	w            Witness[T]
	sel          *parquetfile.Selection[T]
	seen, broken map[string]bool // names of files: looked at; among them, not whole
	out          Deleted
}

// rewrite takes the rows out of those files that it has not seen, and says whether there were any.
func (d *deletion[T]) rewrite(ctx context.Context, files []*dataFile) (found bool, err error) {
	for _, f := range files {
		rows, err := d.count(ctx, f)
		if err != nil {
			return found, err
		}
		if rows == 0 {
			continue
		}
		found = true
		err = d.deleteFrom(ctx, f, rows)
		if errors.Is(err, errUnreadable) {
			d.broken[f.name] = true
			err = nil
		}
		if err != nil {
			return found, err
		}
	}
	return found, nil
}

// mark notes that everything is deleted, where the last commit could not.
func (d *deletion[T]) mark(ctx context.Context) error {
	mark, err := d.w.Mark(ctx, true)
	if err != nil {
		return err
	}
	_, err = d.t.update(ctx, func(s *state) (*change, error) {
		next := s.marked(mark)
		if next == nil {
			return nil, nil
		}
		return &change{operation: replaced, progress: next}, nil
	})
	return err
}

// count says how many rows of a file are to be deleted; 0 for one that it has seen. It tells the witness.
func (d *deletion[T]) count(ctx context.Context, f *dataFile) (int64, error) {
	if d.seen[f.name] {
		return 0, nil
	}
	d.seen[f.name] = true
	rows, whole, err := d.read(ctx, f)
	if !whole {
		d.broken[f.name] = true
	}
	return rows, err
}

// inOlder says whether older snapshots list a file that it has not seen, and that holds a row or cannot be read.
func (d *deletion[T]) inOlder(ctx context.Context) (bool, error) {
	release, err := d.t.lockShared(ctx) // a sweep waits
	if err != nil {
		return false, err
	}
	defer release()
	s, err := d.t.refresh(ctx)
	if err != nil {
		return false, err
	}
	older, _ := s.meta.History()
	known := slices.Clone(s.manifests)
	for i := range older {
		manifests, err := d.t.readList(ctx, &older[i], known)
		if err != nil {
			return false, err
		}
		for _, m := range manifests {
			if m.damaged != nil {
				return true, nil
			}
			if slices.Contains(known, m) {
				continue
			}
			known = append(known, m)
			for _, f := range m.files {
				rows, err := d.count(ctx, f)
				if err != nil || rows > 0 || d.broken[f.name] {
					return true, err
				}
			}
		}
	}
	return false, ctx.Err()
}

// forget ends every snapshot but the newest, and deletes what they alone listed. In a directory everything goes that is
// not listed; in a bucket what is deleted by name, and the rest, which crashes left, goes with the sweep.
func (t *table) forget(ctx context.Context) (files int, err error) {
	if err := t.at("forget"); err != nil {
		return 0, err
	}
	s, err := t.refresh(ctx)
	if err != nil {
		return 0, err
	}
	earlier, err := t.used(ctx, s)
	if err != nil {
		return 0, err
	}
	// Twice, so that a damaged newest version can be done without: see load.
	for range 2 {
		if s, err = t.expire(ctx, true); err != nil {
			return 0, err
		}
	}
	if t.remote {
		return t.removeUnlisted(ctx, earlier, s)
	}
	return t.sweep(ctx, 2)
}

// Count says how many rows of the newest snapshot meet a condition.
func (t *Table[T]) Count(ctx context.Context, c Condition[T]) (rows int64, err error) {
	err = t.Scan(ctx, Query[T]{Conditions: []Condition[T]{c}, Columns: []string{}}, func(some []T) error {
		rows += int64(len(some))
		return ctx.Err()
	})
	return rows, err
}

// read tells the witness of the rows to delete of a file. It says how many, and whether all of the file could be read.
func (d *deletion[T]) read(ctx context.Context, f *dataFile) (rows int64, whole bool, err error) {
	whole = true
	err = d.t.readRows(ctx, f, d.sel, func(error) { whole = false }, func(some []T) error {
		rows += int64(len(some))
		return d.w.Rows(ctx, some)
	})
	return rows, whole, err
}

// Narrow takes rows that meet a condition out of the newest snapshot, in files that hold some; older snapshots keep
// theirs. which says, of the days of a file, what the condition chooses there: "" is nothing. A file is looked at once
// for each answer. It says how many rows are gone.
//
// Steps: T.erase, then those of a commit, for each file.
func (t *Table[T]) Narrow(ctx context.Context, c Condition[T], which func(from, to time.Time) string) (int64, error) {
	q := Query[T]{Conditions: []Condition[T]{c}, Columns: []string{}}
	d := deletion[T]{t: t, c: c, w: nobody[T]{}, sel: t.selection(&q)}
	s, err := t.refresh(ctx)
	if err != nil {
		return 0, err
	}
	t.narrowMu.Lock()
	defer t.narrowMu.Unlock()
	looked := map[string]string{}
	defer func() { t.narrowed = looked }()
	for _, f := range s.files() {
		chosen := which(dayTime(f.day), dayTime(t.layout.after(f.day)))
		if chosen == "" || chosen == t.narrowed[f.name] {
			looked[f.name] = chosen
			continue
		}
		found, _, err := d.read(ctx, f)
		if err == nil && found > 0 {
			err = d.deleteFrom(ctx, f, found)
		}
		if err != nil && !errors.Is(err, errUnreadable) { // damage is reported where files are read
			return d.out.Rows, err
		}
		looked[f.name] = chosen
	}
	return d.out.Rows, nil
}

// deleteFrom puts a file without the matching rows in the place of one with them.
func (d *deletion[T]) deleteFrom(ctx context.Context, f *dataFile, rows int64) error {
	t := d.t
	release, err := t.lockShared(ctx)
	if err != nil {
		return err
	}
	defer release()
	if err := t.at("erase"); err != nil {
		return err
	}
	made, err := t.rewrite(ctx, []*dataFile{f}, parquetfile.PackedPage, d.c.Match, nil)
	if err != nil {
		return err
	}
	operation := narrowed
	if len(made) == 0 {
		operation = deleted
	}
	mark, err := d.w.Mark(ctx, false)
	if err != nil {
		t.discard(ctx, made)
		return err
	}
	err = t.replace(ctx, operation, []*dataFile{f}, made, mark)
	if errors.Is(err, errStale) {
		return nil // compaction was faster; the file it made comes next
	}
	if err == nil || errors.Is(err, objectstore.ErrUncertain) {
		d.out.Rows += rows
		d.out.Replaced++
	}
	return err
}
