package iceberg

import (
	"context"
	"fmt"

	"sluice/internal/watermark"
)

// Progress says what of a stream the table holds.
func (t *table) Progress(ctx context.Context) (watermark.Progress, error) {
	s, err := t.refresh(ctx)
	if err != nil {
		return watermark.Progress{}, err
	}
	return *s.loaded(), nil
}

// loaded is the progress, and whether there are rows.
func (s *state) loaded() *watermark.Progress {
	p := s.progress
	for _, m := range s.manifests {
		p.Rows = p.Rows || len(m.files) > 0
	}
	return &p
}

// Adopt makes the table continue another stream: from now on its watermarks are marks, and belong to the stream. It
// does nothing where they belong to it already. The caller knows that nothing after the marks is in the table.
//
// Steps: T.manifest, T.list, T.metadata, T.committed.
func (t *table) Adopt(ctx context.Context, stream string, marks map[uint8]uint64) (adopted bool, err error) {
	_, err = t.update(ctx, func(s *state) (*change, error) {
		p := s.loaded()
		adopted = false
		if p.Stream == stream && len(p.Watermarks) > 0 || !p.Rows && len(p.Watermarks) == 0 {
			return nil, nil
		}
		adopted = true
		next := watermark.Progress{Stream: stream, Watermarks: marks, Settled: marks, Deleted: p.Deleted}
		return &change{operation: replaced, progress: &next}, nil
	})
	if err != nil {
		return false, fmt.Errorf("adopt %s: %w", t.layout.name, err)
	}
	return adopted, nil
}
