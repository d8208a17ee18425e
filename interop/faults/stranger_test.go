//go:build faults

package faults

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/internal/servicetest"
)

// Bodies of 9 KB of gzip that are 4 MB of JSON, from eight senders of one dataset: the median of another dataset's single
// events grows to three times at most.
func TestCompressedFlood(t *testing.T) {
	dir := t.TempDir()
	s := start(t, dir, launch{})
	loud := provisioned(t, dir, "loud")
	quiet := newLedger("quiet", provisioned(t, dir, "quiet"))
	body, err := bomb("loud")
	if err != nil {
		t.Fatal(err)
	}
	flood := func(int) bool {
		a, err := s.post(loud, "/v1/events/batch", body, "Content-Encoding", "gzip")
		return err == nil && a.Status == http.StatusOK
	}
	single := func(int) bool { return quiet.Send(s, quiet.Request(servicetest.Single)).Status == http.StatusOK }
	measure := func(senders int, last time.Duration) (median time.Duration, taken int) {
		var wg sync.WaitGroup
		wg.Go(func() { taken = saturate(senders, last, flood) })
		_, _, latency := steady(50, last, 64, single)
		wg.Wait()
		return percentile(latency, 0.5), taken
	}
	measure(2, time.Second)
	var ratios []float64
	for range rounds(t, 5, 3) {
		alone, _ := measure(0, 4*time.Second)
		beside, taken := measure(8, 8*time.Second)
		t.Logf("median alone %v, beside %d gzip bodies %v", alone, taken, beside)
		ratios = append(ratios, float64(max(beside, 10*time.Millisecond))/float64(max(alone, 10*time.Millisecond)))
	}
	within(t, ratios, 3)
	quiet.Settle(t, s, 2*time.Minute)
	quiet.check(t, dir)
}

// The two bodies that cost validate most before: each is answered soon and briefly.
func TestValidateCosts(t *testing.T) {
	dir := t.TempDir()
	s := start(t, dir, launch{})
	key := provisioned(t, dir, "shop")
	for name, gpp := range map[string]string{"unsorted ranges": restrictions(33, 60), "wide ranges": restrictions(700, 1)} {
		body := fmt.Sprintf(`{"data_set_id":"shop","timestamp":%d,"event_type":"purchase","identifiers":{"ifa":"97987bca-ae59-4c7d-94ba-ee4f19ab8c21"},`+
			`"privacy":{"gpp_string":%q,"gpp_sid":[2]}}`, time.Now().Unix(), gpp)
		var took []time.Duration
		size, status := 0, 0
		for range 20 {
			begun := time.Now()
			a, err := s.post(key, "/v1/events/validate", body)
			if err != nil {
				t.Fatal(err)
			}
			took = append(took, time.Since(begun))
			size, status = max(size, len(a.Body)), a.Status
		}
		median := percentile(took, 0.5)
		t.Logf("%s: %d bytes, answer %d of %d bytes, median %v", name, len(body), status, size, median)
		if median > 300*time.Millisecond { // 3.2 s of a processor before
			t.Errorf("%s: %v, want 300ms at most", name, median)
		}
		if size > 1<<20 { // 22 MB before
			t.Errorf("%s: an answer of %d bytes, want 1 MiB at most", name, size)
		}
	}
}

// Submission ids that somebody made up, on a server with a million rows: 404, and none takes as long as a scan.
func TestForgedIDsInAMillionRows(t *testing.T) {
	dir := t.TempDir()
	s := start(t, dir, launch{})
	l := newLedger("shop", provisioned(t, dir, "shop"))
	batches := rounds(t, 1000, 50)
	events := make([]string, 1000)
	for i := range events {
		events[i] = l.Event(fmt.Sprint("row-", i), 0)
	}
	body := "[" + strings.Join(events, ",") + "]"
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := w; i < batches; i += 4 {
				eventually(t, 2*time.Minute, "a batch", func() error {
					a, err := s.post(l.Key, "/v1/events/batch", body)
					if err == nil && a.Status != http.StatusOK {
						err = fmt.Errorf("status %d", a.Status)
					}
					return err
				})
			}
		})
	}
	wg.Wait()
	l.Settle(t, s, 5*time.Minute)
	real := l.Send(s, l.Request(servicetest.Single)).ID
	if len(real) < 40 {
		t.Fatalf("got the id %q", real)
	}
	ask := func(id string, want ...int) time.Duration {
		begun := time.Now()
		a, err := s.Call(http.MethodGet, l.Key, "/v1/submissions/"+id, "")
		if err != nil {
			t.Fatal(err)
		}
		for _, status := range want {
			if a.Status == status {
				return time.Since(begun)
			}
		}
		t.Errorf("%s: got %d, want %d", id, a.Status, want)
		return 0
	}
	var own, forged []time.Duration
	for i := range 100 {
		own = append(own, ask(real, http.StatusOK))
		forged = append(forged, ask(real[:len(real)-4]+fmt.Sprintf("%04x", i+1), http.StatusNotFound))
	}
	mid := func(d []time.Duration) time.Duration { return percentile(d, 0.5) }
	t.Logf("%d rows; median of the server's own id %v, of a forged one %v", 1000*batches, mid(own), mid(forged))
	if limit := 10*time.Millisecond + 2*mid(own); mid(forged) > limit {
		t.Errorf("made-up ids take %v, want %v at most: less than a scan", mid(forged), limit)
	}
}
