package lake

import (
	"context"
	"fmt"
)

// TableNames are the tables, in the order in which people ask for them.
func TableNames() []string { return []string{eventsTable, rejectionsTable, hoursTable} }

// Files lists where the Parquet files of a table (events, rejections, hours) lie that its newest snapshot holds,
// for a program that reads Parquet but not Iceberg. They stay for Options.Keep after they were replaced. A name that
// is none of TableNames is ErrNotFound.
func (l *Lake) Files(ctx context.Context, table string) ([]string, error) {
	for _, t := range l.tables() {
		if t.layout.name != table {
			continue
		}
		s, err := t.refresh(ctx)
		if err != nil {
			return nil, err
		}
		var out []string
		for _, p := range s.parts() {
			out = append(out, t.store.Location(p.name))
		}
		return out, nil
	}
	return nil, fmt.Errorf("table %q: %w", table, ErrNotFound)
}
