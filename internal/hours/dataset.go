package hours

import (
	"cmp"
	"iter"
	"maps"
	"math"
	"slices"

	"sluice/internal/campaign"
	"sluice/internal/lake"
)

// seriesMax bounds the memory of one dataset: names beyond it are counted together as "other". The totals stay right.
// Arbitrary, and above 45 types, 35 codes at their fields and 170 currencies together.
const seriesMax = 1024

// Dataset is the numbers of one dataset, or of all together. One of a view is valid until the view is closed, and has
// its totals by the hour for a week and its other numbers for 24 hours; see also Index.Detail. One goroutine uses it.
type Dataset struct {
	totals [totalCount]series
	series map[seriesKey]*series
	last   int64 // the latest hour in which an event was accepted

	packed []byte       // the totals, as long as nobody has changed them: there are thousands of datasets in a list
	recent []byte       // the series, as long as nobody has asked for all of them
	keys   *keys        // of recent
	pends  []*lake.Hour // rows that are not counted yet, as long as packed is there
	before *series      // of the row that came last
}

// series is one number over time.
type series struct {
	key         seriesKey
	hours, days []point
	hour, day   int32             // which of them grew last
	values      map[int64]float64 // sums of money by day and, negative, by hour; nil for most
	// that came after it: rows come hour by hour, each with the same numbers in the same order
	next *series
}

// point is a count of an hour or a day, and in which hours it was seen first and last.
type point struct {
	at          int64 // Unix seconds, start of the hour or day
	count       int64
	first, last int32 // Unix hours
}

func newDataset() *Dataset { return &Dataset{series: map[seriesKey]*series{}} }

// filled is the dataset with all that it has. One that has nothing packed is not written to: several may read it.
func (d *Dataset) filled() *Dataset {
	if d.packed == nil && d.recent == nil && d.pends == nil {
		return d
	}
	if d.packed != nil {
		in := unpacker{b: d.packed}
		d.packed = nil
		for i := range d.totals {
			in.series(&d.totals[i])
		}
	}
	for s := range d.unpacked(false) {
		d.series[s.key] = s
	}
	d.recent = nil
	pends := d.pends
	d.pends = nil
	for _, r := range pends {
		d.addHour(r, 0)
	}
	return d
}

// pend adds rows that are not in the tables yet. The caller keeps them as they are.
func (d *Dataset) pend(rows []lake.Hour, places []int32) {
	for _, i := range places {
		r := &rows[i]
		if d.packed == nil {
			d.addHour(r, 0)
			continue
		}
		d.pends = append(d.pends, r)
		if k := (seriesKey{r.Kind, r.Name, r.Field}); k.accepted() && r.Count > 0 {
			d.last = max(d.last, r.Hour)
		}
	}
}

// pending are the numbers of the rows that are not counted yet, each as a series.
func (d *Dataset) pending(yield func(*series) bool) {
	for _, r := range d.pends {
		hour := int32(r.Hour / 3600)
		more := true
		eachNumber(r.Kind, r.Count, r.Value, func(kind string, count int64, value float64) {
			s := &series{key: seriesKey{kind, r.Name, r.Field}, hours: []point{{r.Hour, count, hour, hour}}}
			s.addValue(-r.Hour, value)
			more = more && yield(s)
		})
		if !more {
			return
		}
	}
}

// unpacked are the series of recent, or those of them that alarms look at, which are the first.
func (d *Dataset) unpacked(alarms bool) iter.Seq[*series] {
	return func(yield func(*series) bool) {
		if len(d.recent) == 0 {
			return
		}
		in := unpacker{b: d.recent}
		for range in.next() {
			n := in.next()
			if in.bad || n >= uint64(len(d.keys.list)) || alarms && !alarmed[d.keys.list[n].Kind] {
				return
			}
			s := &series{key: d.keys.list[n]}
			if in.series(s); !yield(s) {
				return
			}
		}
	}
}

