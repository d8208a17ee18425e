// Package hours counts what the loader stores, by dataset and hour, and has the numbers for those who show them: in
// memory what lists and alarms need of all datasets, and from the tables what somebody asks about one.
package hours

import (
	"context"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/lake"
)

// How long an index keeps numbers in memory. The tables keep them for 13 months.
const (
	hoursKept  = 8 * 24 * time.Hour   // by the hour: of all datasets together, and the totals of each
	recentKept = 24 * time.Hour       // by the hour, beside the running one: every other number of a dataset
	daysKept   = 400 * 24 * time.Hour // by the day: of all datasets together
)

// memoryMax bounds the memory for the numbers of all datasets, as far as the totals of a week allow: a share of it for
// each of them, and 2 KiB at least. Of a dataset that would take more than its share, only what alarms look at is in
// memory.
const (
	memoryMax = 48 << 20
	shareMin  = 2 << 10
	shareMax  = 64 << 10
)

// Index has the numbers of the tables hours and days. In memory it keeps, for each dataset, the totals by the hour for
// a week and the other numbers for a day; of all datasets together it keeps everything. It reads the rest on demand:
// see Detail. It may be used by many goroutines. docs/decisions/0051 says why.
type Index struct {
	CacheMax int // bytes of days that are over which Detail keeps; 0 is 8 MiB. It is set before the index is used

	// Known says whether there is a dataset; nil knows all. Of one that was deleted the index keeps nothing once the
	// tables have nothing. It is set before the index is used.
	Known func(id string) bool

	lake     *lake.Lake
	follower lake.HourFollower    // Read alone uses it
	older    map[int32]lake.Print // the days that all has and the follower does not read any more; Read alone uses it
	resumed  bool                 // Read has looked for an index to begin with
	saves    uint64               // how often the index was saved, by whichever process
	complete atomic.Bool
	readAt   atomic.Int64 // Unix nanoseconds

	mu      sync.RWMutex
	all     *Dataset // with what pends
	sets    map[string]*packed
	keys    keys
	pending overlay
	pruned  int64 // in which hour

	cache cache
}

// NewIndex is an empty index of the tables of a lake. Read fills it.
func NewIndex(l *lake.Lake) *Index {
	return &Index{lake: l, all: newDataset(), sets: map[string]*packed{}, cache: newCache()}
}

// Complete says whether the tables were read to their end once. Until then the numbers are too small.
func (x *Index) Complete() bool { return x.complete.Load() }

// ReadAt is when Read last succeeded, or the zero time.
func (x *Index) ReadAt() time.Time {
	if at := x.readAt.Load(); at != 0 {
		return time.Unix(0, at)
	}
	return time.Time{}
}

// pack packs a dataset that was another before. One that was large stays so: memory does not have all of its last day.
func (x *Index) pack(d *Dataset, was *packed, now time.Time) *packed {
	most := min(max(memoryMax/max(1, len(x.sets)), shareMin), shareMax)
	if was != nil && was.large {
		most = 0
	}
	return x.keys.pack(d, now.Add(-hoursKept).Unix(), recentFrom(now), most)
}

// recentFrom is the first hour of which memory has every number.
func recentFrom(now time.Time) int64 { return now.Add(-recentKept).Truncate(time.Hour).Unix() }

// Prune drops what is too old to be shown, once in an hour.
func (x *Index) Prune(now time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	hour := now.Unix() / 3600
	if x.pruned == hour {
		return
	}
	x.pruned = hour
	x.all.prune(now.Add(-hoursKept).Unix(), now.Add(-daysKept).Unix())
	for id, p := range x.sets {
		if (p.last < now.Add(-daysKept).Unix() || x.deleted(id)) && x.empty(p) {
			delete(x.sets, id)
			continue
		}
		x.sets[id] = x.pack(x.keys.unpack(p), p, now)
	}
}

// deleted says whether a dataset is no more.
func (x *Index) deleted(id string) bool { return x.Known != nil && !x.Known(id) }

// empty says whether memory has no number of a dataset.
func (x *Index) empty(p *packed) bool {
	counts := func(s series) bool { return len(s.hours) > 0 }
	return len(p.recent) == 0 && !slices.ContainsFunc(x.keys.unpack(p).filled().totals[:], counts)
}

// View is a look at an index. The index does not change until Close.
type View struct{ x *Index }

// View opens a view. The caller closes it soon: Read waits for it.
func (x *Index) View() View {
	x.mu.RLock()
	return View{x}
}

// Close ends the view.
func (v View) Close() { v.x.mu.RUnlock() }

// All is the numbers of all datasets together: by the hour for a week and by the day for 13 months.
func (v View) All() *Dataset { return v.x.all }

// Dataset is what memory has of the numbers of one dataset: its totals by the hour for a week, and its other numbers by
// the hour for the last 24. A dataset without any has an empty one.
func (v View) Dataset(id string) *Dataset { return v.x.shown(id, v.x.sets[id]) }

// Whole says whether memory has every number of a dataset of the last 24 hours. Else Detail has them.
func (v View) Whole(id string) bool { return v.x.sets[id] == nil || !v.x.sets[id].large }

// shown is a dataset with what pends of it. The caller holds the lock.
func (x *Index) shown(id string, p *packed) *Dataset {
	d := x.keys.unpack(p)
	d.pend(x.pending.rows, x.pending.by[id])
	return d
}

// Datasets are the datasets that have numbers in memory, as Dataset has them, in no order.
func (v View) Datasets() iter.Seq2[string, *Dataset] {
	return func(yield func(string, *Dataset) bool) {
		for id, p := range v.x.sets {
			if !yield(id, v.x.shown(id, p)) {
				return
			}
		}
		for id := range v.x.pending.by {
			if v.x.sets[id] == nil && !yield(id, v.x.shown(id, nil)) {
				return
			}
		}
	}
}

// Bytes is about how much memory the numbers of the datasets take, and how many there are.
func (x *Index) Bytes() (bytes, datasets int) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for id, p := range x.sets {
		bytes += p.bytes() + len(id) + 24
	}
	return bytes, len(x.sets)
}

// How often Run reads, prunes, and saves the index. The table moves when a loader commits, every few seconds.
const (
	indexEvery = time.Second
	pruneEvery = time.Minute
	saveEvery  = time.Hour
)

// Run keeps the index up to the tables until ctx ends. It logs the first of several failures in a row. While the lake
// is maintained by this process it saves the index, so that another one can begin with it.
func (x *Index) Run(ctx context.Context, clock func() time.Time, log *slog.Logger) error {
	tick := time.NewTicker(indexEvery)
	defer tick.Stop()
	failed := false
	pruned, saved := clock(), time.Time{}
	for {
		now := clock()
		err := x.Read(ctx, now)
		if err == nil && x.Complete() && x.lake.Maintained() && now.Sub(saved) >= saveEvery {
			saved = now
			err = x.Save(ctx)
		}
		if ctx.Err() != nil {
			return nil
		}
		if err != nil && !failed {
			log.Error("read hourly numbers", "error", err)
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
