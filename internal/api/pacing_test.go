package api

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice/internal/dataset"
	"sluice/internal/limit"
)

// A dataset whose large bodies rest gets 429 with the time to wait. Its small requests, and large ones of another dataset,
// are taken at once. After the rest it is served again.
func TestLargeRequestsRest(t *testing.T) {
	s := openShop(t)
	bulk := s.dataset(dataset.Spec{ID: "bulk"})
	batch := func(id string) string {
		note := `,"custom_data":{"note":"` + strings.Repeat("x", 2000) + `"}`
		e := strings.ReplaceAll(goodEvent(note), `"shop"`, strconv.Quote(id))
		return "[" + strings.TrimSuffix(strings.Repeat(e+",", limit.HugeSize/len(e)+1), ",") + "]"
	}
	send := func(key, path, body string) reply {
		s.key = key
		return s.post(path, body)
	}
	shop := s.key
	if r := send(bulk, "/v1/events/batch", batch("bulk")); r.StatusCode != http.StatusOK {
		t.Fatalf("got %d %s", r.StatusCode, r.text)
	}
	u := s.usage("bulk")
	others := func(slow int) { // for a dozen seconds, beside its large bodies
		for i := range 60 {
			now := s.Now().Add(time.Duration(i) * 200 * time.Millisecond)
			s.pacing.Begin(&u.turn, now)
			for range slow {
				s.pacing.Small(new(limit.Turn), now, time.Minute)
			}
			s.pacing.End(now, time.Second)
		}
	}
	others(1)
	if wait := u.turn.Take(time.Now()); wait > 0 {
		t.Fatalf("got a rest of %v before there was any", wait)
	}
	u.turn.Give(s.Now(), 5*time.Second)
	r := send(bulk, "/v1/events/batch", batch("bulk"))
	checkAnswer(t, r, "RATE_LIMITED")
	if after := r.Header.Get("Retry-After"); after != "5" || !strings.Contains(r.text, "large_requests") {
		t.Errorf("got Retry-After %q, want 5; %s", after, r.text)
	}
	if got := s.Stats().Paced; got != 1 {
		t.Errorf("got %d rejected large requests, want 1", got)
	}
	small := strings.ReplaceAll(goodEvent(""), `"shop"`, `"bulk"`)
	if r := send(bulk, "/v1/events", small); r.StatusCode != http.StatusOK {
		t.Errorf("a small request of the same dataset: got %d %s", r.StatusCode, r.text)
	}
	if r := send(shop, "/v1/events/batch", batch("shop")); r.StatusCode != http.StatusOK {
		t.Errorf("a large request of another dataset: got %d %s", r.StatusCode, r.text)
	}
	if r := send(bulk, "/v1/events/batch", "["+strings.TrimSuffix(strings.Repeat(small+",", 500), ",")+"]"); r.StatusCode != http.StatusOK {
		t.Errorf("a batch of ordinary events: got %d %s", r.StatusCode, r.text)
	}
	if r := send(bulk, "/v1/events/validate", batch("bulk")); r.StatusCode != http.StatusTooManyRequests {
		t.Errorf("validate: got %d, want 429", r.StatusCode)
	}
	others(0)
	if r := send(bulk, "/v1/events/batch", batch("bulk")); r.StatusCode != http.StatusOK {
		t.Errorf("when others are fast again: got %d %s", r.StatusCode, r.text)
	}
}

// A sender that does not read its answer keeps no place: when the answer is written, the place is free.
func TestAnswersKeepNoPlace(t *testing.T) {
	var s *service
	held := int64(-1)
	s = openServiceIn(t, t.TempDir(), func(server *Server) {
		server.Step = func(name string) {
			if name == "answer" {
				held = server.decoding.Used()
			}
		}
	})
	s.key = s.dataset(dataset.Spec{ID: "shop"})
	large := "[" + strings.TrimSuffix(strings.Repeat(badEvent()+",", 400), ",") + "]"
	for _, path := range []string{"/v1/events/batch", "/v1/events/validate"} {
		held = -1
		if s.post(path, large); held != 0 {
			t.Errorf("%s: %d places in use while the answer is written, want 0", path, held)
		}
	}
}
