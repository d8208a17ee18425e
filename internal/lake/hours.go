package lake

import (
	"cmp"
	"context"
	"strings"
	"time"
)

// Hour is one number of one dataset in one hour of receipt; see Kinds. Rows that agree in everything but Count and
// Value are to be added up.
type Hour struct {
	Hour      int64 // Unix seconds, a whole hour
	DatasetID string
	Kind      string
	Name      string
	Field     string
	Count     int64
	Value     float64
}

var hourColumns = []column[Hour]{
	timeColumn(1, "hour", "dict", func(r *Hour) *int64 { return &r.Hour }).bound(),
	textColumn(2, "data_set_id", "dict", func(r *Hour) *string { return &r.DatasetID }).bound(),
	textColumn(3, "kind", "dict", func(r *Hour) *string { return &r.Kind }),
	textColumn(4, "name", "dict", func(r *Hour) *string { return &r.Name }),
	textColumn(5, "field", "dict", func(r *Hour) *string { return &r.Field }),
	int64Column(6, "count", "delta", func(r *Hour) *int64 { return &r.Count }),
	floatColumn(7, "value", func(r *Hour) *float64 { return &r.Value }, nil),
}

var hourSchema = newSchema(hoursTable, hourColumns, 1, []int{2, 1, 3, 4, 5}, compareHours, addHours)

func compareHours(a, b *Hour) int {
	if a.DatasetID != b.DatasetID { // one after the other, for most rows differ in the first
		return strings.Compare(a.DatasetID, b.DatasetID)
	}
	if a.Hour != b.Hour {
		return cmp.Compare(a.Hour, b.Hour)
	}
	if a.Kind != b.Kind {
		return strings.Compare(a.Kind, b.Kind)
	}
	if a.Name != b.Name {
		return strings.Compare(a.Name, b.Name)
	}
	return strings.Compare(a.Field, b.Field)
}

func addHours(a, b *Hour) bool {
	if compareHours(a, b) != 0 {
		return false
	}
	a.Count += b.Count
	a.Value += b.Value
	return true
}

// HourQuery chooses hours. A zero member does not restrict.
type HourQuery struct {
	Dataset  string
	Kind     string
	From, To time.Time // hours that begin at From or later, before To
}

// ScanHours hands the chosen numbers to yield, valid until it returns. Several may agree in everything but
// Count and Value: they are to be added up. An error of yield ends the scan.
func (l *Lake) ScanHours(ctx context.Context, q HourQuery, yield func(*Hour) error) error {
	w := newWindow(q.From, q.To)
	sel := &selection[Hour]{}
	first, rest := split(hourColumns, "data_set_id", "kind", "hour")
	sel.rest = rest
	sel.stages = []stage[Hour]{{first, func(r *Hour) bool {
		return (q.Dataset == "" || r.DatasetID == q.Dataset) && (q.Kind == "" || r.Kind == q.Kind) && w.holds(r.Hour)
	}}}
	if q.Dataset != "" {
		w.bounds = append(w.bounds, bound{2, []byte(q.Dataset)})
		sel.skip = func(g *group) bool { return !g.may("data_set_id", []byte(q.Dataset)) }
	}
	return scan(ctx, l, l.hours, w, sel, func(rows []Hour) error {
		for i := range rows {
			if err := yield(&rows[i]); err != nil {
				return err
			}
		}
		return ctx.Err()
	})
}
