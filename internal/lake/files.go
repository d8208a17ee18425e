package lake

import (
	"context"
	"fmt"
)

// Files lists where the Parquet files of a table (events, rejections, hours) lie that its newest snapshot holds,
// for a program that reads Parquet but not Iceberg. They stay for Options.Keep after they were replaced.
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
	return nil, fmt.Errorf("no table %q", table)
}