// alarmed are the series that alarms look at, and maybe others; several may have one key, and are to be added up. A
// dataset of a list stays packed.
func (d *Dataset) alarmed() iter.Seq[*series] {
	if len(d.recent) == 0 {
		return maps.Values(d.filled().series)
	}
	return func(yield func(*series) bool) {
		for s := range d.unpacked(true) {
			if !yield(s) {
				return
			}
		}
		for s := range d.pending {
			if alarmed[s.key.Kind] && !yield(s) {
				return
			}
		}
	}
}

// find is one series; nil when there is none.
func (d *Dataset) find(kind, name, field string) *series {
	k := seriesKey{kind, name, field}
	if len(d.recent) == 0 || len(d.pends) > 0 || !alarmed[kind] {
		return d.filled().series[k]
	}
	for s := range d.unpacked(true) {
		if s.key == k {
			return s
		}
	}
	return nil
}

// at is the series of a key, which is made if there is none.
func (d *Dataset) at(k seriesKey) *series {
	d.filled()
	if d.before != nil && d.before.next != nil && d.before.next.key == k {
		d.before = d.before.next
		return d.before
	}
	s := d.series[k]
	if s == nil && len(d.series) >= seriesMax {
		k.Name = "other" // the fields of a kind are few, its names may be many
		s = d.series[k]
	}
	if s == nil {
		s = &series{key: seriesKey{keep(k.Kind), keep(k.Name), keep(k.Field)}}
		d.series[s.key] = s
	}
	if d.before != nil {
		d.before.next = s
	}
	d.before = s
	return s
}

// addHour counts a row of the table hours, unless it is one of a campaign: see Campaigns. Hours before oldest are
// counted by the day alone.
func (d *Dataset) addHour(r *lake.Hour, oldest int64) {
	hour := int32(r.Hour / 3600)
	eachNumber(r.Kind, r.Count, r.Value, func(kind string, count int64, value float64) {
		d.add(d.at(seriesKey{kind, r.Name, r.Field}), point{r.Hour, count, hour, hour}, value, r.Hour >= oldest)
	})
}

// addPacked counts a row of the table hours as far as it is packed: hours before recent in the totals alone.
func (d *Dataset) addPacked(r *lake.Hour, recent int64) {
	hour := int32(r.Hour / 3600)
	eachNumber(r.Kind, r.Count, r.Value, func(kind string, count int64, value float64) {
		k, p := seriesKey{kind, r.Name, r.Field}, point{r.Hour, count, hour, hour}
		if total := k.total(); total >= 0 {
			d.totals[total].addHours(p)
		}
		if k.accepted() && count > 0 {
			d.last = max(d.last, r.Hour)
		}
		if r.Hour >= recent {
			s := d.at(k)
			s.addHours(p)
			s.addValue(-r.Hour, value)
		}
	})
}

// addDay counts a row of the table days, as addHour does.
func (d *Dataset) addDay(r *lake.DaySum) {
	eachNumber(r.Kind, r.Count, r.Value, func(kind string, count int64, value float64) {
		day := point{r.Day, count, int32(r.First / 3600), int32(r.Last / 3600)}
		d.addDays(d.at(seriesKey{kind, r.Name, r.Field}), day, value)
	})
}

// eachNumber hands the numbers of a row to add, as an index has them.
func eachNumber(kind string, count int64, value float64, add func(kind string, count int64, value float64)) {
	switch {
	case campaign.Is(kind):
	case kind != KindRejections:
		add(kind, count, value)
	default:
		add(kindProblem, count, 0)
		if value != 0 {
			add(kindRejected, int64(value), 0)
		}
	}
}

// add counts an hour in a series and in its total.
func (d *Dataset) add(s *series, hour point, value float64, byHour bool) {
	total := s.key.total()
	if byHour {
		s.addHours(hour)
		s.addValue(-hour.at, value)
		if total >= 0 {
			d.totals[total].addHours(hour)
		}
	}
	day := hour
	day.at -= day.at % 86400
	d.addDays(s, day, value)
}

