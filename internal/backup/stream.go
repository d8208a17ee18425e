package backup

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"sluice/internal/durable"
	"sluice/internal/engine"
	"sluice/internal/erasure"
	"sluice/internal/stream"
	"sluice/internal/submission"
)

// PartitionFiles names the two files of a copied partition: what it is, and its frames.
func PartitionFiles(dir string, p int) (description, frames string) {
	return filepath.Join(dir, fmt.Sprintf("%d.json", p)), filepath.Join(dir, fmt.Sprintf("%d.frames", p))
}

// WithoutErased takes rows out of records that were erased; nil where nothing was.
func WithoutErased(ctx context.Context, e *engine.Engine) (func(record []byte) []byte, error) {
	t, err := erasure.Open(ctx, e)
	if err != nil {
		return nil, err
	}
	all, err := t.All(ctx)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	set := t.Set(all)
	return func(record []byte) []byte { return submission.Without(record, set.Erased, set.Deleted) }, nil
}

func savePartition(ctx context.Context, s *stream.Stream, dir string, p int, keep func([]byte) []byte,
	final bool,
) error {
	description, frames := PartitionFiles(dir, p)
	f, err := os.OpenFile(frames, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(f, 1<<20)
	about, err := s.Copy(ctx, uint8(p), out, keep)
	if err := errors.Join(err, out.Flush(), f.Sync(), f.Close()); err != nil {
		return err
	}
	if !final { // the copy gives numbers out again that cursors may name
		about.Created = time.Time{}
	}
	b, err := json.Marshal(about)
	if err != nil {
		return err
	}
	return durable.WriteFile(description, b)
}

// PartitionCopies reads the descriptions of n copied partitions.
func PartitionCopies(dir string, n int) ([]engine.PartitionCopy, error) {
	out := make([]engine.PartitionCopy, n)
	for p := range out {
		description, _ := PartitionFiles(dir, p)
		b, err := os.ReadFile(description)
		if err == nil {
			err = json.Unmarshal(b, &out[p])
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", description, err)
		}
	}
	return out, nil
}

// SaveStream copies every partition of an engine into a new directory, without what was erased, and says how many there
// are. With final the stream does not go on here.
func SaveStream(ctx context.Context, e *engine.Engine, dir string, final bool) (int, error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return 0, err
	}
	s, err := stream.Open(ctx, e, stream.Options{Now: time.Now})
	if err != nil {
		return 0, err
	}
	defer s.Close()
	keep, err := WithoutErased(ctx, e)
	if err != nil {
		return 0, err
	}
	for p := range s.Partitions() {
		if err := savePartition(ctx, s, dir, p, keep, final); err != nil {
			return 0, err
		}
	}
	return s.Partitions(), nil
}
