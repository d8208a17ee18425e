package console

import (
	"bufio"
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"sluice/internal/alarm"
	"sluice/internal/dataset"
	"sluice/internal/traffictest"
)

// BenchmarkWatching shows what operators cost senders: as many batches as two cores take, by turns with nobody looking
// and with a scrape every second, a viewer of Live and one of each page that asks again every three. An iteration is a
// round of each, six seconds in all; ten tell more than one: -benchtime 10x. The watchers' own side is in the figures.
func BenchmarkWatching(b *testing.B) {
	s := openService(b)
	s.dataset(dataset.Spec{ID: "shop"})
	const batch = 100
	body := string(traffictest.New(traffictest.Standard, 1).AppendBatch(nil, "shop", time.Now().Unix(), batch))
	round := func(watched bool) (events int64, used time.Duration) {
		ctx, cancel := context.WithTimeout(b.Context(), 3*time.Second)
		defer cancel()
		var all sync.WaitGroup
		if watched {
			all.Go(func() { watch(ctx, s) })
		}
		var sent atomic.Int64
		before := processorTime()
		for range 8 {
			all.Go(func() {
				for ctx.Err() == nil {
					if status, answer := s.post("shop", "/v1/events/batch", body); status != 200 {
						b.Errorf("got %d %s", status, answer)
						return
					}
					sent.Add(batch)
				}
			})
		}
		all.Wait()
		return sent.Load(), processorTime() - before
	}
	round(false) // warms up
	var events [2]int64
	var used [2]time.Duration
	for i := range b.N {
		for k := range 2 {
			which := (i + k) % 2 // neither is always the first
			n, took := round(which == 1)
			events[which] += n
			used[which] += took
		}
	}
	each := func(i int) float64 { return float64(used[i]) / float64(events[i]) }
	b.ReportMetric(100*(float64(events[1])/float64(events[0])-1), "%events")
	b.ReportMetric(100*(each(1)/each(0)-1), "%cpu/event")
	b.ReportMetric(float64(events[0])/3/float64(b.N), "events/s")
}

// A scrape a second, a viewer of Live and one of each page cost less than 2 % of two cores, their own side included.
func TestWatchingIsCheap(t *testing.T) {
	s := openService(t)
	s.dataset(dataset.Spec{ID: "shop"})
	s.post("shop", "/v1/events", plainEvent("shop"))
	const long = 3 * time.Second
	measure := func(watched bool) time.Duration {
		ctx, cancel := context.WithTimeout(t.Context(), long)
		defer cancel()
		var watchers sync.WaitGroup
		before := processorTime()
		if watched {
			watchers.Go(func() { watch(ctx, s) })
		}
		<-ctx.Done()
		used := processorTime() - before
		watchers.Wait()
		return used
	}
	alone, watched := measure(false), measure(true)
	t.Logf("processor time per second: alone %v, watched %v", alone/3, watched/3)
	if more := watched - alone; more > slower*2*long*2/100 {
		t.Errorf("watching costs %v of processor time in %v", more, long)
	}
}

// watch is an operator's browser and a Prometheus.
func watch(ctx context.Context, s *service) {
	ask := func(path string) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+path, nil)
		if err != nil {
			return
		}
		if resp, err := http.DefaultClient.Do(r); err == nil {
			for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			}
			_ = resp.Body.Close()
		}
	}
	var live sync.WaitGroup
	live.Go(func() { ask("/live/events") })
	defer live.Wait()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for n := 0; ; n++ {
		ask("/metrics")
		if n%3 == 0 {
			for _, path := range []string{"/", "/datasets", alarm.DatasetPath("shop"), "/diagnosis", "/system"} {
				ask(path)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func processorTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // cannot fail with these arguments
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
