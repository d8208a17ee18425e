package lake

import (
	"context"
	"time"

	"sluice/internal/iceberg"
)

// countsRetention is how long counts are kept: 13 months, so that a month can be held against the one a year before.
// They name nobody, so they may outlive the events they count, and they are bounded also where events are not.
const countsRetention = 400 * 24 * time.Hour

// Retention is how long rows are kept.
type Retention struct {
	Keep      time.Duration // rows received longer ago are dropped, whole days at a time; 0 keeps all
	Confirmed time.Time     // when somebody said that everything that was too old then may go, however much it is

	// Datasets are those whose rows are kept for a shorter time, in all tables. Somebody has confirmed that.
	Datasets map[string]time.Duration
}

// Retain drops the days that were received longer ago than the retention; hours and days, and rejections where
// events are kept for ever, after 13 months. It says how many rows are gone from the newest snapshots; their files go
// with the snapshots that still list them. Days count from the newest receipt, or from the clock if that is earlier: a
// clock that is wrong on the node that happens to commit drops nothing. See iceberg for what is held back. Then rows of
// datasets go that have a retention of their own, out of files that stay.
func (l *Lake) Retain(ctx context.Context) (rows int64, err error) {
	var r Retention
	if l.o.Retention != nil {
		if r, err = l.o.Retention(ctx); err != nil {
			return 0, err
		}
	}
	from, some := l.counted()
	if !some {
		return 0, nil
	}
	for _, t := range l.tables() {
		keep := r.Keep
		if t == l.hours || t == l.days || keep <= 0 && t == l.rejections {
			keep = countsRetention
		}
		if keep <= 0 {
			continue
		}
		gone, err := t.Retain(ctx, iceberg.Retention{
			Counted: from, Before: from.Add(-keep),
			Confirmed: r.Confirmed.Add(-keep),
		})
		if err != nil {
			return rows, err
		}
		rows += gone
	}
	gone, err := l.narrow(ctx, r.cutoffs(from))
	return rows + gone, err
}

// counted is the time from which retention counts; there is none while the tables are empty. Of receipts the day is
// known: where today has none it is the first second of the last day that has.
func (l *Lake) counted() (from time.Time, some bool) {
	var newest time.Time
	for _, t := range l.tables() {
		if _, day := t.Days(); day.After(newest) {
			newest = day
		}
	}
	now := l.o.Now().UTC()
	if newest.Before(now.Truncate(24 * time.Hour)) {
		return newest, !newest.IsZero()
	}
	return now, true
}

// Release drops what retention holds back in all tables, and says how many rows are gone.
func (l *Lake) Release(ctx context.Context) (rows int64, err error) {
	for _, t := range l.tables() {
		gone, err := t.Release(ctx)
		if err != nil {
			return rows, err
		}
		rows += gone
	}
	return rows, nil
}
