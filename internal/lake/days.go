package lake

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"sluice/internal/campaign"
	"sluice/internal/iceberg"
	"sluice/internal/parquetfile"
	"sluice/internal/throttle"
	"sluice/internal/watermark"
)

// DaySum is one number of one dataset in one day of receipt: the sum of the rows of Hour that agree in everything but
// the hour. There is one for each number.
type DaySum struct {
	Day         int64 // Unix seconds, a whole day
	DatasetID   string
	Kind        string
	Name        string
	Field       string
	Count       int64
	Value       float64
	First, Last int64 // Unix seconds: the first and the last hour of the day with this number
}

var dayColumns = []parquetfile.Column[DaySum]{
	parquetfile.Time(1, "day", "dict", func(r *DaySum) *int64 { return &r.Day }).Bound(),
	parquetfile.Text(2, "data_set_id", "dict", func(r *DaySum) *string { return &r.DatasetID }).Bound(),
	parquetfile.Text(3, "kind", "dict", func(r *DaySum) *string { return &r.Kind }),
	parquetfile.Text(4, "name", "dict", func(r *DaySum) *string { return &r.Name }),
	parquetfile.Text(5, "field", "dict", func(r *DaySum) *string { return &r.Field }),
	parquetfile.Int64(6, "count", "delta", func(r *DaySum) *int64 { return &r.Count }),
	parquetfile.Float(7, "value", func(r *DaySum) *float64 { return &r.Value }, nil),
	parquetfile.Time(8, "first_hour", "dict", func(r *DaySum) *int64 { return &r.First }),
	parquetfile.Time(9, "last_hour", "dict", func(r *DaySum) *int64 { return &r.Last }),
}

type dayTable = iceberg.Table[DaySum]

var daySchema = iceberg.NewSchema(iceberg.Definition[DaySum]{
	Name: daysTable, Comment: descriptions[daysTable].comment(), Docs: descriptions[daysTable].docs(), Columns: dayColumns,
	Day: "day", Months: true, Order: []string{"data_set_id", "day", "kind", "name", "field"},
	Time: func(r *DaySum) int64 { return r.Day }, Compare: compareDays,
})

func compareDays(a, b *DaySum) int {
	return cmp.Or(strings.Compare(a.DatasetID, b.DatasetID), cmp.Compare(a.Day, b.Day), compareNumbers(a, b))
}

func compareNumbers(a, b *DaySum) int {
	return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name), strings.Compare(a.Field, b.Field))
}

// secondsPerDay are those of a day of UTC.
const secondsPerDay = 24 * 60 * 60

// summedAfter is how long a day has been over before it is summed: compaction takes its files to be complete after an
// hour.
const summedAfter = time.Hour + 5*time.Minute

// damagedAgain is after which time a day of which a file could not be read is tried again.
const damagedAgain = time.Hour

// SumDay makes the sums of one day of the hours that is over, the newest that has none, or other ones than its hours
// say by now. It says whether there was such a day. It may be ended anywhere and run anywhere: see iceberg.PutSum.
//
// Steps: days.sum, then those of a commit.
func (l *Lake) SumDay(ctx context.Context) (bool, error) { return l.sumDay(ctx, nil) }

func (l *Lake) sumDay(ctx context.Context, job *throttle.Job) (bool, error) {
	prints, summed, err := l.Prints(ctx)
	if err != nil {
		return false, err
	}
	now := l.o.Now()
	end := int32(now.Add(-summedAfter).Unix() / secondsPerDay)
	oldest, day, found := end, int32(0), false
	for d, print := range prints {
		oldest = min(oldest, d)
		tried, damaged := l.unsummable.Load(d)
		if d >= end || summed[d] == print || damaged && now.Sub(tried.(time.Time)) < damagedAgain {
			continue
		}
		if !found || d > day {
			day, found = d, true
		}
	}
	if !found {
		return false, nil
	}
	sum := iceberg.Sum[DaySum]{Day: day, Print: prints[day], Oldest: oldest, Rows: func(add func(*DaySum) error) error {
		return l.sumRows(ctx, day, prints[day], job, add)
	}}
	switch err := l.days.PutSum(ctx, sum); {
	case errors.Is(err, watermark.ErrFenced):
		return true, nil // somebody was faster, or the day has grown: the next call sees it
	case errors.Is(err, ErrDamaged):
		l.unsummable.Store(day, now)
		l.o.Log.Error("a day cannot be summed", "day", day, "error", err)
		return true, nil
	case err != nil:
		return false, err
	}
	return true, nil
}

