package histogram

import (
	"sync"
	"testing"
	"time"
)

// A bucket counts what is at most its bound, to the nanosecond.
func TestBuckets(t *testing.T) {
	for i, bound := range Bounds {
		var h Histogram
		h.Record(bound)
		h.Record(bound + 1)
		b := h.Buckets()
		if b[i] != 1 || b[i+1] != 1 {
			t.Errorf("%v and a nanosecond more: got %v", bound, b)
		}
	}
	var h Histogram
	h.Record(-time.Second)
	h.Record(time.Hour)
	if b := h.Buckets(); b[0] != 1 || b[len(Bounds)] != 1 || h.Sum() != time.Hour {
		t.Errorf("got %v, sum %v", b, h.Sum())
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
	if b := h.Buckets(); b.Count() != 4000 || h.Sum() != 4000*3999/2*time.Microsecond {
		t.Errorf("got %d, %v", b.Count(), h.Sum())
	}
}

func BenchmarkRecord(b *testing.B) {
	var h Histogram
	for i := range b.N {
		h.Record(time.Duration(i%10_000) * time.Microsecond)
	}
}
