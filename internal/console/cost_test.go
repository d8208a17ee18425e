package console

import (
	"bufio"
	"context"
	"net/http"
	"sync"
	"syscall"
	"testing"
	"time"

	"sluice/internal/dataset"
	"sluice/internal/traffic"
)

// BenchmarkAccept shows what operators cost senders: processor time per event with nobody looking, and with a
// scrape every second, a viewer of Live and one of each page that asks again every three. Run it for long enough
// that seconds count: -benchtime 5s. The two take turns, since machines have moods.
func BenchmarkAccept(b *testing.B) {
	s := openService(b)
	s.dataset(dataset.Spec{ID: "shop"})
	const batch = 100
	body := string(traffic.New(traffic.Standard, 1).AppendBatch(nil, "shop", time.Now().Unix(), batch))
	for _, name := range []string{"alone", "watched", "alone again", "watched again"} {
		b.Run(name, func(b *testing.B) {
			ctx, cancel := context.WithCancel(b.Context())
			var watchers sync.WaitGroup
			if name[0] == 'w' {
				watchers.Go(func() { watch(ctx, s) })
			}
			before := processorTime()
			for b.Loop() {
				if status, answer := s.post("shop", "/v1/events/batch", body); status != 200 {
					b.Fatalf("got %d %s", status, answer)
				}
			}
			used := processorTime() - before
			cancel()
			watchers.Wait()
			b.ReportMetric(float64(used.Nanoseconds())/float64(b.N*batch), "cpu-ns/event")
		})
	}
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
			for _, path := range []string{"/", "/datasets", datasetPath("shop"), "/diagnosis", "/system"} {
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
