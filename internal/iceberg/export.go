package iceberg

import (
	"context"
	"errors"
	"io"
	"time"

	"sluice/internal/parquetfile"
	"sluice/internal/watermark"
)

// WriteParquet writes the chosen rows to w as one Parquet file with the columns of the table, and says how many. It
// holds one row group in memory.
func (t *Table[T]) WriteParquet(ctx context.Context, q Query[T], w io.Writer) (rows int64, err error) {
	out := t.schema.file.NewWriter(w, parquetfile.FreshPage, nil)
	defer out.Close()
	err = t.Scan(ctx, q, func(chunk []T) error {
		for i := range chunk {
			if err := out.Add(ctx, &chunk[i]); err != nil {
				return err
			}
		}
		rows += int64(len(chunk))
		return out.Flush(ctx) // the chunk is valid until now
	})
	_, ferr := out.Finish(ctx)
	return rows, errors.Join(err, ferr)
}

// Files lists where the data files of the newest snapshot lie. Replaced ones stay for the retention of snapshots.
func (t *table) Files(ctx context.Context) ([]string, error) {
	s, err := t.refresh(ctx)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, f := range s.files() {
		out = append(out, t.store.Path(f.name))
	}
	return out, nil
}

// Commit is a commit that moved the watermark.
type Commit struct {
	Sequence   int64 // of its snapshot; it grows from one to the next
	At         time.Time
	Watermarks map[uint8]uint64 // by partition, how far the table reaches with it
	// First says that the snapshot before is not kept, so rows up to the watermark may have been committed earlier.
	First bool
}

// Commits returns from memory the commits of the snapshots that are kept, after a sequence number, oldest first.
func (t *table) Commits(after int64) (out []Commit) {
	s := t.state.Load()
	if s == nil {
		return nil
	}
	meta := s.meta
	for i := range meta.Snapshots {
		snap := &meta.Snapshots[i]
		at, ok := watermark.Read(snap.Summary)
		if !ok || snap.Sequence <= after {
			continue // another program's, or an earlier one
		}
		out = append(out, Commit{
			Sequence: snap.Sequence, At: time.UnixMilli(snap.TimestampMS).UTC(), Watermarks: at.Watermarks,
			First: snap.Parent != nil && meta.Snapshot(*snap.Parent) == nil,
		})
	}
	return out
}
