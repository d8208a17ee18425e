package measure

import (
	"sync/atomic"
	"time"
)

// Histogram counts durations in slots that are at most 2.5 % wide, or 1 µs. The zero value is empty. It is for
// concurrent use; a reader may see the count of a duration before its sum.
type Histogram struct {
	slots    [slots]atomic.Uint64
	sum, max atomic.Int64
}

// Slot n up to 100 counts what is at most n µs. From there each decade has 160 slots, whose ceilings include the bounds
// 1, 2, 2.5, 5 and 10 that people choose. The last slot counts what is longer than ten hours.
const (
	single    = 100 // µs that have a slot each
	perDecade = 160
	decades   = 9
	slots     = single + 1 + perDecade*decades + 1
)

// stretches divide a decade, which is from 100 units to 1,000: the first ends at 200, in steps of 2.
var stretches = [...]stretch{{100, 200, 2}, {200, 500, 5}, {500, 1000, 10}}

type stretch struct{ from, to, step uint64 }

func (s stretch) slots() uint64 { return (s.to - s.from) / s.step }

// Record counts one duration. A negative one counts as zero: the clock may have been set.
func (h *Histogram) Record(d time.Duration) {
	d = max(d, 0)
	h.slots[slotOf(uint64((d+time.Microsecond-1)/time.Microsecond))].Add(1)
	h.sum.Add(int64(d))
	for {
		longest := h.max.Load()
		if int64(d) <= longest || h.max.CompareAndSwap(longest, int64(d)) {
			return
		}
	}
}

func slotOf(us uint64) int {
	if us <= single {
		return int(us)
	}
	unit, slot := uint64(1), single+1
	for range decades {
		if us > 1000*unit {
			unit, slot = 10*unit, slot+perDecade
			continue
		}
		for _, s := range stretches {
			if us <= s.to*unit {
				return slot + int((us-s.from*unit-1)/(s.step*unit))
			}
			slot += int(s.slots())
		}
	}
	return slots - 1
}

// ceiling is the longest duration that a slot counts; the last slot has none.
func ceiling(slot int) time.Duration {
	if slot <= single {
		return time.Duration(slot) * time.Microsecond
	}
	slot -= single + 1
	unit := uint64(1)
	for ; slot >= perDecade; slot -= perDecade {
		unit *= 10
	}
	n, i := uint64(slot), 0
	for ; n >= stretches[i].slots(); i++ {
		n -= stretches[i].slots()
	}
	s := stretches[i]
	return time.Duration((s.from+(n+1)*s.step)*unit) * time.Microsecond
}

// Add counts what other has counted.
func (h *Histogram) Add(other *Histogram) {
	for i := range other.slots {
		if n := other.slots[i].Load(); n > 0 {
			h.slots[i].Add(n)
		}
	}
	h.sum.Add(other.sum.Load())
	h.max.Store(max(h.max.Load(), other.max.Load()))
}

// Count is how many durations there are.
func (h *Histogram) Count() (n uint64) {
	for i := range h.slots {
		n += h.slots[i].Load()
	}
	return n
}

// Sum is all durations together.
func (h *Histogram) Sum() time.Duration { return time.Duration(h.sum.Load()) }

// Max is the longest duration.
func (h *Histogram) Max() time.Duration { return time.Duration(h.max.Load()) }

// Mean is zero when there are none.
func (h *Histogram) Mean() time.Duration {
	n := h.Count()
	if n == 0 {
		return 0
	}
	return h.Sum() / time.Duration(n)
}

// Quantile is the duration that a share q of all did not exceed, q from 0 to 1.
func (h *Histogram) Quantile(q float64) time.Duration {
	n := h.Count()
	if n == 0 {
		return 0
	}
	rank, seen := uint64(q*float64(n-1))+1, uint64(0)
	for i := range slots - 1 {
		if seen += h.slots[i].Load(); seen >= rank {
			return min(ceiling(i), h.Max())
		}
	}
	return h.Max()
}
