package lake

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"sluice/internal/campaign"
	"sluice/internal/iceberg"
	"sluice/internal/parquetfile"
	"sluice/internal/throttle"
	"sluice/internal/watermark"
)

// Hour is one number of one dataset in one hour of receipt; see the Kind constants. Rows that agree in everything but
// Count and Value are to be added up.
type Hour struct {
	Hour      int64 // Unix seconds, a whole hour
	DatasetID string
	Kind      string
	Name      string
	Field     string
	Count     int64
	Value     float64
}

var hourColumns = []parquetfile.Column[Hour]{
	parquetfile.Time(1, "hour", "dict", func(r *Hour) *int64 { return &r.Hour }).Bound(),
	parquetfile.Text(2, "data_set_id", "dict", func(r *Hour) *string { return &r.DatasetID }).Bound(),
	parquetfile.Text(3, "kind", "dict", func(r *Hour) *string { return &r.Kind }),
	parquetfile.Text(4, "name", "dict", func(r *Hour) *string { return &r.Name }),
	parquetfile.Text(5, "field", "dict", func(r *Hour) *string { return &r.Field }),
	parquetfile.Int64(6, "count", "delta", func(r *Hour) *int64 { return &r.Count }),
	parquetfile.Float(7, "value", func(r *Hour) *float64 { return &r.Value }, nil),
}

type hourTable = iceberg.Table[Hour]

var hourSchema = iceberg.NewSchema(iceberg.Definition[Hour]{
	Name: hoursTable, Comment: descriptions[hoursTable].comment(), Docs: descriptions[hoursTable].docs(),
	Columns: hourColumns, Day: "hour", Order: []string{"data_set_id", "hour", "kind", "name", "field"},
	Time: func(r *Hour) int64 { return r.Hour }, Compare: compareHours, Fold: addHours,
})

func compareHours(a, b *Hour) int {
	if a.DatasetID != b.DatasetID { // one after the other, for most rows differ in the first
		return strings.Compare(a.DatasetID, b.DatasetID)
	}
	if a.Hour != b.Hour {
		return cmp.Compare(a.Hour, b.Hour)
	}
	return compareNames(a, b)
}

// compareNames compares the names of two numbers of an hour of a dataset.
func compareNames(a, b *Hour) int {
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
	a.Value = campaign.Fold(a.Kind, a.Value, b.Value)
	return true
}

// NumberQuery chooses hours, or days. A zero member does not restrict.
type NumberQuery struct {
	Dataset  string
	From, To time.Time // those that begin at From or later, before To
}

// ScanHours hands the chosen numbers to yield, valid until it returns. Several may agree in everything but
// Count and Value: they are to be added up. An error of yield ends the scan.
func (l *Lake) ScanHours(ctx context.Context, q NumberQuery, yield func(*Hour) error) error {
	out := iceberg.Query[Hour]{From: q.From, To: q.To, Conditions: ofDataset(q.Dataset, hourDataset)}
	return l.hours.Scan(ctx, out, each(ctx, yield))
}

// Settled has scan read the table of hours beside the hours that are not in it: see Pend. It is called again where the
// table has moved meanwhile, and begins anew each time. The third time this process commits no hours until scan
// returns.
func (l *Lake) Settled(ctx context.Context, scan func(pending []Hour) error) error {
	for range 2 {
		before, pending, err := l.newestHours(ctx)
		if err != nil {
			return err
		}
		if err := scan(pending); err != nil {
			return err
		}
		after, _, err := l.newestHours(ctx)
		if err != nil || after == before {
			return err
		}
	}
	l.pendMu.RLock()
	defer l.pendMu.RUnlock()
	return scan(l.pending)
}

// HourFollower reads the hours again and again, and each time only what is new. The zero value has read nothing.
type HourFollower struct{ iceberg.Follower[Hour] }

// HourDay is what is new of one day of the hours.
type HourDay = iceberg.Day[Hour]

// Read hands the days from oldest on that have changed to yield, the newest first, and says whether all are read now.
// pending are the hours that were not in the version of the table that it read: see Pend.
func (f *HourFollower) Read(
	ctx context.Context, l *Lake, oldest time.Time, yield func(d HourDay, pending []Hour) error,
) (pending []Hour, all bool, err error) {
	version, pending, err := l.newestHours(ctx)
	if err != nil {
		return pending, false, err
	}
	all, err = f.Follower.Read(ctx, l.hours, version, oldest, func(d HourDay) error { return yield(d, pending) })
	return pending, all, err
}

// newestHours is the newest version of the table of hours, and the hours that are not in it.
func (l *Lake) newestHours(ctx context.Context) (v iceberg.Version, pending []Hour, err error) {
	l.pendMu.RLock()
	defer l.pendMu.RUnlock()
	v, err = l.hours.Version(ctx)
	return v, l.pending, err
}

// Pend tells the lake which hours belong to events that are committed, and are not in the table of hours yet: they
// replace those of the call before. Those who show numbers add them up. A commit of hours ends them. The lake keeps the
// slice.
func (l *Lake) Pend(hours []Hour) {
	l.pendMu.Lock()
	defer l.pendMu.Unlock()
	l.pending = hours
}

// appendHours commits hours. Nobody sees the rows of the table and the pending ones together.
func (l *Lake) appendHours(ctx context.Context, rows []Hour, from watermark.Origin, job *throttle.Job) error {
	l.pendMu.Lock()
	defer l.pendMu.Unlock()
	staged := iceberg.NewRows(hourSchema)
	staged.Add(rows)
	err := l.hours.AppendRows(ctx, staged, sortedHours(rows), from, job)
	if err == nil {
		l.pending = nil
	}
	return err
}

// sortedHours are the places of rows in the order of the table. Those of an hour of a dataset are sorted where they
// follow each other; where these are in order, too, as the loader gives them, that is all.
func sortedHours(rows []Hour) []int32 {
	places := make([]int32, len(rows))
	for i := range places {
		places[i] = int32(i)
	}
	for from, to := 0, 0; from < len(rows); from = to {
		first := &rows[from]
		for to = from + 1; to < len(rows) && rows[to].DatasetID == first.DatasetID && rows[to].Hour == first.Hour; {
			to++
		}
		slices.SortFunc(places[from:to], func(a, b int32) int { return compareNames(&rows[a], &rows[b]) })
	}
	slices.SortFunc(places, func(a, b int32) int { return compareHours(&rows[a], &rows[b]) })
	return places
}
