package lake

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"slices"
	"time"

	"sluice/event"
	"sluice/internal/iceberg"
)

// chosen chooses rows by their dataset, and by the time that their table is divided by.
type chosen func(dataset string, unix int64) bool

// chosenIn is the condition that rows of a table are chosen.
func chosenIn[T any](s *iceberg.Schema[T], dataset func(*T) string, c chosen) iceberg.Condition[T] {
	return iceberg.Condition[T]{
		Columns: []string{"data_set_id", s.Day}, Match: func(r *T) bool { return c(dataset(r), s.Time(r)) },
	}
}

func eventDataset(r *event.Row) string     { return r.DatasetID }
func rejectionDataset(r *Rejection) string { return r.DatasetID }
func hourDataset(r *Hour) string           { return r.DatasetID }
func dayDataset(r *DaySum) string          { return r.DatasetID }

// equals adds the condition that a text of a row is this one, unless that is "". With bounds files and row groups are
// passed over.
func equals[T any](
	to []iceberg.Condition[T], column, text string, of func(*T) string, bounds bool,
) []iceberg.Condition[T] {
	if text == "" {
		return to
	}
	c := iceberg.Condition[T]{Columns: []string{column}, Match: func(r *T) bool { return of(r) == text }}
	if bounds {
		c.Equal = []byte(text)
	}
	return append(to, c)
}

// ofDataset are the conditions that rows are of a dataset, or none for "".
func ofDataset[T any](id string, dataset func(*T) string) []iceberg.Condition[T] {
	return equals(nil, "data_set_id", id, dataset, true)
}

// EraseCounts deletes what is counted of datasets, as Erase deletes events: from rejections, hours and days, and the
// numbers that are kept beside them. match gets a dataset and when something was received, for hours and days their
// beginning. ErrDamaged comes back, with the result, when files could not be read and so may hold some still.
//
// Order: hours, then days: a sum that was made from the hours before is fenced off. A crash leaves some of it, and
// running it again deletes that.
func (l *Lake) EraseCounts(ctx context.Context, match func(dataset string, received int64) bool) (out Erased,
	err error,
) {
	var damaged error
	add := func(one Erased, err error) error {
		out.Rows, out.Replaced, out.Files = out.Rows+one.Rows, out.Replaced+one.Replaced, out.Files+one.Files
		if errors.Is(err, ErrDamaged) {
			damaged, err = err, nil
		}
		return err
	}
	for _, do := range []func() error{
		func() error {
			return add(l.rejections.Delete(ctx, chosenIn(rejectionSchema, rejectionDataset, match), nil))
		},
		func() error { return add(l.hours.Delete(ctx, chosenIn(hourSchema, hourDataset, match), nil)) },
		func() error { return l.days.FenceSums(ctx) },
		func() error { return add(l.days.Delete(ctx, chosenIn(daySchema, dayDataset, match), nil)) },
		func() error { return l.dropNumbers(ctx) },
	} {
		if err := do(); err != nil {
			return out, err
		}
	}
	return out, damaged
}

// Contents is how much the tables have of a dataset.
type Contents struct {
	Events     int64 `json:"events"`
	Rejections int64 `json:"rejections"`
	Numbers    int64 `json:"numbers"` // rows of hours and days
	Days       int   `json:"days"`    // of receipt, with events or rejections
}

