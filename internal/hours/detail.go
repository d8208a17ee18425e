package hours

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"sluice/internal/lake"
)

// Detail is every number of a dataset in a window, and those of all datasets for "". The days before today are read
// from the tables, unless the cache has them; today is in memory. What it could read is there also with an error.
func (x *Index) Detail(ctx context.Context, id string, w Window) (*Dataset, error) {
	today := int32((w.To() - 1) / 86400)
	s := stretch{days: int32(w.From / 86400), hours: today}
	if w.Step < 86400 {
		s.hours = s.days
	}
	return x.detail(ctx, id, today, s)
}

// History is everything of a dataset: by the hour for a week and by the day for 13 months. See Detail.
func (x *Index) History(ctx context.Context, id string, now time.Time) (*Dataset, error) {
	return x.detail(ctx, id, int32(now.Unix()/86400), stretch{
		hours: int32(now.Add(-hoursKept).Unix() / 86400), days: int32(now.Add(-daysKept).Unix() / 86400),
	})
}

// stretch is how far back numbers are wanted: the first days by the hour, and by the day.
type stretch struct{ hours, days int32 }

func (x *Index) detail(ctx context.Context, id string, today int32, s stretch) (*Dataset, error) {
	if id == "" {
		out := newDataset()
		x.mu.RLock()
		defer x.mu.RUnlock()
		out.merge(x.all, 0)
		return out, nil
	}
	x.mu.RLock()
	p := x.sets[id]
	large := p != nil && p.large
	now := x.shown(id, p).filled()
	x.mu.RUnlock()
	end := today // the days before it come from the tables
	if large {
		end++
	}
	out, err := x.stored(ctx, id, today, end, s)
	out.last = max(out.last, now.last)
	out.mergeSince(now, int64(end)*86400)
	return out, err
}

// stored is what the tables have of a dataset before a day, today or tomorrow, with what is committed and not in them.
// Each row is counted once: in the tables, or beside them.
func (x *Index) stored(ctx context.Context, id string, today, end int32, s stretch) (*Dataset, error) {
	out := newDataset()
	err := x.lake.Settled(ctx, func(pending []lake.Hour) error {
		out = newDataset()
		past, err := x.past(ctx, id, today, s)
		if past != nil {
			out.merge(past, 0)
		}
		from, to := int64(min(s.days, s.hours))*86400, int64(end)*86400
		for i := range pending {
			if h := &pending[i]; h.DatasetID == id && h.Hour >= from && h.Hour < to {
				out.addHour(h, int64(s.hours)*86400)
			}
		}
		if end > today {
			err = cmp.Or(err, x.scanHours(ctx, id, today, end, out))
		}
		return err
	})
	return out, err
}

// mergeSince adds the hours from one on of a dataset as memory has it: not every series that a total is made of.
func (d *Dataset) mergeSince(o *Dataset, from int64) {
	o.filled()
	for i := range o.totals {
		d.totals[i].addSince(&o.totals[i], from)
	}
	for _, s := range o.series {
		d.at(s.key).addSince(s, from)
	}
}

func (s *series) addSince(o *series, from int64) {
	for _, p := range o.hours {
		if p.at < from {
			continue
		}
		s.addHours(p)
		s.addValue(-p.at, o.values[-p.at])
		p.at -= p.at % 86400
		s.addDay(p)
		s.addValue(p.at, o.values[-int64(p.first)*3600])
	}
}

// past is what the tables have of a dataset before today. Nobody changes it.
func (x *Index) past(ctx context.Context, id string, today int32, s stretch) (*Dataset, error) {
	prints, summed, err := x.lake.Prints(ctx)
	if err != nil {
		return nil, err
	}
	days := slices.DeleteFunc(slices.Sorted(maps.Keys(prints)), func(day int32) bool {
		return day >= today || day < min(s.days, s.hours)
	})
	key := cacheKey{id, s}
	print := lake.PrintOfDays(days, prints)
	if d := x.cache.get(key, print); d != nil {
		return d, nil
	}
	release, err := x.cache.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	d, err := x.readPast(ctx, id, days, s, prints, summed)
	if err == nil {
		x.cache.put(key, print, d.filled(), cmp.Or(x.CacheMax, cacheMax))
	}
	return d, err
}

