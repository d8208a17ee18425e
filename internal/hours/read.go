package hours

import (
	"context"
	"maps"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"sluice/internal/lake"
)

// Read brings the index up to the tables, whichever process commits to them. After an error the next call goes on where
// this one ended. One call at a time.
//
// The days of a week are read from the table of hours, and then followed. The days before do not change any more: they
// are read once, for the numbers of all datasets together, unless the index began with a saved one that has them.
func (x *Index) Read(ctx context.Context, now time.Time) error {
	if !x.resumed {
		if err := x.resume(ctx); err != nil {
			return err
		}
		x.resumed = true
	}
	pending, all, err := x.follower.Read(ctx, x.lake, now.Add(-hoursKept),
		func(d lake.HourDay, pending []lake.Hour) error {
			return x.readDay(d, pending, now)
		})
	if err != nil {
		return err
	}
	if !all {
		return nil
	}
	x.showPending(pending, now)
	if err := x.readOlder(ctx, now); err != nil {
		return err
	}
	x.complete.Store(true)
	x.readAt.Store(now.UnixNano())
	return nil
}

// showPending shows other pending rows in the place of those that are shown.
func (x *Index) showPending(pending []lake.Hour, now time.Time) {
	if x.pending.same(pending) { // only Read changes it
		return
	}
	o := newOverlay(pending)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.pend(o, now.Add(-hoursKept).Unix())
}

// lockFor is how many datasets are changed at a time: those who look wait meanwhile.
const lockFor = 64

// readDay takes what is new of a day. A dataset changes at once, from what it was to what the table says, and so do all
// together at the end.
func (x *Index) readDay(d lake.HourDay, pending []lake.Hour, now time.Time) error {
	r := dayReader{
		x: x, day: d.Day, anew: d.Anew, now: now, recent: recentFrom(now), all: newDataset(), read: map[string]bool{},
	}
	if err := d.Each(r.row); err != nil {
		return err
	}
	r.end()
	r.flush()
	if d.Anew {
		r.dropOthers()
	}
	o := newOverlay(pending)
	oldest := now.Add(-hoursKept).Unix()
	x.mu.Lock()
	defer x.mu.Unlock()
	x.pend(overlay{}, oldest)
	if d.Anew {
		x.all.drop(int64(d.Day) * 86400)
	}
	x.all.merge(r.all, oldest)
	x.pend(o, oldest)
	return nil
}

// dayReader takes the rows of a day, which come by dataset.
type dayReader struct {
	x      *Index
	day    int32
	anew   bool
	now    time.Time
	recent int64 // the first hour of which memory has every number
	id     string
	one    *Dataset // that of id
	all    *Dataset
	read   map[string]bool // the datasets of the day
	done   []readSet       // those not yet in the index
}

type readSet struct {
	id string
	d  *Dataset
}

func (r *dayReader) row(h *lake.Hour) error {
	if r.one == nil || h.DatasetID != r.id {
		r.end()
		r.id, r.one = keep(h.DatasetID), newDataset()
	}
	r.one.addPacked(h, r.recent)
	r.all.addHour(h, 0)
	return nil
}

// end ends a dataset.
func (r *dayReader) end() {
	if r.one == nil {
		return
	}
	r.read[r.id] = true
	if r.done = append(r.done, readSet{r.id, r.one}); len(r.done) == lockFor {
		r.flush()
	}
	r.one = nil
}

func (r *dayReader) flush() {
	r.x.mu.Lock()
	defer r.x.mu.Unlock()
	for _, s := range r.done {
		r.change(s.id, s.d)
		r.x.settle(s.id, r.day)
	}
	r.done = r.done[:0]
}

// change adds numbers to a dataset, in the place of those of the day if it is read anew. The caller holds the lock.
func (r *dayReader) change(id string, add *Dataset) {
	was, d := r.x.sets[id], add
	if was != nil {
		d = r.x.keys.unpack(was)
		if r.anew {
			d.drop(int64(r.day) * 86400)
		}
		d.merge(add, 0)
	}
	r.x.sets[id] = r.x.pack(d, was, r.now)
}

// dropOthers takes the day from the datasets that have nothing in it any more.
func (r *dayReader) dropOthers() {
	r.x.mu.Lock()
	defer r.x.mu.Unlock()
	for id := range r.x.sets {
		if !r.read[id] {
			r.change(id, newDataset())
		}
	}
}

