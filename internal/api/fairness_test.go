package api

import (
	"strings"
	"testing"
	"time"

	"sluice/internal/dataset"
	"sluice/internal/limit"
)

// A body that is small on the wire and large decompressed waits for its place like any large body: 9 KB of gzip can be
// 4.7 MB of JSON. One that is small in both ways does not wait.
func TestCompressedBodiesAreFair(t *testing.T) {
	s := openShop(t)
	large := "[" + strings.TrimSuffix(strings.Repeat(goodEvent("")+",", 900), ",") + "]"
	for name, c := range map[string]struct{ coding, small, large string }{
		"gzip": {"gzip", gzipOf(t, goodEvent("")), gzipOf(t, large)},
		"zstd": {"zstd", zstdOf(t, goodEvent("")), zstdOf(t, large)},
	} {
		if len(c.large) >= fairSize {
			t.Fatalf("%s: %d bytes on the wire, the test wants less than %d", name, len(c.large), fairSize)
		}
		var others limit.Waiters
		for range processors() {
			s.decoding.Acquire(&others, 1, processors())
		}
		if r := s.post("/v1/events", c.small, "Content-Encoding: "+c.coding); r.StatusCode != 200 {
			t.Errorf("%s, small: got %d %s", name, r.StatusCode, r.text)
		}
		done := make(chan int, 1)
		go func() { done <- s.post("/v1/events/batch", c.large, "Content-Encoding: "+c.coding).StatusCode }()
		waitFor(t, name+": the wait for a place", func() bool { return s.decoding.Waiting(&s.usage("shop").decoding) == 1 })
		select {
		case status := <-done:
			t.Errorf("%s: got %d without a place", name, status)
		default:
		}
		for range processors() {
			s.decoding.Release(1, processors())
		}
		if status := <-done; status != 200 {
			t.Errorf("%s, large: got %d, want 200", name, status)
		}
	}
}

// Every event that the server has to look at counts towards events_per_second: rejected ones, and those of validate.
func TestEveryEventIsCharged(t *testing.T) {
	three := func(e string) string { return "[" + e + "," + e + "," + e + "]" }
	for name, c := range map[string]struct{ path, body string }{
		"accepted":   {"/v1/events/batch", three(goodEvent(""))},
		"rejected":   {"/v1/events/batch", three(badEvent())},
		"validated":  {"/v1/events/validate", three(goodEvent(""))},
		"invalid":    {"/v1/events/validate", three(badEvent())},
		"one by one": {"/v1/events", badEvent()},
	} {
		s := openServiceIn(t, t.TempDir(), nil)
		s.key = s.dataset(dataset.Spec{ID: "shop", EventsPerSecond: 3})
		n := 1
		if c.path == "/v1/events" {
			n = 3
		}
		for range n {
			if r := s.post(c.path, c.body); r.StatusCode == 429 {
				t.Errorf("%s: within the limit: got %d", name, r.StatusCode)
			}
		}
		r := s.post(c.path, c.body)
		checkAnswer(t, r, "RATE_LIMITED")
		if r.StatusCode != 429 || !strings.Contains(r.text, "events_per_second") {
			t.Errorf("%s: over the limit: got %d %s", name, r.StatusCode, r.text)
		}
		s.clock.Advance(time.Second)
		if r := s.post(c.path, c.body); r.StatusCode == 429 {
			t.Errorf("%s: a second later: got %d", name, r.StatusCode)
		}
		s.stop()
	}
}

// A request of a dataset that has used up its events is rejected before its body is read, let alone decoded.
func TestOverTheLimitCostsNothing(t *testing.T) {
	decoded := 0
	s := openServiceIn(t, t.TempDir(), func(s *Server) {
		s.Step = func(name string) {
			if name == "body" {
				decoded++
			}
		}
	})
	s.key = s.dataset(dataset.Spec{ID: "shop", EventsPerSecond: 1})
	s.post("/v1/events", goodEvent(""))
	for range 5 {
		if r := s.post("/v1/events", goodEvent("")); r.StatusCode != 429 {
			t.Errorf("got %d, want 429", r.StatusCode)
		}
	}
	if decoded != 1 {
		t.Errorf("%d bodies were read, want 1", decoded)
	}
	// A retry of what was accepted is answered all the same.
	s.clock.Advance(time.Second)
	first := s.post("/v1/events", goodEvent(""), "Idempotency-Key: k")
	if r := s.post("/v1/events", goodEvent(""), "Idempotency-Key: k"); r.StatusCode != 200 || r.text != first.text {
		t.Errorf("replay over the limit: got %d %s", r.StatusCode, r.text)
	}
}
