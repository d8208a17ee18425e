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
func createFile[T any](
	ctx context.Context, at objectstore.Store, s *Schema[T], day int32, pageBytes int, job *throttle.Job,
) (*fileWriter[T], error) {
	f := &dataFile{name: s.newFileName(day), day: day}
	out, err := at.Create(ctx, f.name)
	if err != nil {
		return nil, err
	}
	return &fileWriter[T]{s.file.NewWriter(out, pageBytes, job), out, f}, nil
}

// finish makes the file durable, with others if there are any.
func (w *fileWriter[T]) finish(ctx context.Context, with *objectstore.Uploads) (*dataFile, error) {
	contents, err := w.Finish(ctx)
	if err != nil {
		w.abandon()
		return nil, fmt.Errorf("write file: %w", err)
	}
	if err := with.Do(w.file.Close); err != nil {
		return nil, fmt.Errorf("write file: %w", err)
	}
	w.listed.measure(contents)
	w.Close()
	return w.listed, nil
}

// abandon gives a file up.
func (w *fileWriter[T]) abandon() {
	w.file.Abort()
}
