package measure

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"
)

func TestQuantile(t *testing.T) {
	var h, half Histogram
	if h.Quantile(0.5) != 0 || h.Mean() != 0 {
		t.Error("an empty histogram is not zero")
	}
	r := rand.New(rand.NewPCG(1, 2))
	var all []time.Duration
	var sum time.Duration
	for i := range 20_000 {
		d := time.Duration(r.ExpFloat64() * float64(5*time.Millisecond))
		all = append(all, d)
		sum += d
		if i%2 == 0 {
			h.Record(d)
		} else {
			half.Record(d)
		}
	}
	h.Add(&half)
	slices.Sort(all)
	for _, q := range []float64{0, 0.5, 0.9, 0.99, 0.999, 1} {
		want := all[int(q*float64(len(all)-1))]
		if got := h.Quantile(q); got < want || got > want+want/40+time.Microsecond {
			t.Errorf("quantile %g: got %v, want %v", q, got, want)
		}
	}
	if h.Count() != 20_000 || h.Sum() != sum || h.Max() != all[len(all)-1] || h.Mean() != sum/20_000 {
		t.Errorf("got %d, %v, %v, %v", h.Count(), h.Sum(), h.Max(), h.Mean())
	}
	h.Record(1000 * time.Hour) // beyond the last ceiling
	if h.Quantile(1) != 1000*time.Hour {
		t.Errorf("got %v", h.Quantile(1))
	}
}

// Each slot begins where the one before it ends, and is at most 2.5 % or 1 µs wide.
func TestSlots(t *testing.T) {
	for slot := range slots - 1 {
		us := uint64(ceiling(slot) / time.Microsecond)
		if got := slotOf(us); got != slot {
			t.Fatalf("%d µs, the ceiling of slot %d, is in slot %d", us, slot, got)
		}
		if got := slotOf(us + 1); got != slot+1 {
			t.Fatalf("%d µs is in slot %d, want %d", us+1, got, slot+1)
		}
		if slot > 0 {
			if wide := ceiling(slot) - ceiling(slot-1); wide > time.Microsecond && wide > ceiling(slot-1)/40 {
				t.Fatalf("slot %d is %v wide at %v", slot, wide, ceiling(slot))
			}
		}
	}
}

func TestConcurrent(t *testing.T) {
	var h Histogram
	var senders sync.WaitGroup
	for i := range 4 {
		senders.Go(func() {
			for j := range 1000 {
				h.Record(time.Duration(i*1000+j) * time.Microsecond)
			}
		})
	}
	senders.Wait()
	if h.Count() != 4000 || h.Max() != 3999*time.Microsecond || h.Sum() != 4000*3999/2*time.Microsecond {
		t.Errorf("got %d, %v, %v", h.Count(), h.Max(), h.Sum())
	}
}
