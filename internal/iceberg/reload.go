package iceberg

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"sluice/internal/objectstore"
	"sluice/internal/parquetfile"
	"sluice/internal/watermark"
)

// Reload puts rows back into a table that lacks them, without moving its watermarks, in one commit. Missing or damaged
// files leave the table with it: whoever put one back later would have its rows twice. One goroutine uses it.
type Reload[T any] struct {
	t       *Table[T]
	s       *state // the table when it began
	lost    []*dataFile
	made    []*dataFile
	release func()
	done    bool
}

// Lost is a file that is missing or damaged.
type Lost struct {
	File   string    // where it lies, or lay
	Rows   int64     // that it held
	Oldest time.Time // of them
}

// reloadsProperty counts the reloads of a table: of two that run side by side one commits.
const reloadsProperty = "sluice.reloads"

// Reload begins one. It reads every file with rows from since on. The caller ends it with Close.
func (t *Table[T]) Reload(ctx context.Context, since time.Time, progress func(done, total int)) (*Reload[T], error) {
	release, err := t.lockShared(ctx)
	if err != nil {
		return nil, err
	}
	r := &Reload[T]{t: t, release: release}
	t.doubt()
	if r.s, err = t.refresh(ctx); err == nil && r.s.damaged() {
		err = fmt.Errorf("%w: its metadata; see sluice lake check", ErrDamaged)
	}
	if err != nil {
		release()
		return nil, err
	}
	var files []*dataFile
	for _, f := range r.s.files() {
		if f.day >= dayOf(since.Unix()) {
			files = append(files, f)
		}
	}
	for i, f := range files {
		damaged, err := t.damaged(ctx, f)
		if err != nil {
			release()
			return nil, err
		}
		if damaged {
			r.lost = append(r.lost, f)
		}
		progress(i+1, len(files))
	}
	return r, nil
}

// Progress is what of the stream the table held when the reload began.
func (r *Reload[T]) Progress() watermark.Progress {
	return *r.s.loaded()
}

// Lost are the files that are missing or damaged.
func (r *Reload[T]) Lost() (out []Lost) {
	for _, f := range r.lost {
		oldest := int64(f.day) * secondsPerDay
		if v := f.lower[r.t.layout.day]; v != nil {
			oldest = int64(binary.LittleEndian.Uint64(v)) / parquetfile.Micro
		}
		out = append(out, Lost{File: r.t.store.Path(f.name), Rows: f.rows, Oldest: time.Unix(oldest, 0).UTC()})
	}
	return out
}

// Scan reads columns of the rows of a span of time that the table holds, but for those in lost files.
func (r *Reload[T]) Scan(ctx context.Context, from, to time.Time, columns []string, yield func([]T) error) error {
	q := Query[T]{From: from, To: to, Columns: columns}
	w, sel := r.t.prune(&q), r.t.selection(&q)
	var broken error
	for _, f := range r.s.files() {
		if !w.may(r.t.layout, f) || slices.Contains(r.lost, f) {
			continue
		}
		if err := r.t.readRows(ctx, f, sel, func(err error) { broken = err }, yield); err != nil {
			return err
		}
		if broken != nil {
			return fmt.Errorf("%w: %w", watermark.ErrFenced, broken)
		}
	}
	return ctx.Err()
}

// Salvage reads what can be read of the rows in lost files.
func (r *Reload[T]) Salvage(ctx context.Context, yield func([]T) error) error {
	sel := r.t.selection(&Query[T]{})
	for _, f := range r.lost {
		if err := r.t.readRows(ctx, f, sel, func(error) {}, yield); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// Add writes rows to files that nothing lists before Commit. sorted is as AppendRows has it.
func (r *Reload[T]) Add(ctx context.Context, rows *Rows[T], sorted []int32) error {
	files, err := r.t.writeFiles(ctx, rows, sorted, nil, nil)
	r.made = append(r.made, files...)
	return err
}

// Commit puts the rows into the table, if sure agrees, which is asked right before. ErrFenced comes back when the table
// was changed meanwhile so that the rows may be there already: by another reload, or by somebody who put a copy in its
// place, or when a lost file left it.
//
// Steps: those of a commit.
func (r *Reload[T]) Commit(ctx context.Context, sure func() error) error {
	remove := namesOf(r.lost)
	if len(r.made)+len(remove) == 0 {
		return nil
	}
	_, err := r.t.update(ctx, func(s *state) (*change, error) {
		if !r.follows(s, remove) {
			return nil, watermark.ErrFenced
		}
		if err := sure(); err != nil {
			return nil, err
		}
		n, _ := strconv.Atoi(r.s.meta.Properties[reloadsProperty])
		c := &change{operation: appended, add: r.made, set: map[string]string{reloadsProperty: strconv.Itoa(n + 1)}}
		if len(remove) > 0 { // the snapshots before list what cannot be read
			c.operation, c.remove, c.forget = narrowed, remove, true
		}
		return c, nil
	})
	r.done = err == nil || errors.Is(err, objectstore.ErrUncertain)
	if err == nil {
		for name := range remove {
			r.t.damagedFiles.Delete(name)
		}
	}
	return err
}

// follows says whether a table is the one that the reload began with, and still lacks the same rows.
func (r *Reload[T]) follows(s *state, remove map[string]bool) bool {
	for p, mark := range r.s.progress.Watermarks {
		if s.progress.Watermarks[p] < mark {
			return false
		}
	}
	return s.lists(remove) && s.progress.Stream == r.s.progress.Stream &&
		s.meta.Properties[reloadsProperty] == r.s.meta.Properties[reloadsProperty]
}

// Close ends the reload. What was not committed is removed.
func (r *Reload[T]) Close(ctx context.Context) {
	if !r.done {
		r.t.discard(ctx, r.made)
	}
	r.release()
}
