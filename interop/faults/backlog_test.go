//go:build faults

package faults

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"sluice/internal/traffictest"
)

// backlogSize is how many events wait in the stream: ten million, or FAULT_BACKLOG.
func backlogSize(t *testing.T) int {
	t.Helper()
	if s := os.Getenv("FAULT_BACKLOG"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1000 {
			t.Fatalf("FAULT_BACKLOG=%s: not a number of events, at least 1000", s)
		}
		return n
	}
	if brief() {
		return 200_000
	}
	return 10_000_000
}

// A backlog of ten million events, taken while the loader stood still, and then kill -9: the service is ready again
// within ten seconds, takes events at once, and loads the backlog meanwhile, each event once.
func TestBacklog(t *testing.T) {
	const perBatch = 1000
	size := backlogSize(t)
	dir := t.TempDir()
	key := provisioned(t, dir, "shop")
	s := start(t, dir, launch{env: []string{"SLUICE_FAILPOINT_NOLOADER=1"}})
	source := traffictest.New(traffictest.Standard, 11)
	var bodies []string // enough that no cache sees the same one soon
	for range 20 {
		bodies = append(bodies, string(source.AppendBatch(nil, "shop", time.Now().Unix(), perBatch)))
	}
	var wg sync.WaitGroup
	var next, failed atomic.Int64
	begun := time.Now()
	for range 4 {
		wg.Go(func() {
			for n := next.Add(1); n <= int64(size/perBatch); n = next.Add(1) {
				for {
					a, err := s.post(key, "/v1/events/batch", bodies[int(n)%len(bodies)])
					if err == nil && a.Status == http.StatusOK {
						break
					}
					if failed.Add(1) > 1000 {
						t.Errorf("batch %d: %d %v", n, a.Status, err)
						return
					}
					pause(50 * time.Millisecond)
				}
			}
		})
	}
	wg.Wait()
	accept, acceptCPU := float64(size)/time.Since(begun).Seconds(), s.cpu(t)
	s.Stop(syscall.SIGKILL)

	s = start(t, dir, launch{within: 60 * time.Second})
	ready := time.Now()
	t.Logf("%d events taken at %.0f/s (%d batches sent again); ready %v after kill -9", size, accept, failed.Load(), s.Started.Round(time.Millisecond))
	if s.Started > 10*time.Second {
		t.Errorf("ready after %v, want 10 s", s.Started)
	}
	a, err := s.post(key, "/v1/events", string(source.Append(nil, "shop", time.Now().Unix())))
	var receipt struct {
		ID string `json:"submission_id"`
	}
	if err != nil || a.Status != http.StatusOK || json.Unmarshal(a.Body, &receipt) != nil {
		t.Fatalf("an event beside the backlog: %d %v", a.Status, err)
	}
	eventually(t, 15*time.Minute, "the backlog loaded", func() error {
		a, err := s.Call(http.MethodGet, key, "/v1/submissions/"+receipt.ID, "")
		var found struct{ Status string }
		if err != nil || json.Unmarshal(a.Body, &found) != nil || found.Status != "PROCESSED" {
			return fmt.Errorf("%d %v %s", a.Status, err, found.Status)
		}
		pause(200 * time.Millisecond)
		return nil
	})
	drain, each := float64(size)/time.Since(ready).Seconds(), float64(size)/1e6
	t.Logf("loaded at %.0f/s, %.1f times as fast as it was taken; %d MiB of memory", drain, drain/accept, s.memory(t)>>20)
	t.Logf("processor seconds for a million events: %.1f to take, %.1f to load", acceptCPU.Seconds()/each, s.cpu(t).Seconds()/each)
	if drain < 10_000 { // docs/internals/guarantees.md says what it is, and why it is not twice the rate of acceptance
		t.Errorf("loaded at %.0f/s", drain)
	}
	query(t, dir, "events", "select 'rows', count(*) from t", func(_ string, n int64) {
		if n < int64(size)+1 || n > int64(size)+1+failed.Load()*perBatch {
			t.Errorf("%d rows, want %d", n, size+1)
		}
	})
	query(t, dir, "events", "select 'ids', count(*) - count(distinct event_id) from t", func(_ string, n int64) {
		if n != 0 {
			t.Errorf("%d event ids are there twice", n)
		}
	})
}
