package iceberg

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"sluice/internal/objectstore"
	"sluice/internal/throttle"
)

// Append adds rows, once: if it returns nil they are on stable storage and readers see them, and the same origin again
// changes nothing. After an error they may be there; Progress says. ErrFenced comes back when the table is not where
// the spans begin, ErrOtherStream and ErrNoWatermark when it does not belong to the stream. compare orders rows by their
// positions in the slice; nil takes the schema's own order.
//
// Order: data files, manifest and list side by side, then the version that names them together with the watermark. A crash
// before that leaves files that nothing lists, for the sweep.
//
// Steps: T.file, T.manifest, T.list, T.metadata, T.committed.
func (t *Table[T]) Append(ctx context.Context, rows []T, compare func(i, j int) int, from Origin, job *throttle.Job) error {
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
	files, err := t.writeFiles(ctx, rows, compare, job, with)
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

// sorted is the order in which rows are written: by day, then as the table wants them.
func (t *Table[T]) sorted(ctx context.Context, rows []T, compare func(i, j int) int, job *throttle.Job) ([]int32, error) {
	if compare == nil {
		compare = func(i, j int) int { return t.schema.Compare(&rows[i], &rows[j]) }
	}
	order, oneDay := make([]int32, len(rows)), true
	for i := range order {
		order[i] = int32(i)
		oneDay = oneDay && t.schema.dayOf(&rows[i]) == t.schema.dayOf(&rows[0])
	}
	compared := 0
	var ended error
	slices.SortFunc(order, func(i, j int32) int {
		if compared++; compared%4096 == 0 && ended == nil {
			ended = job.Pause(ctx)
		}
		if !oneDay {
			if c := cmp.Compare(t.schema.dayOf(&rows[i]), t.schema.dayOf(&rows[j])); c != 0 {
				return c
			}
		}
		return compare(int(i), int(j))
	})
	return order, ended
}

// writeFiles makes files of rows, one for each day. On an error it says which are there.
func (t *Table[T]) writeFiles(
	ctx context.Context, rows []T, compare func(i, j int) int, job *throttle.Job, with *uploads,
) (files []*dataFile, err error) {
	order, err := t.sorted(ctx, rows, compare, job)
	if err != nil {
		return nil, err
	}
	for len(order) > 0 {
		day := t.schema.dayOf(&rows[order[0]])
		n := 1
		for n < len(order) && t.schema.dayOf(&rows[order[n]]) == day {
			n++
		}
		f, err := t.writeFile(ctx, rows, order[:n], day, job, with)
		if err != nil {
			return files, err
		}
		files, order = append(files, f), order[n:]
	}
	return files, nil
}

// writeFile makes a file of the rows at these places, in this order, all of one day.
func (t *Table[T]) writeFile(
	ctx context.Context, rows []T, order []int32, day int32, job *throttle.Job, with *uploads,
) (*dataFile, error) {
	w, err := createFile(t.store, t.schema, day, fresh, freshPage, job)
	if err != nil {
		return nil, err
	}
	block := make([]*T, 0, writeRows)
	for some := range slices.Chunk(order, writeRows) {
		block = block[:0]
		for _, i := range some {
			block = append(block, &rows[i])
		}
		if err := w.write(ctx, block); err != nil {
			w.abandon()
			return nil, err
		}
	}
	return w.finish(ctx, with)
}
