package lake

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unique"
	"unsafe"
)

// How long an index keeps numbers. The table keeps hours for 13 months; by the hour an index keeps a week of them.
const (
	hoursKept = 8 * 24 * time.Hour
	daysKept  = 400 * 24 * time.Hour
)

// seriesMax bounds the memory of one dataset: names beyond it are counted together as "other". The totals stay right.
// Arbitrary, and above 45 types, 35 codes at their fields and 170 currencies together.
const seriesMax = 1024

// A row of KindRejections has a count and a value. In an index they are two series.
const (
	kindRejected = "rejected" // events, at the code and field of their first problem: they add up to all rejected events
	kindProblem  = "problem"  // all problems of rejected events
)

// HourIndex holds the numbers of the table hours in memory, by the hour for a week and by the day for 13 months. It may be
// used by many goroutines.
//
// It takes 16 bytes per number and hour or day: a dataset that is busy around the clock with 30 different numbers takes about
// 280 KB, a thousand of them 280 MB.
type HourIndex struct {
	follower HourFollower // Read alone uses it
	complete atomic.Bool
	readAt   atomic.Int64 // Unix nanoseconds

	mu      sync.RWMutex
	all     *DatasetHours
	sets    map[string]*DatasetHours
	pending map[int32][]Hour // counted, though the table has them not yet, by day
	pended  []Hour           // what pendAll saw last
}

// DatasetHours is the numbers of one dataset, or of all together. It is valid until its view is closed.
type DatasetHours struct {
	series map[unique.Handle[seriesKey]]*series
	last   int64 // the latest hour in which an event was accepted
}

// seriesKey names one number: a kind, and what of that kind. Thousands of datasets have the same names, so they share them.
type seriesKey struct{ kind, name, field string }

// each is every series with its key.
func (d *DatasetHours) each() iter.Seq2[seriesKey, *series] {
	return func(yield func(seriesKey, *series) bool) {
		for k, s := range d.series {
			if !yield(k.Value(), s) {
				return
			}
		}
	}
}

// find is one series; nil when there is none.
func (d *DatasetHours) find(kind, name, field string) *series {
	return d.series[unique.Make(seriesKey{kind, name, field})]
}

// accepted says that the series is one of those that add up to all accepted events, one for each type.
func (k seriesKey) accepted() bool { return k.kind == KindEvents && k.field == FieldAccepted }

// series is one number over time.
type series struct {
	hours, days []point
	values      map[int64]float64 // sums of money by day and, negative, by hour; nil for most
	first, last int64             // hours of the first and the last count ever seen
	inline      [2]point          // where hours and days begin: the garbage collector sees one object in place of three
}

type point struct {
	at    int64 // Unix seconds, start of the hour or day
	count int64
}

// NewHourIndex is an empty index. Read fills it.
func NewHourIndex() *HourIndex {
	return &HourIndex{all: newDatasetHours(), sets: map[string]*DatasetHours{}}
}

func newDatasetHours() *DatasetHours {
	return &DatasetHours{series: map[unique.Handle[seriesKey]]*series{}}
}

// Read brings the index up to the table, whichever process commits to it. After an error the next call goes on where this
// one ended. One call at a time.
func (x *HourIndex) Read(ctx context.Context, l *Lake, now time.Time) error {
	pending, all, err := x.follower.Read(ctx, l, now.Add(-daysKept), func(d HourDay, pending []Hour) error {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.unpend(d.Day, now)
		if d.Anew {
			x.replace(d.Day, d.Rows, now)
		} else {
			x.add(d.Rows, now)
		}
		x.pend(d.Day, pending, now)
		return nil
	})
	if all {
		x.pendAll(pending, now)
		x.complete.Store(true)
	}
	if err == nil {
		x.readAt.Store(now.UnixNano())
	}
	return err
}

// Complete says whether the table was read to its end once. Until then the numbers are too small.
func (x *HourIndex) Complete() bool { return x.complete.Load() }

