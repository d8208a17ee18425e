package iceberg

import (
	"context"
	"fmt"

	"sluice/internal/objectstore"
	"sluice/internal/parquetfile"
	"sluice/internal/throttle"
)

// fileWriter writes a file of a table, and learns what a manifest has to say of it.
type fileWriter[T any] struct {
	*parquetfile.Writer[T]
	file   objectstore.Writer
	listed *dataFile
}

// createFile starts a file for a day.
func (t *Table[T]) createFile(ctx context.Context, day int32, page int, job *throttle.Job) (*fileWriter[T], error) {
	f := &dataFile{name: t.layout.newFileName(day), day: day}
	out, err := t.store.Create(ctx, f.name)
	if err != nil {
		return nil, err
	}
	return &fileWriter[T]{t.schema.file.NewWriter(out, page, job), out, f}, nil
}

// finish makes the file durable, with others if there are any.
func (w *fileWriter[T]) finish(ctx context.Context, with *objectstore.Uploads) (*dataFile, error) {
	contents, err := w.Finish(ctx)
	if err != nil {
		w.file.Abort()
		return nil, fmt.Errorf("write file: %w", err)
	}
	if err := with.Do(w.file.Close); err != nil {
		return nil, fmt.Errorf("write file: %w", err)
	}
	w.listed.measure(contents)
	w.Close()
	return w.listed, nil
}
