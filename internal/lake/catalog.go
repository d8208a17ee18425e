package lake

import (
	"context"
	"errors"
	"fmt"

	"sluice/internal/iceberg"
)

// Document is the root document of a table, as a catalog hands it out: Iceberg's table metadata.
type Document = iceberg.Document

// Document returns the newest root document of a table. A caller that has it already passes it in, and gets it back
// without a read. A name that is none of TableNames is ErrNotFound.
func (l *Lake) Document(ctx context.Context, table string, known *Document) (*Document, error) {
	for _, t := range l.tables() {
		if t.Stats().Name == table {
			return t.Document(ctx, known)
		}
	}
	return nil, fmt.Errorf("table %q: %w", table, ErrNotFound)
}

// Snapshot is a snapshot of the table of events that can still be read.
type Snapshot = iceberg.Kept

// Snapshot returns a snapshot of the table of events; 0 is the newest. One that is not kept, or whose watermarks belong
// to another stream, is ErrNotFound.
func (l *Lake) Snapshot(ctx context.Context, id int64) (Snapshot, error) {
	kept, err := l.events.Snapshot(ctx, id)
	if errors.Is(err, iceberg.ErrNoSnapshot) {
		return Snapshot{}, ErrNotFound
	}
	if l.o.Stream != "" && kept.Stream != "" && kept.Stream != l.o.Stream {
		return Snapshot{}, ErrNotFound
	}
	return kept, err
}
