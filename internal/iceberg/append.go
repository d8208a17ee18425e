package iceberg

import (
	"context"
	"errors"
	"slices"

	"sluice/internal/objectstore"
	"sluice/internal/throttle"
)

// Append adds rows, as AppendRows does, in the order of the schema.
func (t *Table[T]) Append(ctx context.Context, rows []T, from Origin, job *throttle.Job) error {
	staged := NewRows(t.schema)
	staged.Add(rows)
	order := make([]int32, len(rows))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(i, j int32) int { return t.schema.Compare(&rows[i], &rows[j]) })
	return t.AppendRows(ctx, staged, order, from, job)
}

// AppendRows adds rows, once: if it returns nil they are on stable storage and readers see them, and the same origin again
// changes nothing. After an error they may be there; Progress says. ErrFenced comes back when the table is not where
// the spans begin, ErrOtherStream and ErrNoWatermark when it does not belong to the stream. order is the places of the rows
// in the order of the schema; AppendRows changes it.
//
// Order: data files, manifest and list side by side, then the version that names them together with the watermark. A crash
// before that leaves files that nothing lists, for the sweep.
//
// Steps: T.file, T.manifest, T.list, T.metadata, T.committed.
func (t *Table[T]) AppendRows(ctx context.Context, rows *Rows[T], order []int32, from Origin, job *throttle.Job) error {
	release, err := t.store.Share(ctx)
	if err != nil {
		return err
	}
	defer release()
	// Before the work: a writer that has been overtaken need not write anything.
	s, err := t.lately(ctx)
	if err != nil {
		return err
	}
	if done, err := s.has(from); done || err != nil {
		return err
	}
	if err := t.at("file"); err != nil {
		return err
	}
	with := &uploads{}
	files, err := t.writeFiles(ctx, rows, order, job, with)
	if err == nil {
		taken := false
		_, err = t.update(ctx, func(s *state) (*change, error) {
			done, err := s.has(from)
			if done || err != nil {
				return nil, err
			}
			taken = true
			return &change{operation: appended, add: files, with: with, progress: s.after(from)}, nil
		})
		if err == nil && taken || errors.Is(err, objectstore.ErrUncertain) {
			return err
		}
	}
	_ = with.wait() // the commit has seen its error
	t.discard(files)
	return err
}

// writeFiles makes files of rows, one for each day. On an error it says which are there.
func (t *Table[T]) writeFiles(
	ctx context.Context, rows *Rows[T], order []int32, job *throttle.Job, with *uploads,
) (files []*dataFile, err error) {
	rows.byDay(order)
	for len(order) > 0 {
		day := rows.days[order[0]]
		n := 1
		for n < len(order) && rows.days[order[n]] == day {
			n++
		}
		w, err := createFile(t.store, t.schema, day, freshPage, job)
		if err != nil {
			return files, err
		}
		if err := w.writeRows(ctx, rows, order[:n]); err != nil {
			w.abandon()
			return files, err
		}
		f, err := w.finish(ctx, with)
		if err != nil {
			return files, err
		}
		files, order = append(files, f), order[n:]
	}
	return files, nil
}
