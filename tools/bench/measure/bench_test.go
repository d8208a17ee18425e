package measure

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/event"
	"sluice/internal/traffictest"
)

func key() string { return "k" }

func newBodies(t *testing.T, batch, senders int, ids ...string) *Bodies {
	t.Helper()
	var all []Dataset
	for _, id := range ids {
		all = append(all, Dataset{ID: id, Key: key})
	}
	s, err := NewBodies(traffictest.Standard, batch, senders, all, 1, time.Now().Unix())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Bodies stay valid events whatever is written into them, and no two hashes of a batch are alike.
func TestStock(t *testing.T) {
	bodies := newBodies(t, 100, 1, "bench-1", "bench-2")
	seen, hashes := map[string]int{}, map[string]bool{}
	var d event.Decoder
	for range 2 * len(bodies.perSender[0].bodies) {
		b, i := bodies.perSender[0].take(bodies.datasets)
		id := bodies.datasets[i].ID
		seen[id]++
		result, problem := d.Decode(string(b.text), event.Batch, event.Policy{DatasetID: id}, time.Now())
		if problem != nil || result.Foreign || result.Rejected > 0 || len(result.Rows) != 100 {
			t.Fatalf("got %+v, %v", result, problem)
		}
		for i := range result.Rows {
			hashes[strings.Clone(result.Rows[i].EmailSHA256)] = true
		}
	}
	total := 200 * len(bodies.perSender[0].bodies)
	if len(seen) != 2 || len(hashes) < total*99/100 {
		t.Errorf("got events of %d datasets and %d hashes of %d events", len(seen), len(hashes), total)
	}
	if _, err := NewBodies(traffictest.Standard, 1, 1, []Dataset{{"a", key}, {"bb", key}}, 1, 0); err == nil {
		t.Error("ids of two lengths are taken")
	}
}

// serveLoad answers with a handler and returns how to reach it.
func serveLoad(t *testing.T, h http.HandlerFunc) func(context.Context) (net.Conn, error) {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", s.Listener.Addr().String())
	}
}

func TestClosedLoopIsBounded(t *testing.T) {
	var events atomic.Int64
	dial := serveLoad(t, func(w http.ResponseWriter, r *http.Request) {
		var batch []json.RawMessage
		if err := json.NewDecoder(r.Body).Decode(&batch); err != nil || r.Header.Get("Authorization") != "Bearer k" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		events.Add(int64(len(batch)))
		_, _ = io.WriteString(w, "{}")
	})
	load := Load{Dial: dial, Host: "x", Bodies: newBodies(t, 10, 3, "shop"), For: time.Minute, Events: 255, Now: time.Now}
	r, err := load.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if r.Events != 250 || r.Requests != 25 || events.Load() != 250 || r.Failed != 0 || r.Latency.Count() != 25 {
		t.Errorf("got %d events in %d requests, %d arrived, %d failed", r.Events, r.Requests, events.Load(), r.Failed)
	}
}

// A server that stalls once for a while is charged for every request that was due meanwhile.
func TestOpenLoopCountsWaiting(t *testing.T) {
	var stall sync.Once
	var mu sync.Mutex
	const stalled = 300 * time.Millisecond
	dial := serveLoad(t, func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		stall.Do(func() {
			timer := time.NewTimer(stalled)
			<-timer.C
		})
		_, _ = io.WriteString(w, "{}")
	})
	load := Load{Dial: dial, Host: "x", Bodies: newBodies(t, 1, 2, "shop"), Rate: 200, For: 600 * time.Millisecond, Now: time.Now}
	r, err := load.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if r.Requests < 110 || r.Requests > 120 {
		t.Errorf("got %d requests, want 120 offered whatever happens", r.Requests)
	}
	// Half of the time it stalled: so a quarter of all requests waited half of that or more, though only two were sent.
	if waited := r.Latency.Quantile(0.75); waited < stalled/4 {
		t.Errorf("three quarters took %v at most", waited)
	}
	if served := r.Service.Quantile(0.75); served > stalled/4 {
		t.Errorf("of those sent, three quarters took %v", served)
	}
}