func (d *Dataset) addDays(s *series, day point, value float64) {
	s.addDay(day)
	s.addValue(day.at, value)
	if total := s.key.total(); total >= 0 {
		d.totals[total].addDay(day)
	}
	if s.key.accepted() && day.count > 0 {
		d.last = max(d.last, int64(day.last)*3600)
	}
}

func (s *series) addValue(at int64, value float64) {
	if value == 0 {
		return
	}
	if s.values == nil {
		s.values = map[int64]float64{}
	}
	s.values[at] += value
}

// addHours and addDay count at a time.
func (s *series) addHours(p point) { s.hours = addPoint(s.hours, &s.hour, p) }
func (s *series) addDay(p point)   { s.days = addPoint(s.days, &s.day, p) }

// addPoint keeps the points in order of time. Nearly always one grows that is the last, or the one which grew before,
// or next to it: near says which that was.
func addPoint(points []point, near *int32, p point) []point {
	i := int(*near)
	if i >= len(points) || points[i].at != p.at {
		if i++; i >= len(points) || points[i].at != p.at {
			var found bool
			if i, found = place(points, p.at); !found {
				*near = int32(i)
				return slices.Insert(points, i, p)
			}
		}
		*near = int32(i)
	}
	o := &points[i]
	o.count, o.first, o.last = o.count+p.count, min(o.first, p.first), max(o.last, p.last)
	return points
}

// place is where a time is in points, or belongs.
func place(points []point, at int64) (int, bool) {
	if n := len(points); n == 0 || points[n-1].at < at {
		return n, false
	}
	return slices.BinarySearchFunc(points, at, comparePoint)
}

// merge adds another dataset. Hours before oldest are left out.
func (d *Dataset) merge(o *Dataset, oldest int64) {
	d.filled()
	for k, from := range o.filled().series {
		d.at(k).merge(from, oldest)
	}
	for i := range o.totals {
		d.totals[i].merge(&o.totals[i], oldest)
	}
	d.last = max(d.last, o.last)
}

func (s *series) merge(o *series, oldest int64) {
	for _, p := range o.hours {
		if p.at >= oldest {
			s.addHours(p)
		}
	}
	for _, p := range o.days {
		s.addDay(p)
	}
	for at, v := range o.values {
		if at >= 0 || -at >= oldest {
			s.addValue(at, v)
		}
	}
}

// drop removes the day that begins at from.
func (d *Dataset) drop(from int64) {
	d.keep(func(at int64) bool { return at < from || at >= from+86400 }, math.MinInt64)
}

// prune removes hours and days that are too old.
func (d *Dataset) prune(hour, day int64) { d.keep(func(at int64) bool { return at >= day }, hour) }

// keep keeps the points that are chosen, of the hours those from one on, and the series that have any.
func (d *Dataset) keep(chosen func(at int64) bool, hour int64) {
	d.filled()
	another := func(p point) bool { return !chosen(p.at) }
	old := func(p point) bool { return !chosen(p.at) || p.at < hour }
	one := func(s *series) {
		s.hours, s.days = slices.DeleteFunc(s.hours, old), slices.DeleteFunc(s.days, another)
		for at := range s.values {
			if at >= 0 && !chosen(at) || at < 0 && (!chosen(-at) || -at < hour) {
				delete(s.values, at)
			}
		}
	}
	for i := range d.totals {
		one(&d.totals[i])
	}
	gone := false
	for k, s := range d.series {
		if one(s); len(s.days)+len(s.hours) == 0 {
			delete(d.series, k)
			gone = true
		}
	}
	if !gone {
		return
	}
	d.before = nil
	for _, s := range d.series {
		s.next = nil
	}
}

func comparePoint(p point, at int64) int { return cmp.Compare(p.at, at) }
