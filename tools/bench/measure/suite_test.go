package measure

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// suiteReport is a report of the suite, in which the server is as fast as the reference and loads in four seconds.
func suiteReport(loadCPU float64) *Report {
	r := &Report{Machine: Machine{Begun: "2026-11-15T12:00:00Z", Version: "v1", Go: "go1", OS: "linux", Arch: "amd64", Processors: 2}}
	add := func(step, server string, f Figures) {
		f.Name, f.Server = step, server
		r.Figures = append(r.Figures, f)
	}
	add(batches, "127.0.0.1:8080", Figures{EventsPerSecond: 100, CPU: 2})
	add(batches, string(Least), Figures{EventsPerSecond: 100, CPU: 1})
	add(keyed, "127.0.0.1:8080", Figures{EventsPerSecond: 100, CPU: 1})
	add(keyed, string(Keyed), Figures{EventsPerSecond: 90, CPU: 1.5})
	add(load, "127.0.0.1:8080", Figures{CPU: 3, StoredCPU: 3 + loadCPU})
	return r
}

func TestGoals(t *testing.T) {
	reports := []*Report{suiteReport(3), suiteReport(5), suiteReport(3.5)}
	var b strings.Builder
	if err := WriteGoals(&b, reports); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"batches of 500: events/s beside the reference 1.00, 1.00, 1.00 ≥ 0.9 yes",
		"batches of 500: processor time beside the reference 2.00, 2.00, 2.00 ≤ 1.1 no",
		"single events: requests/s beside the reference –, –, – ≥ 0.9 –",
		"single events with an idempotency key: requests/s beside those without 0.90, 0.90, 0.90 ≥ 0.8 yes",
		"single events with an idempotency key: processor time beside those without 1.50, 1.50, 1.50 – –",
		"load a million events with compaction, s of processor time 3.0, 5.0, 3.5 ≤ 4 yes",
	} {
		if !strings.Contains(strings.Join(strings.Fields(b.String()), " "), want) {
			t.Errorf("got no %q in\n%s", want, b.String())
		}
	}
}

// A running server is measured as its senders see it: steps that start or restart servers are left out.
func TestSuiteOfARunningServer(t *testing.T) {
	names := func(h Harness) (out []string) {
		for _, s := range h.Suite() {
			out = append(out, s.Name)
		}
		return out
	}
	own, other := names(Harness{}), names(Harness{Address: "http://127.0.0.1:8080"})
	if len(own) != 10 || strings.Join(other, ",") != strings.Join([]string{batches, singles, keyed, invalid, forbidden, load, fresh}, ",") {
		t.Errorf("got %v and %v", own, other)
	}
}

// The rivals are answered as the suite expects: an idempotency key is a header of its own, and an answer other than 200 counts
// where it is wanted.
func TestRivals(t *testing.T) {
	var mu sync.Mutex
	keys := map[string]bool{}
	dial := serveLoad(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		keys[r.Header.Get("Idempotency-Key")] = true
		w.Header().Set("Content-Length", "0")
		w.WriteHeader(http.StatusForbidden)
	})
	load := Load{Dial: dial, Host: "x", Bodies: newBodies(t, 1, 2, "shop"), For: time.Minute, Events: 20, Keyed: true, Want: http.StatusForbidden, Now: time.Now}
	r, err := load.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if r.Requests != 20 || len(keys) != 20 || keys[""] {
		t.Errorf("got %d answers and %d keys, want 20 and 20", r.Requests, len(keys))
	}
}