func TestFailuresAreCounted(t *testing.T) {
	var n atomic.Int64
	dial := serveLoad(t, func(w http.ResponseWriter, _ *http.Request) {
		switch n.Add(1) % 3 {
		case 0:
			w.WriteHeader(http.StatusServiceUnavailable)
		case 1:
			panic(http.ErrAbortHandler) // the connection ends
		default:
			_, _ = io.WriteString(w, "{}")
		}
	})
	load := Load{Dial: dial, Host: "x", Bodies: newBodies(t, 1, 1, "shop"), For: time.Minute, Events: 9, Now: time.Now}
	r, err := load.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if r.Requests != 3 || r.Failed != 6 || r.First == nil {
		t.Errorf("got %d answered and %d failed, %v", r.Requests, r.Failed, r.First)
	}
	if _, err := (&Load{Dial: dial, Bodies: load.Bodies, Now: time.Now}).Run(t.Context()); err == nil {
		t.Error("a load without an end runs")
	}
}

// The reference answers once the body is in its file, and rejects what is not JSON.
func TestReference(t *testing.T) {
	path := filepath.Join(t.TempDir(), "reference")
	ref, err := OpenReference(path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- ref.Run(ctx) }()
	server := httptest.NewServer(ref)
	defer server.Close()
	post := func(body string) int {
		answer, err := http.Post(server.URL, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		return answer.StatusCode
	}
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if status := post(`{"a":1}`); status != http.StatusOK {
				t.Errorf("got %d", status)
			}
		})
	}
	wg.Wait()
	for _, bad := range []string{`{"a":1,"a":2}`, `{"a":`, "{\"a\":\"\xff\"}"} {
		if status := post(bad); status != http.StatusBadRequest {
			t.Errorf("%q: got %d", bad, status)
		}
	}
	cancel()
	if err := errors.Join(<-done, ref.Close()); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != strings.Repeat(`{"a":1}`, 20) {
		t.Errorf("got %d bytes, %v", len(b), err)
	}
}

// The probe asks until the event is in the table.
func TestProbe(t *testing.T) {
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPost:
			_, _ = io.WriteString(w, `{"submission_id":"single.1","status":"RECEIVED"}`)
		case r.URL.Path == "/v1/schema/events" && asked.Add(1) == 1:
			w.WriteHeader(http.StatusForbidden)
		case r.URL.Path == "/v1/schema/events":
			_, _ = io.WriteString(w, `{}`)
		case asked.Add(1) < 5:
			_, _ = io.WriteString(w, `{"status":"RECEIVED"}`)
		default:
			_, _ = io.WriteString(w, `{"status":"PROCESSED"}`)
		}
	}))
	defer server.Close()
	p := Probe{URL: server.URL, Dataset: Dataset{"shop", key}, Client: server.Client(), Now: time.Now}
	if err := p.Known(t.Context()); err != nil {
		t.Fatal(err)
	}
	took, err := p.Once(t.Context())
	if err != nil || took < 2*pause {
		t.Errorf("got %v, %v", took, err)
	}
}

func TestUsage(t *testing.T) {
	before, err := ReadUsage(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for x := uint64(1); ; x = scatter(x) { // until the kernel has counted two ticks
		now, err := ReadUsage(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		if now.CPU() > before.CPU()+tick {
			break
		}
	}
	if before.Memory < 1<<20 || before.Peak < before.Memory {
		t.Errorf("got %+v", before)
	}
	if _, err := ReadUsage(-1); err == nil {
		t.Error("no process, and no error")
	}
}

func TestReport(t *testing.T) {
	bodies := newBodies(t, 10, 2, "shop")
	report := Report{Machine: Machine{OS: "linux"}}
	for i, server := range []string{"sluice", "reference"} {
		r := &Result{Requests: 1000, Events: 10_000, Elapsed: time.Duration(2-i) * time.Second}
		for us := range 1000 {
			r.Latency.Record(time.Duration(us) * 10 * time.Microsecond)
		}
		f := r.Summarize("a <load>", server, bodies, 0)
		f.CPU = f.Million(20 * time.Millisecond)
		f.Fresh([]time.Duration{3 * time.Second, time.Second, 2 * time.Second})
		report.Figures = append(report.Figures, f)
	}
	var table, text bytes.Buffer
	if err := errors.Join(report.WriteTable(&table), report.WriteJSON(&text)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"0.50", "5000", "10000", "2.00", "2.0 / 3.0"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("the table has no %s:\n%s", want, table.String())
		}
	}
	var back Report
	if err := json.Unmarshal(text.Bytes(), &back); err != nil || back.Figures[0].Latency.P99 < 9.8 || back.Figures[0].Latency.P99 > 10 {
		t.Errorf("got %+v, %v", back.Figures, err)
	}
}
