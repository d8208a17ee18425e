package iceberg

import (
	"context"
	"errors"
	"fmt"

	"sluice/internal/objectstore"
)

// Deleted is what a deletion did.
type Deleted struct {
	Rows     int64 // deleted
	Replaced int   // data files rewritten or dropped
	Files    int   // deleted
}

// Delete deletes every row that meets a condition, so that no file holds one any more. Rows that are committed while it
// runs may be missed; rows that were there when it began are not, wherever compaction carried them. ErrDamaged comes
// back, with the result, when files could not be read and so may hold some still.
//
// Order: rewrite the files that hold one and commit them in the place of the old ones, until a look at all files finds
// none; commit twice more without any older snapshot; delete what is no longer listed. A crash leaves either the old
// files listed, or unlisted, or listed by old snapshots only; running it again finishes each.
//
// Steps: T.erase, then those of a commit, for each file; T.forget; T.sweep.
func (t *Table[T]) Delete(ctx context.Context, c Condition[T]) (out Deleted, err error) {
	sel := t.selection(&Query[T]{Conditions: []Condition[T]{c}, Columns: []string{}})
	seen, broken := map[string]bool{}, map[string]bool{}
	for {
		s, err := t.refresh(ctx)
		if err != nil {
			return out, err
		}
		found := false
		for _, f := range s.files() {
			if seen[f.name] {
				continue
			}
			seen[f.name] = true
			rows, whole, err := t.count(f, sel)
			if err != nil {
				return out, err
			}
			if !whole {
				broken[f.name] = true
			}
			if rows == 0 {
				continue
			}
			found = true
			err = t.deleteFrom(ctx, f, c.Match, rows, &out)
			if errors.Is(err, errUnreadable) {
				broken[f.name] = true
				err = nil
			}
			if err != nil {
				return out, err
			}
		}
		now, err := t.refresh(ctx)
		if err != nil {
			return out, err
		}
		if !found && now == s {
			break // else files came meanwhile: perhaps old rows in a new place
		}
	}
	out.Files, err = t.forget(ctx)
	if err != nil {
		return out, err
	}
	// A file that was gone before it could be read has been replaced, by one that was looked at.
	left := 0
	for _, f := range t.state.Load().files() {
		if broken[f.name] {
			left++
		}
	}
	if left > 0 {
		return out, fmt.Errorf("%w: %d files could not be searched", ErrDamaged, left)
	}
	return out, nil
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
	earlier, err := t.used(s)
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
		return t.removeUnlisted(earlier, s)
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

// count says how many rows of a file are selected, and whether all of it could be read.
func (t *Table[T]) count(f *dataFile, sel *selection[T]) (rows int64, whole bool, err error) {
	o, err := t.store.Open(f.name)
	if isMissing(err) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	defer o.Close()
	whole = true
	err = readRowsOf(f, o, sel, func(error) { whole = false }, func(some []T) error {
		rows += int64(len(some))
		return nil
	})
	return rows, whole, err
}

// deleteFrom puts a file without the matching rows in the place of one with them.
func (t *Table[T]) deleteFrom(ctx context.Context, f *dataFile, match func(*T) bool, rows int64, out *Deleted) error {
	release, err := t.store.Share(ctx)
	if err != nil {
		return err
	}
	defer release()
	if err := t.at("erase"); err != nil {
		return err
	}
	made, err := t.rewrite(ctx, []*dataFile{f}, packedPage, match, nil)
	if err != nil {
		return err
	}
	operation := narrowed
	if len(made) == 0 {
		operation = deleted
	}
	err = t.replace(ctx, operation, []*dataFile{f}, made)
	if errors.Is(err, errStale) {
		return nil // compaction was faster; the file it made comes next
	}
	if err == nil || errors.Is(err, objectstore.ErrUncertain) {
		out.Rows += rows
		out.Replaced++
	}
	return err
}
