package iceberg

import (
	"context"
	"errors"
	"io"
	"time"
)

// WriteParquet writes the chosen rows to w as one Parquet file with the columns of the table, and says how many. It
// holds one row group in memory.
func (t *Table[T]) WriteParquet(ctx context.Context, q Query[T], w io.Writer) (rows int64, err error) {
	out := newParquetWriter(t.schema, w, fresh, freshPage, nil)
	err = t.Scan(ctx, q, func(chunk []T) error {
		for i := range chunk {
			if err := out.add(ctx, &chunk[i]); err != nil {
				return err
			}
		}
		rows += int64(len(chunk))
		return out.flush(ctx) // the chunk is valid until now
	})
	_, ferr := out.finish(ctx)
	return rows, errors.Join(err, ferr)
}

// Files lists where the data files of the newest snapshot lie. They stay for the retention of snapshots after they were
// replaced.
func (t *table) Files(ctx context.Context) ([]string, error) {
	s, err := t.refresh(ctx)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, f := range s.files() {
		out = append(out, t.store.Location(f.name))
	}
	return out, nil
}

// CommittedAt says when the rows up to a position of the stream were committed, as far as the snapshots that are kept
// can tell exactly; else it is zero.
func (t *table) CommittedAt(partition uint8, seq uint64) time.Time {
	meta := t.state.Load().meta
	for i := range meta.Snapshots {
		snap := &meta.Snapshots[i]
		text, ok := snap.Summary[watermarkProperty]
		if !ok || parseWatermarks(text)[partition] < seq {
			continue // another program's, or an earlier one
		}
		// Only if the snapshot before it is kept, too, is this the commit itself and not one that came later.
		if snap.Parent != nil && meta.snapshot(*snap.Parent) == nil {
			return time.Time{}
		}
		return time.UnixMilli(snap.TimestampMS).UTC()
	}
	return time.Time{}
}
