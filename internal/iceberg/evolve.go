package iceberg

import (
	"context"
	"fmt"

	"sluice/internal/metadata"
)

// A table gets new columns by Iceberg's schema evolution: the current schema and the new fields become a schema of a
// new id. Files that were written before stay as they are, and every reader takes what they lack for null. Older
// snapshots keep the id of the schema they were written with.

// evolve commits the columns that the table lacks. Every other commit would, too: a state has them once it is read.
//
// Steps: T.expire, T.metadata, T.committed.
func (t *table) evolve(ctx context.Context) error {
	_, err := t.update(ctx, func(s *state) (*change, error) {
		if !s.widened {
			return nil, nil
		}
		t.log.Info("columns are added to the table", "schema", s.meta.CurrentSchemaID)
		return &change{widen: true}, nil
	})
	if err != nil {
		return fmt.Errorf("add columns to %s: %w", t.layout.name, err)
	}
	return nil
}

// columns are those of the layout, and the highest id of their fields.
func (l *layout) columns() (list []metadata.Column, highest int) {
	for _, f := range l.schema.Fields() {
		list = append(list, metadata.Column{ID: f.ID, Field: f})
	}
	return list, l.schema.HighestFieldID()
}