// readPast reads days of a dataset: those that are wanted by the hour, or are not summed, from the hours, and the
// others from the sums, the months side by side.
func (x *Index) readPast(ctx context.Context, id string, days []int32, s stretch, prints,
	summed map[int32]lake.Print,
) (*Dataset, error) {
	months := map[int32][]int32{}
	out := newDataset()
	var mu sync.Mutex
	var readers errgroup.Group
	readers.SetLimit(readersMax)
	read := func(scan func(*Dataset) error) {
		readers.Go(func() error {
			part := newDataset()
			err := scan(part)
			mu.Lock()
			defer mu.Unlock()
			out.merge(part, 0)
			return err
		})
	}
	for _, day := range days {
		if day < s.hours && summed[day] == prints[day] {
			months[monthOf(day)] = append(months[monthOf(day)], day)
			continue
		}
		read(func(part *Dataset) error { return x.scanHours(ctx, id, day, day+1, part) })
	}
	for _, some := range months {
		read(func(part *Dataset) error { return x.eachDay(ctx, id, some, part.addDay) })
	}
	return out, readers.Wait()
}

func (x *Index) scanHours(ctx context.Context, id string, from, to int32, out *Dataset) error {
	return whole(x.lake.ScanHours(ctx, lake.NumberQuery{Dataset: id, From: dayTime(from), To: dayTime(to)},
		func(h *lake.Hour) error {
			out.addHour(h, 0)
			return nil
		}))
}

// eachDay reads some days of one month, in order.
func (x *Index) eachDay(ctx context.Context, id string, days []int32, add func(*lake.DaySum)) error {
	q := lake.NumberQuery{Dataset: id, From: dayTime(days[0]), To: dayTime(days[len(days)-1] + 1)}
	return whole(x.lake.ScanDays(ctx, q, func(d *lake.DaySum) error {
		if _, wanted := slices.BinarySearch(days, int32(d.Day/86400)); wanted {
			add(d)
		}
		return nil
	}))
}

// whole forgives damage: what could be read is shown, and the damage is an alarm of its own.
func whole(err error) error {
	if errors.Is(err, lake.ErrDamaged) {
		return nil
	}
	return err
}

const (
	// cacheMax is what the cache keeps unless the index says otherwise: some 40 datasets with everything, hundreds with a
	// month.
	cacheMax = 8 << 20
	// readersMax is how many files are read at a time for one dataset, and loadsMax for how many datasets.
	readersMax, loadsMax = 16, 4
)

type cacheKey struct {
	id string
	s  stretch
}

// cache keeps what was read of days that are over.
type cache struct {
	mu    sync.Mutex
	by    map[cacheKey]cached
	bytes int
	slots chan struct{} // of those who read
}

func newCache() cache {
	return cache{by: map[cacheKey]cached{}, slots: make(chan struct{}, loadsMax)}
}

type cached struct {
	print lake.Print // of the days it was read from
	d     *Dataset
	bytes int
}

// begin waits until few enough others read.
func (c *cache) begin(ctx context.Context) (release func(), err error) {
	select {
	case c.slots <- struct{}{}:
		return func() { <-c.slots }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (c *cache) get(key cacheKey, print lake.Print) *Dataset {
	c.mu.Lock()
	defer c.mu.Unlock()
	if one := c.by[key]; one.print == print {
		return one.d
	}
	return nil
}

// put keeps a dataset, and most bytes of all.
func (c *cache) put(key cacheKey, print lake.Print, d *Dataset, most int) {
	n := cached{print, d, d.bytes()}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(key)
	c.by[key] = n
	c.bytes += n.bytes
	for other := range c.by { // in no order
		if c.bytes <= most {
			break
		}
		c.remove(other)
	}
}

func (c *cache) remove(key cacheKey) {
	c.bytes -= c.by[key].bytes
	delete(c.by, key)
}

// bytes is about how much memory a dataset takes.
func (d *Dataset) bytes() (n int) {
	size := func(s *series) int { return 128 + 24*(cap(s.hours)+cap(s.days)) + 32*len(s.values) }
	for i := range d.totals {
		n += size(&d.totals[i])
	}
	for _, s := range d.filled().series {
		n += size(s)
	}
	return n
}
