package bench

import (
	"math/bits"
	"time"
)

// Histogram counts durations in steps of at most 1.6 %: 64 for each doubling, of microseconds. The zero value is
// empty. It is not for concurrent use; Add merges those of several senders.
type Histogram struct {
	counts [steps * doublings]uint64
	n      uint64
	sum    time.Duration
	max    time.Duration
}

const (
	stepBits  = 6
	steps     = 1 << stepBits
	doublings = 27 // up to 2^32 µs: more than an hour
)

// Record counts one duration.
func (h *Histogram) Record(d time.Duration) {
	d = max(d, 0)
	h.counts[slotOf(uint64(d/time.Microsecond))]++
	h.n++
	h.sum += d
	h.max = max(h.max, d)
}

// slotOf is exact below 64 µs and keeps the six bits after the first one above.
func slotOf(us uint64) int {
	if us < steps {
		return int(us)
	}
	shift := bits.Len64(us) - stepBits - 1
	slot := (shift+1)<<stepBits + int(us>>shift) - steps
	return min(slot, steps*doublings-1)
}

// ceiling is the longest duration that falls into a slot.
func ceiling(slot int) time.Duration {
	if slot < steps {
		return time.Duration(slot+1) * time.Microsecond
	}
	shift := slot>>stepBits - 1
	return time.Duration((steps+slot&(steps-1)+1)<<shift) * time.Microsecond
}

// Add counts what other has counted.
func (h *Histogram) Add(other *Histogram) {
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.n += other.n
	h.sum += other.sum
	h.max = max(h.max, other.max)
}

// Count is how many durations there are.
func (h *Histogram) Count() uint64 { return h.n }

// Mean is their mean, zero when there are none.
func (h *Histogram) Mean() time.Duration {
	if h.n == 0 {
		return 0
	}
	return h.sum / time.Duration(h.n)
}

// Quantile is the duration that a share q of all did not exceed, q from 0 to 1.
func (h *Histogram) Quantile(q float64) time.Duration {
	if h.n == 0 {
		return 0
	}
	rank := uint64(q*float64(h.n-1)) + 1
	seen := uint64(0)
	for i, n := range h.counts {
		if seen += n; seen >= rank && i < len(h.counts)-1 {
			return min(ceiling(i), h.max)
		}
	}
	return h.max
}