// Print tells the files of a day from others.
type Print = watermark.Print

// PrintOf is the print of the files of a day by their names, which are in order.
func PrintOf(names []string) Print { return watermark.PrintOf(names) }

// PrintOfDays is one print of several days.
func PrintOfDays(days []int32, prints map[int32]Print) Print {
	names := make([]string, 0, len(days))
	for _, day := range days {
		names = append(names, prints[day].String())
	}
	return PrintOf(names)
}

// Prints are those of the days that the hours have, and of the files that the sums of a day were made from: where the
// two agree the sums are those of the hours. The maps are not to be changed.
func (l *Lake) Prints(ctx context.Context) (hours, summed map[int32]Print, err error) {
	if summed, err = l.days.Summed(ctx); err != nil { // first: a sum is never newer than the hours that are looked at
		return nil, nil, err
	}
	hours, err = l.hours.Prints(ctx)
	return hours, summed, err
}

// sumRows adds up a day of the hours, dataset by dataset.
func (l *Lake) sumRows(ctx context.Context, day int32, print watermark.Print, job *throttle.Job,
	add func(*DaySum) error,
) error {
	s := daySummer{day: int64(day) * secondsPerDay, sums: map[numberKey]*DaySum{}, add: add}
	n := 0
	err := l.hours.Whole(ctx, day, print, func(h *Hour) error {
		if n++; n%1024 == 0 {
			if err := errors.Join(job.Pause(ctx), ctx.Err()); err != nil {
				return err
			}
		}
		return s.row(h)
	})
	if err != nil {
		return err
	}
	return s.flush()
}

type numberKey struct{ kind, name, field string }

// daySummer adds up the rows of one day, which come by dataset.
type daySummer struct {
	day     int64
	dataset string
	sums    map[numberKey]*DaySum
	by      campaign.Sums
	add     func(*DaySum) error
}

func (s *daySummer) row(h *Hour) error {
	if h.DatasetID != s.dataset {
		if err := s.flush(); err != nil {
			return err
		}
		s.dataset = strings.Clone(h.DatasetID)
	}
	if campaign.Is(h.Kind) {
		s.by.Add(CampaignSum(h))
		return nil
	}
	sum := s.sums[numberKey{h.Kind, h.Name, h.Field}]
	if sum == nil {
		sum = &DaySum{
			Day: s.day, DatasetID: s.dataset, Kind: strings.Clone(h.Kind), Name: strings.Clone(h.Name),
			Field: strings.Clone(h.Field),
			First: h.Hour, Last: h.Hour,
		}
		s.sums[numberKey{sum.Kind, sum.Name, sum.Field}] = sum
	}
	sum.Count += h.Count
	sum.Value += h.Value
	sum.First, sum.Last = min(sum.First, h.Hour), max(sum.Last, h.Hour)
	return nil
}

// flush hands over the sums of a dataset.
func (s *daySummer) flush() error {
	list := make([]*DaySum, 0, len(s.sums))
	for _, sum := range s.sums {
		list = append(list, sum)
	}
	for _, n := range s.by.All() {
		list = append(list, &DaySum{
			Day: s.day, DatasetID: s.dataset, Kind: n.Kind, Name: n.Name, Field: n.Field, Count: n.Count, Value: n.Value,
			First: n.First, Last: n.Last,
		})
	}
	slices.SortFunc(list, compareNumbers)
	for _, sum := range list {
		if err := s.add(sum); err != nil {
			return err
		}
	}
	clear(s.sums)
	return nil
}

// CampaignSum is a number of a campaign in an hour, to be added up.
func CampaignSum(h *Hour) campaign.Sum {
	return campaign.Sum{
		Number: campaign.Number{Kind: h.Kind, Name: h.Name, Field: h.Field, Count: h.Count, Value: h.Value}, First: h.Hour,
		Last: h.Hour,
	}
}

// ScanDays hands the chosen sums to yield, valid until it returns. Its error ends the scan.
func (l *Lake) ScanDays(ctx context.Context, q NumberQuery, yield func(*DaySum) error) error {
	out := iceberg.Query[DaySum]{From: q.From, To: q.To, Conditions: ofDataset(q.Dataset, dayDataset)}
	return l.days.Scan(ctx, out, each(ctx, yield))
}
