package iceberg

import (
	"slices"

	"sluice/internal/parquetfile"
)

// Rows are rows on their way into a table, taken apart into columns: see parquetfile.Rows. One goroutine uses them.
type Rows[T any] struct {
	schema *Schema[T]
	rows   *parquetfile.Rows[T]
	days   []int32 // of the rows
}

// NewRows returns an empty collection.
func NewRows[T any](s *Schema[T]) *Rows[T] { return &Rows[T]{schema: s, rows: s.file.NewRows()} }

// Reset forgets the rows and keeps the memory, unless that was for unusually long rows.
func (r *Rows[T]) Reset() {
	r.rows.Reset()
	r.days = r.days[:0]
}

// Len is how many rows there are.
func (r *Rows[T]) Len() int { return len(r.days) }

// Add adds rows. It keeps nothing of them.
func (r *Rows[T]) Add(rows []T) {
	for i := range rows {
		r.days = append(r.days, r.schema.dayOf(&rows[i]))
	}
	r.rows.Add(rows)
}

// byDay puts places in the order of their days, and leaves each day in the order in which it is.
func (r *Rows[T]) byDay(places []int32) {
	if len(places) == 0 || !slices.ContainsFunc(r.days, func(d int32) bool { return d != r.days[0] }) {
		return
	}
	slices.SortStableFunc(places, func(a, b int32) int { return int(r.days[a]) - int(r.days[b]) })
}
