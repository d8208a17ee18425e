package iceberg

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"sluice/internal/objectstore"
	"sluice/internal/parquetfile"
	"sluice/internal/throttle"
	"sluice/internal/watermark"
)

// Append adds rows, as AppendRows does, in the order of the schema.
func (t *Table[T]) Append(ctx context.Context, rows []T, from watermark.Origin, job *throttle.Job) error {
	staged := NewRows(t.schema)
	staged.Add(rows)
	sorted := make([]int32, len(rows))
	for i := range sorted {
		sorted[i] = int32(i)
	}
	slices.SortFunc(sorted, func(i, j int32) int { return t.schema.Compare(&rows[i], &rows[j]) })
	return t.AppendRows(ctx, staged, sorted, from, job)
}

// AppendRows adds rows, once: if it returns nil they are on stable storage and readers see them, and the same origin
// again changes nothing. After an error they may be there; Progress says. watermark.ErrFenced comes back when the table
// is not where the spans begin, ErrOtherStream and ErrNoWatermark when it does not belong to the stream. sorted is the
// places of the rows in the order of the schema; AppendRows changes it.
//
// Order: data files, manifest, list and what from.After does side by side, then the version that names the files
// together with the watermark. A crash before that leaves files that nothing lists, for the sweep.
//
// Steps: T.file, T.manifest, T.list, T.metadata, T.committed.
func (t *Table[T]) AppendRows(
	ctx context.Context, rows *Rows[T], sorted []int32, from watermark.Origin, job *throttle.Job,
) error {
	release, err := t.lockShared(ctx)
	if err != nil {
		return err
	}
	defer release()
	// Before the work: a writer that has been overtaken need not write anything.
	s, err := t.lately(ctx)
	if err != nil {
		return err
	}
	done, err := s.loaded().Has(from)
	if err != nil {
		return err
	}
	with := &objectstore.Uploads{}
	if from.After != nil {
		_ = with.Do(from.After)
	}
	if done {
		return with.Wait()
	}
	if err := t.at("file"); err != nil {
		return errors.Join(err, with.Wait())
	}
	files, err := t.writeFiles(ctx, rows, sorted, job, with)
	if err == nil {
		taken := false
		_, err = t.update(ctx, func(s *state) (*change, error) {
			done, err := s.loaded().Has(from)
			if done || err != nil {
				return nil, err
			}
			taken = true
			return &change{operation: appended, add: files, with: with, progress: s.progress.After(from)}, nil
		})
		if err == nil && taken || errors.Is(err, objectstore.ErrUncertain) {
			return err
		}
	}
	waited := with.Wait()
	t.discard(ctx, files)
	return cmp.Or(err, waited)
}

// Expect asks the store and says what AppendRows would say before it writes: nil if the table is where spans begin.
func (t *table) Expect(ctx context.Context, from watermark.Origin) error {
	t.doubt()
	s, err := t.refresh(ctx)
	if err == nil {
		_, err = s.loaded().Has(from)
	}
	return err
}

// writeFiles makes files of rows, one for each day. On an error it says which are there.
func (t *Table[T]) writeFiles(
	ctx context.Context, rows *Rows[T], sorted []int32, job *throttle.Job, with *objectstore.Uploads,
) (files []*dataFile, err error) {
	rows.byDay(sorted)
	for len(sorted) > 0 {
		day := rows.days[sorted[0]]
		n := 1
		for n < len(sorted) && rows.days[sorted[n]] == day {
			n++
		}
		made, err := t.makeFile(ctx, day, parquetfile.FreshPage, job, with, func(w *parquetfile.Writer[T]) error {
			return w.WriteRows(ctx, rows.rows, sorted[:n])
		})
		if err != nil {
			return files, err
		}
		files, sorted = append(files, made...), sorted[n:]
	}
	return files, nil
}