// Contents counts the rows of a dataset that were received before a day, or with a zero time all. ErrDamaged comes,
// with the result, when files could not be read.
func (l *Lake) Contents(ctx context.Context, dataset string, before time.Time) (out Contents, err error) {
	days := map[int64]bool{}
	events := Query{Dataset: dataset, To: before, Columns: []string{"received_at"}}
	var damaged error
	for _, scan := range []func() error{
		func() error {
			return l.events.Scan(ctx, events.query(), each(ctx, func(r *event.Row) error {
				days[r.ReceivedAt/secondsPerDay] = true
				out.Events++
				return nil
			}))
		},
		func() error {
			return l.ScanRejections(ctx, RejectionQuery{Dataset: dataset, To: before}, func(r *Rejection) error {
				days[r.ReceivedAt/secondsPerDay] = true
				out.Rejections++
				return nil
			})
		},
		func() error {
			return l.ScanHours(ctx, NumberQuery{Dataset: dataset, To: before}, func(*Hour) error { out.Numbers++; return nil })
		},
		func() error {
			return l.ScanDays(ctx, NumberQuery{Dataset: dataset, To: before}, func(*DaySum) error { out.Numbers++; return nil })
		},
	} {
		if err := scan(); errors.Is(err, ErrDamaged) {
			damaged = err
		} else if err != nil {
			return out, err
		}
	}
	out.Days = len(days)
	return out, damaged
}

// Cutoff is the day before which rows of a dataset go that is kept for some time, as retention counts now.
func (l *Lake) Cutoff(keep time.Duration) time.Time {
	from, some := l.counted()
	if !some { // there is nothing to keep
		from = l.o.Now().UTC()
	}
	return from.Add(-keep).Truncate(24 * time.Hour)
}

// cutoffs are the days, in Unix seconds, before which rows of datasets go, where that is later than for all.
func (r *Retention) cutoffs(from time.Time) map[string]int64 {
	out := map[string]int64{}
	for id, keep := range r.Datasets {
		if keep > 0 && (r.Keep <= 0 || keep < r.Keep) {
			out[id] = from.Add(-keep).Truncate(24 * time.Hour).Unix()
		}
	}
	return out
}

// Expired says of rows that were received at a time, in Unix seconds, whether retention has let them go, or would.
// Of days that the table of events still lists nothing is: retention may hold them back.
func (l *Lake) Expired(r Retention) func(dataset string, received int64) bool {
	from, some := l.counted()
	if !some {
		return func(string, int64) bool { return false }
	}
	all, of := int64(math.MinInt64), r.cutoffs(from)
	if r.Keep > 0 {
		all = from.Add(-r.Keep).Truncate(24 * time.Hour).Unix()
		if oldest, _ := l.events.Days(); !oldest.IsZero() {
			all = min(all, oldest.Unix())
		}
	}
	return func(dataset string, received int64) bool {
		before, some := of[dataset]
		return received < all || some && received < before
	}
}

// narrow drops rows of datasets that were received before a day, in Unix seconds.
func (l *Lake) narrow(ctx context.Context, before map[string]int64) (rows int64, err error) {
	if len(before) == 0 {
		return 0, nil
	}
	c := func(dataset string, unix int64) bool { return unix < before[dataset] }
	ids := slices.Sorted(maps.Keys(before))
	known := map[[2]int64]string{} // many files are of the same days
	which := func(from, to time.Time) string {
		at := [2]int64{from.Unix(), to.Unix()}
		text, ok := known[at]
		if !ok {
			text = choice(ids, before, at[0], at[1])
			known[at] = text
		}
		return text
	}
	for _, table := range []func() (int64, error){
		func() (int64, error) { return l.events.Narrow(ctx, chosenIn(eventSchema, eventDataset, c), which) },
		func() (int64, error) {
			return l.rejections.Narrow(ctx, chosenIn(rejectionSchema, rejectionDataset, c), which)
		},
		func() (int64, error) { return l.hours.Narrow(ctx, chosenIn(hourSchema, hourDataset, c), which) },
		func() (int64, error) { return l.days.Narrow(ctx, chosenIn(daySchema, dayDataset, c), which) },
	} {
		gone, err := table()
		rows += gone
		if err != nil {
			return rows, err
		}
	}
	return rows, nil
}

// choice tells what narrow drops of some days from what it dropped of them before.
func choice(ids []string, before map[string]int64, from, to int64) string {
	h, some := fnv.New64a(), false
	for _, id := range ids {
		if before[id] > from {
			some = true
			fmt.Fprintln(h, id, min(before[id], to))
		}
	}
	if !some {
		return ""
	}
	return fmt.Sprintf("%016x", h.Sum64())
}
