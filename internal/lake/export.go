package lake

import (
	"context"
	"errors"
	"io"
)

// WriteParquet writes the chosen events to w as one Parquet file with the columns of the table, and says how many.
// It holds one row group in memory.
func (l *Lake) WriteParquet(ctx context.Context, q Query, w io.Writer) (rows int64, err error) {
	out := newParquet[eventRow](w, fresh, freshPage)
	err = scan(ctx, l, l.events, q.prune(), q.selection(), func(chunk []eventRow) error {
		n, err := out.Write(chunk)
		rows += int64(n)
		return errors.Join(err, ctx.Err())
	})
	return rows, errors.Join(err, out.Close())
}
