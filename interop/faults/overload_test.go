//go:build faults

package faults

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/servicetest"
	"sluice/internal/traffictest"
)

// steady calls send at a fixed rate for a time, whether or not earlier calls have ended, as the world does. Latencies
// count from when a call was due. More than most calls at once are not made: they count as failed.
func steady(rate float64, last time.Duration, most int, send func(n int) bool) (ok, offered int, latency []time.Duration) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	places := make(chan struct{}, most)
	begun := time.Now()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for time.Since(begun) < last {
		for due := int(rate * time.Since(begun).Seconds()); offered < due; offered++ {
			at := begun.Add(time.Duration(float64(offered) / rate * float64(time.Second)))
			n := offered
			select {
			case places <- struct{}{}:
			default:
				continue
			}
			wg.Go(func() {
				good := send(n)
				took := time.Since(at)
				mu.Lock()
				if latency = append(latency, took); good {
					ok++
				}
				mu.Unlock()
				<-places
			})
		}
		<-tick.C
	}
	wg.Wait()
	return ok, offered, latency
}

// saturate calls send from so many senders for a time, each again as soon as it has its answer.
func saturate(senders int, last time.Duration, send func(n int) bool) (ok int) {
	var wg sync.WaitGroup
	var good, n atomic.Int64
	begun := time.Now()
	for range senders {
		wg.Go(func() {
			for time.Since(begun) < last {
				if send(int(n.Add(1))) {
					good.Add(1)
				} else {
					pause(10 * time.Millisecond)
				}
			}
		})
	}
	wg.Wait()
	return int(good.Load())
}

func percentile(d []time.Duration, p float64) time.Duration {
	if len(d) == 0 {
		return 0
	}
	slices.Sort(d)
	return d[int(p*float64(len(d)-1))]
}

// Five times more requests than the disk can take, each in need of a sync of its own: the service goes on at no less
// than nine tenths of its best.
func TestOverloadGoodput(t *testing.T) {
	dir := t.TempDir()
	s := start(t, dir, launch{})
	l := newLedger("shop", provisioned(t, dir, "shop"))
	send := func(int) bool { return l.Send(s, l.Request(servicetest.KeyedSingle)).Status == http.StatusOK }
	saturate(16, 500*time.Millisecond, send) // warm
	best, under, offered := 0.0, 0.0, 0
	n := rounds(t, 4, 2)
	const last = 3 * time.Second
	for range n { // alternately, for the machine is not ours alone
		peak := float64(saturate(16, last, send)) / last.Seconds()
		best += peak
		ok, asked, _ := steady(5*peak, last, 512, send)
		under += float64(ok) / last.Seconds()
		offered += asked
	}
	t.Logf("best %.0f/s; at %.0f/s offered %.0f/s are acknowledged, %.2f of it; answers %v",
		best/float64(n), float64(offered)/float64(n)/last.Seconds(), under/float64(n), under/best, l.Statuses())
	if under < 0.9*best {
		t.Errorf("goodput falls to %.2f of its best under five times the load, want 0.9", under/best)
	}
	if most := s.memory(t); most > 1<<30 {
		t.Errorf("%d MiB of memory", most>>20)
	}
	l.Settle(t, s, 120*time.Second)
	l.check(t, dir)
}

// One dataset floods the service with batches, five times as many senders as fill it; another sends single events at
// an even rate. The second one's p99 is no more than twice what it is when the first merely fills the service.
func TestFloodOfOneDataset(t *testing.T) {
	dir := t.TempDir()
	s := start(t, dir, launch{})
	loud := provisioned(t, dir, "loud")
	quiet := newLedger("quiet", provisioned(t, dir, "quiet"))
	source := traffictest.New(traffictest.Standard, 7)
	body := string(source.AppendBatch(nil, "loud", time.Now().Unix(), 500))
	flood := func(int) bool {
		a, err := s.post(loud, "/v1/events/batch", body)
		return err == nil && a.Status == http.StatusOK
	}
	single := func(int) bool { return quiet.Send(s, quiet.Request(servicetest.Single)).Status == http.StatusOK }
	measure := func(senders int) (p99 time.Duration, ok, offered, batches int) {
		var wg sync.WaitGroup
		const last = 4 * time.Second
		wg.Go(func() { batches = saturate(senders, last, flood) })
		var latency []time.Duration
		ok, offered, latency = steady(50, last, 64, single)
		wg.Wait()
		return percentile(latency, 0.99), ok, offered, batches
	}
	measure(2)
	const fills = 4
	var ratios []float64
	for range rounds(t, 5, 3) {
		alone, _, _, _ := measure(0)
		filled, _, _, peak := measure(fills)
		flooded, ok, offered, batches := measure(5 * fills)
		ratios = append(ratios, float64(flooded)/float64(filled))
		t.Logf("p99 alone %v, beside %d senders %v (%d batches), beside %d senders %v (%d batches), %d of %d answered 200",
			alone, fills, filled, peak, 5*fills, flooded, batches, ok, offered)
		if float64(ok) < 0.9*float64(offered) {
			t.Errorf("%d of %d requests of the quiet dataset were answered 200", ok, offered)
		}
	}
	within(t, ratios, 2)
}

// within looks at the middle one of several measurements: the machine is not ours alone.
func within(t *testing.T, ratios []float64, most float64) {
	t.Helper()
	slices.Sort(ratios)
	if median := ratios[len(ratios)/2]; median > most {
		t.Errorf("what the quiet dataset waits grows by %.1f (%s), want %g at most", median, fmt.Sprintf("%.2f", ratios), most)
	}
}

// A dataset that sends five times what it was given is held to it: it gets what it was given, 429 for the rest, and the
// other dataset notices nothing.
func TestRateLimitHolds(t *testing.T) {
	dir := t.TempDir()
	s := start(t, dir, launch{})
	loud := newLedger("loud", provisioned(t, dir, "loud", "--requests-per-second", "100"))
	quiet := newLedger("quiet", provisioned(t, dir, "quiet"))
	of := func(l *ledger) func(int) bool {
		return func(int) bool { return l.Send(s, l.Request(servicetest.Single)).Status == http.StatusOK }
	}
	const last = 4 * time.Second
	n := rounds(t, 5, 3)
	var ratios []float64
	taken := 0
	for range n {
		_, _, before := steady(50, last, 64, of(quiet))
		var wg sync.WaitGroup
		wg.Go(func() {
			ok, _, _ := steady(500, last, 64, of(loud))
			taken += ok
		})
		_, _, beside := steady(50, last, 64, of(quiet))
		wg.Wait()
		was, is := percentile(before, 0.99), percentile(beside, 0.99)
		t.Logf("p99 of the quiet dataset before %v, beside %v", was, is)
		ratios = append(ratios, float64(max(is, 10*time.Millisecond))/float64(max(was, 10*time.Millisecond)))
	}
	within(t, ratios, 2)
	t.Logf("%d requests of the loud one taken in %d times %v: %v", taken, n, last, loud.Statuses())
	if want := float64(n) * 100 * (last + time.Second).Seconds(); float64(taken) < 0.7*want || float64(taken) > 1.1*want {
		t.Errorf("%d requests taken, want %v, of which a fifth is what may come at once", taken, want)
	}
	for status, n := range loud.Statuses() {
		if status != http.StatusOK && status != http.StatusTooManyRequests && status != http.StatusServiceUnavailable {
			t.Errorf("%d answers %d", n, status)
		}
	}
}