// ReadAt is when Read last succeeded, or the zero time.
func (x *HourIndex) ReadAt() time.Time {
	if at := x.readAt.Load(); at != 0 {
		return time.Unix(0, at)
	}
	return time.Time{}
}

// Add counts rows. No row may be added twice.
func (x *HourIndex) Add(rows []Hour, now time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.add(rows, now)
}

// Replace puts rows in the place of everything that the index holds of a day.
func (x *HourIndex) Replace(day int32, rows []Hour, now time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.replace(day, rows, now)
}

func (x *HourIndex) replace(day int32, rows []Hour, now time.Time) {
	from := int64(day) * 86400
	x.all.drop(from)
	for _, s := range x.sets {
		s.drop(from)
	}
	x.add(rows, now)
}

// pendAll brings all days to the pending hours of now. The days that changed in the table have them already.
func (x *HourIndex) pendAll(pending []Hour, now time.Time) {
	if len(pending) == len(x.pended) && unsafe.SliceData(pending) == unsafe.SliceData(x.pended) {
		return
	}
	x.pended = pending
	days := map[int32]bool{}
	for i := range pending {
		days[int32(pending[i].Hour/86400)] = true
	}
	for day := range x.pending {
		days[day] = true
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for day := range days {
		x.unpend(day, now)
		x.pend(day, pending, now)
	}
}

// pend counts the pending hours of a day, until unpend takes them back: the table has them then, or more have come.
func (x *HourIndex) pend(day int32, pending []Hour, now time.Time) {
	rows := pending // nearly always they are all of one day; a copy of them would be megabytes
	if another := func(h Hour) bool { return int32(h.Hour/86400) != day }; slices.ContainsFunc(rows, another) {
		rows = slices.DeleteFunc(slices.Clone(rows), another)
	}
	if len(rows) == 0 {
		return
	}
	x.add(rows, now)
	if x.pending == nil {
		x.pending = map[int32][]Hour{}
	}
	x.pending[day] = rows
}

func (x *HourIndex) unpend(day int32, now time.Time) {
	x.count(x.pending[day], -1, now)
	delete(x.pending, day)
}

// Prune drops what is too old to be shown.
func (x *HourIndex) Prune(now time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	hour, day := now.Add(-hoursKept).Unix(), now.Add(-daysKept).Unix()
	x.all.prune(hour, day)
	for id, s := range x.sets {
		if s.prune(hour, day); len(s.series) == 0 {
			delete(x.sets, id)
		}
	}
}

// HourView is a look at an index. The index does not change until Close.
type HourView struct{ x *HourIndex }

// View opens a view. The caller closes it soon: Read waits for it.
func (x *HourIndex) View() HourView {
	x.mu.RLock()
	return HourView{x}
}

// Close ends the view.
func (v HourView) Close() { v.x.mu.RUnlock() }

// All is the numbers of all datasets together.
func (v HourView) All() *DatasetHours { return v.x.all }

// Dataset is the numbers of one dataset, those of all for "". A dataset without any has an empty one.
func (v HourView) Dataset(id string) *DatasetHours {
	if id == "" {
		return v.x.all
	}
	if s := v.x.sets[id]; s != nil {
		return s
	}
	return newDatasetHours()
}

// Datasets are the datasets that have numbers, in no order.
func (v HourView) Datasets() iter.Seq2[string, *DatasetHours] {
	return func(yield func(string, *DatasetHours) bool) {
		for id, s := range v.x.sets {
			if !yield(id, s) {
				return
			}
		}
	}
}

func (x *HourIndex) add(rows []Hour, now time.Time) { x.count(rows, 1, now) }

// count adds rows, or takes them back: sign is 1 or -1.
func (x *HourIndex) count(rows []Hour, sign int64, now time.Time) {
	oldest := now.Add(-hoursKept).Unix()
	for i := range rows {
		r := &rows[i]
		set := x.sets[r.DatasetID]
		if set == nil {
			set = newDatasetHours()
			x.sets[strings.Clone(r.DatasetID)] = set
		}
		for _, s := range [...]*DatasetHours{set, x.all} {
			if r.Kind != KindRejections {
				s.add(seriesKey{r.Kind, r.Name, r.Field}, r.Hour, sign*r.Count, float64(sign)*r.Value, oldest)
				continue
			}
			s.add(seriesKey{kindProblem, r.Name, r.Field}, r.Hour, sign*r.Count, 0, oldest)
			if r.Value != 0 {
				s.add(seriesKey{kindRejected, r.Name, r.Field}, r.Hour, sign*int64(r.Value), 0, oldest)
			}
		}
	}
}

// add counts in a series.
func (d *DatasetHours) add(k seriesKey, hour, count int64, value float64, oldest int64) {
	shared := unique.Make(k)
	s := d.series[shared]
	if s == nil && len(d.series) >= seriesMax {
		k.name = "other" // the fields of a kind are few, its names may be many
		shared = unique.Make(k)
		s = d.series[shared]
	}
	if s == nil {
		s = &series{first: hour}
		s.hours, s.days = s.inline[0:0:1], s.inline[1:1:2]
		d.series[shared] = s
	}
	day := hour - hour%86400
	s.days = addPoint(s.days, day, count)
	if hour >= oldest {
		s.hours = addPoint(s.hours, hour, count)
	}
	s.first, s.last = min(s.first, hour), max(s.last, hour)
	if value != 0 {
		if s.values == nil {
			s.values = map[int64]float64{}
		}
		s.values[day] += value
		if hour >= oldest {
			s.values[-hour] += value
		}
	}
	if k.accepted() {
		d.last = max(d.last, hour)
	}
}

// addPoint keeps the points in order of time. Nearly always the last one grows.
func addPoint(points []point, at, count int64) []point {
	i := len(points)
	for i > 0 && points[i-1].at > at {
		i--
	}
	if i > 0 && points[i-1].at == at {
		points[i-1].count += count
		return points
	}
	return slices.Insert(points, i, point{at, count})
}

// drop removes the day that begins at from.
func (d *DatasetHours) drop(from int64) {
	inside := func(p point) bool { return p.at >= from && p.at < from+86400 }
	for _, s := range d.series {
		s.hours = slices.DeleteFunc(s.hours, inside)
		s.days = slices.DeleteFunc(s.days, inside)
		delete(s.values, from)
		for h := from; s.values != nil && h < from+86400; h += 3600 {
			delete(s.values, -h)
		}
	}
}

func (d *DatasetHours) prune(hour, day int64) {
	for k, s := range d.series {
		s.hours = since(s.hours, hour)
		s.days = since(s.days, day)
		for at := range s.values {
			if at < 0 && -at < hour || at >= 0 && at < day {
				delete(s.values, at)
			}
		}
		if len(s.days) == 0 {
			delete(d.series, k)
		}
	}
}

func since(points []point, from int64) []point {
	i, _ := slices.BinarySearchFunc(points, from, comparePoint)
	if i == 0 {
		return points
	}
	return slices.Clone(points[i:])
}

func comparePoint(p point, at int64) int { return cmp.Compare(p.at, at) }

// How often Run reads and prunes. The table moves when a loader commits, every few seconds.
const (
	indexEvery = time.Second
	pruneEvery = time.Minute
)

// Run keeps the index up to the table until ctx ends. It logs the first of several failures in a row.
func (x *HourIndex) Run(ctx context.Context, l *Lake) error {
	tick := time.NewTicker(indexEvery)
	defer tick.Stop()
	failed := false
	pruned := l.o.Now()
	for {
		now := l.o.Now()
		err := x.Read(ctx, l, now)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil && !failed {
			l.o.Log.Error("read hourly numbers", "error", err)
		}
		failed = err != nil
		if now.Sub(pruned) >= pruneEvery {
			x.Prune(now)
			pruned = now
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