// readOlder brings the numbers of all datasets together up to the days that are not followed any more, the newest
// first.
func (x *Index) readOlder(ctx context.Context, now time.Time) error {
	if x.older == nil {
		x.older = map[int32]lake.Print{}
	}
	for day, names := range x.follower.Files() { // these will be older one day
		x.older[day] = lake.PrintOf(names)
	}
	prints, summed, err := x.lake.Prints(ctx)
	if err != nil {
		return err
	}
	oldest, newest := int32(now.Add(-daysKept).Unix()/86400), int32(now.Add(-hoursKept).Unix()/86400)
	maps.DeleteFunc(x.older, func(day int32, _ lake.Print) bool { return day < oldest })
	x.forget(prints, newest)
	months := map[int32][]int32{} // by some number of the month
	for day, print := range prints {
		if day >= oldest && day < newest && x.older[day] != print {
			months[monthOf(day)] = append(months[monthOf(day)], day)
		}
	}
	return x.readMonths(ctx, months, prints, summed)
}

// readMonths reads days, as many months at a time as there are processors, and of those the newest first.
func (x *Index) readMonths(ctx context.Context, months map[int32][]int32, prints, summed map[int32]lake.Print) error {
	var readers errgroup.Group // without a context: after an error, what is under way goes on, for the next call
	readers.SetLimit(runtime.GOMAXPROCS(0))
	var failed atomic.Bool
	for _, month := range slices.Backward(slices.Sorted(maps.Keys(months))) {
		readers.Go(func() error {
			if failed.Load() {
				return nil
			}
			err := x.readMonth(ctx, months[month], prints, summed)
			if err != nil {
				failed.Store(true)
			}
			return err
		})
	}
	return readers.Wait()
}

// forget drops the days before newest that the table has no more.
func (x *Index) forget(prints map[int32]lake.Print, newest int32) {
	for day := range x.older {
		if _, there := prints[day]; there || day >= newest {
			continue
		}
		delete(x.older, day)
		x.mu.Lock()
		x.all.drop(int64(day) * 86400)
		x.mu.Unlock()
	}
}

// readMonth reads days of one month for the numbers of all datasets together, and for when each had its last event.
func (x *Index) readMonth(ctx context.Context, days []int32, prints, summed map[int32]lake.Print) error {
	all, last := newDataset(), map[string]int64{} // of datasets: the latest hour with an event
	note := func(id, kind, field string, hour int64) {
		if (seriesKey{Kind: kind, Field: field}).accepted() && hour > last[id] {
			last[keep(id)] = hour
		}
	}
	first, end := slices.Min(days), slices.Max(days)+1
	wanted, some := make([]bool, end-first), false
	for _, day := range days {
		if summed[day] == prints[day] {
			wanted[day-first], some = true, true
			continue
		}
		err := x.lake.ScanHours(ctx, lake.NumberQuery{From: dayTime(day), To: dayTime(day + 1)}, func(h *lake.Hour) error {
			all.addHour(h, 1<<62)
			note(h.DatasetID, h.Kind, h.Field, h.Hour)
			return nil
		})
		if err := whole(err); err != nil {
			return err
		}
	}
	if some {
		err := x.lake.ScanDays(ctx, lake.NumberQuery{From: dayTime(first), To: dayTime(end)}, func(d *lake.DaySum) error {
			if wanted[int32(d.Day/86400)-first] {
				all.addDay(d)
				note(d.DatasetID, d.Kind, d.Field, d.Last)
			}
			return nil
		})
		if err := whole(err); err != nil {
			return err
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, day := range days {
		x.all.drop(int64(day) * 86400)
		x.older[day] = prints[day]
	}
	x.all.merge(all, 1<<62)
	for id, hour := range last {
		p := packed{}
		if old := x.sets[id]; old != nil {
			p = *old
		}
		p.last = max(p.last, hour)
		x.sets[id] = &p
	}
	return nil
}

func dayTime(day int32) time.Time { return time.Unix(int64(day)*86400, 0).UTC() }

// monthOf numbers the months.
func monthOf(day int32) int32 {
	at := dayTime(day)
	return int32(at.Year()*12 + int(at.Month()))
}
