package iceberg

import (
	"context"
	"fmt"

	"sluice/internal/objectstore"
	"sluice/internal/parquetfile"
	"sluice/internal/throttle"
)

// makeFile makes a file of what write writes, for the partition that begins with a day; none if that is no row. It is
// durable, with others if there are any.
func (t *Table[T]) makeFile(
	ctx context.Context, day int32, page int, job *throttle.Job, with *objectstore.Uploads,
	write func(w *parquetfile.Writer[T]) error,
) ([]*dataFile, error) {
	f := &dataFile{name: t.layout.newFileName(day), day: day}
	out, err := t.store.Create(ctx, f.name)
	if err != nil {
		return nil, err
	}
	w := t.schema.file.NewWriter(out, page, job)
	if err := write(w); err != nil {
		out.Abort()
		return nil, err
	}
	contents, err := w.Finish(ctx)
	if err != nil || contents.Rows == 0 {
		out.Abort()
	} else {
		err = with.Do(out.Close)
	}
	if err != nil {
		return nil, fmt.Errorf("write file: %w", err)
	}
	f.measure(contents)
	w.Close()
	if f.rows == 0 { // an empty file says nothing
		return nil, nil
	}
	return []*dataFile{f}, nil
}
