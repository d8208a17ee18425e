// Package histogram counts durations.
package histogram

import (
	"slices"
	"sync/atomic"
	"time"
)

// Bounds are the upper bounds of the buckets that metrics have; a last bucket counts what is longer.
var Bounds = [...]time.Duration{
	500 * time.Microsecond, time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond,
	25 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second,
}

// Buckets are the counts by Bounds, and of what is longer.
type Buckets [len(Bounds) + 1]uint64

// Histogram counts durations. The zero value is empty. It is for concurrent use; a reader may see the count of a
// duration before its sum.
type Histogram struct {
	counts [len(Bounds) + 1]atomic.Uint64
	sum    atomic.Int64
}

// Record counts one duration. A negative one counts as zero: the clock may have been set.
func (h *Histogram) Record(d time.Duration) {
	d = max(d, 0)
	i, _ := slices.BinarySearch(Bounds[:], d)
	h.counts[i].Add(1)
	h.sum.Add(int64(d))
}

// Sum is all durations together.
func (h *Histogram) Sum() time.Duration { return time.Duration(h.sum.Load()) }

// Buckets counts by Bounds.
func (h *Histogram) Buckets() (b Buckets) {
	for i := range h.counts {
		b[i] = h.counts[i].Load()
	}
	return b
}

// Count is how many durations there are.
func (b *Buckets) Count() (n uint64) {
	for _, one := range b {
		n += one
	}
	return n
}

// Quantile is the upper edge of the bucket in which the q-th part of the counts is reached; zero when there are none.
func (b *Buckets) Quantile(q float64) time.Duration {
	sum, seen := b.Count(), uint64(0)
	want := uint64(q * float64(sum))
	for i, n := range b {
		if seen += n; n > 0 && (seen > want || seen == sum) {
			return Bounds[min(i, len(Bounds)-1)]
		}
	}
	return 0
}
