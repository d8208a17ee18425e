package lake

import (
	"context"
	"errors"
	"io"

	"sluice/event"
)

// WriteParquet writes the chosen events to w as one Parquet file with the columns of the table, and says how many.
// It holds one row group in memory.
func (l *Lake) WriteParquet(ctx context.Context, q Query, w io.Writer) (rows int64, err error) {
	out := newFileWriter(eventSchema, w, fresh, freshPage, nil)
	err = scan(ctx, l, l.events, q.prune(), q.selection(), func(chunk []event.Row) error {
		for i := range chunk {
			if err := out.add(&chunk[i]); err != nil {
				return err
			}
		}
		rows += int64(len(chunk))
		return errors.Join(out.flush(), ctx.Err()) // the chunk is valid until now
	})
	_, ferr := out.finish()
	return rows, errors.Join(err, ferr)
}
