package api

import (
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/dataset"
)

// load plays small requests of one dataset, a hundred a second, beside large bodies of another. One of them takes small
// if no large body is on its way, and else beside.
type load struct {
	p             pacing
	shop, bulk    usage
	small, beside time.Duration
	noise         int           // one request of so many is slow for another reason; 0 for none
	took          time.Duration // what a large body takes
	began         []time.Time   // the large bodies
	busy          bool          // one is on its way
	free          time.Time     // from then on the next one may begin
	slow, all     int           // small requests
}

func (l *load) run(last time.Duration, large bool) {
	for end := time.Now().Add(last); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		now, is := time.Now(), l.small
		switch {
		case l.busy && now.Sub(l.began[len(l.began)-1]) >= l.took:
			l.busy, l.free = false, now.Add(l.p.end(now, l.took))
		case !l.busy && large && !now.Before(l.free):
			l.p.begin(&l.bulk, now)
			l.began, l.busy = append(l.began, now), true
		}
		if l.busy {
			is = l.beside
		}
		if l.noise > 0 && rand.IntN(l.noise) == 0 {
			is = 5 * paceTarget
		}
		l.p.small(&l.shop, now, is)
		if l.all++; is > paceTarget {
			l.slow++
		}
	}
}

// Large bodies that make one small request in three slow are slowed down until hardly any is, and are not stopped.
func TestLargeBodiesAreSlowedDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &load{small: 2 * time.Millisecond, beside: 90 * time.Millisecond, took: 80 * time.Millisecond}
		l.run(10*time.Second, false)
		if l.p.on() {
			t.Fatal("large bodies are slowed down though there is none")
		}
		l.run(20*time.Second, true) // until it knows
		l.slow, l.all, l.began = 0, 0, nil
		l.run(2*time.Minute, true)
		if share := float64(l.slow) / float64(l.all); share > 0.01 {
			t.Errorf("%.1f %% of small requests are slow, want one at most", 100*share)
		}
		if n := len(l.began); n < 3 {
			t.Errorf("%d large bodies in two minutes, want one each %v at the least", n, maxRest)
		}
		const forgets = 100 * time.Second
		l.run(forgets, false)
		if l.p.on() {
			t.Errorf("%v later a rest is still %d times as long as a large body takes", forgets, l.p.factor.Load())
		}
	})
}

// Large bodies are not slowed down for a reason that is not theirs, or that concerns nobody.
func TestLargeBodiesAreLeftAlone(t *testing.T) {
	for name, l := range map[string]*load{
		"small requests stay fast":            {small: 2 * time.Millisecond, beside: 12 * time.Millisecond, took: 80 * time.Millisecond},
		"the machine is slow by itself":       {small: 2 * time.Millisecond, beside: 2 * time.Millisecond, took: 80 * time.Millisecond, noise: 5},
		"the disk is slow by itself":          {small: 200 * time.Millisecond, beside: 300 * time.Millisecond, took: 80 * time.Millisecond},
		"one request in a thousand was slow":  {small: 2 * time.Millisecond, beside: 90 * time.Millisecond, took: 0},
		"the slow requests are its own alone": {small: 2 * time.Millisecond, beside: 90 * time.Millisecond, took: 80 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			l.run(20*time.Second, false)
			if strings.Contains(name, "thousand") {
				l.run(10*time.Millisecond, true)
				l.run(10*time.Second, false)
			} else if strings.Contains(name, "own") {
				for range 1000 {
					l.p.begin(&l.bulk, time.Now())
					l.p.small(&l.bulk, time.Now(), l.beside)
					time.Sleep(10 * time.Millisecond)
					l.p.end(time.Now(), 10*time.Millisecond)
				}
			} else {
				l.run(20*time.Second, true)
			}
			if l.p.on() {
				t.Errorf("%s: a rest is %d times as long as a large body takes, want none", name, l.p.factor.Load())
			}
		})
	}
}

// A dataset whose large bodies rest gets 429 with the time to wait. Its small requests, and large ones of another dataset,
// are taken at once. After the rest it is served again.
func TestLargeRequestsRest(t *testing.T) {
	s := openShop(t)
	bulk := s.dataset(dataset.Spec{ID: "bulk"})
	batch := func(id string) string {
		note := `,"custom_data":{"note":"` + strings.Repeat("x", 2000) + `"}`
		e := strings.ReplaceAll(goodEvent(note), `"shop"`, strconv.Quote(id))
		return "[" + strings.TrimSuffix(strings.Repeat(e+",", paceSize/len(e)+1), ",") + "]"
	}
	send := func(key, path, body string) reply {
		s.key = key
		return s.post(path, body)
	}
	shop := s.key
	if r := send(bulk, "/v1/events/batch", batch("bulk")); r.StatusCode != http.StatusOK {
		t.Fatalf("got %d %s", r.StatusCode, r.text)
	}
	s.pacing.factor.Store(maxFactor)
	u := s.usage("bulk")
	if wait := u.turn.take(time.Now()); wait > 0 {
		t.Fatalf("got a rest of %v before there was any", wait)
	}
	u.turn.give(s.Now(), 5*time.Second)
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
	s.pacing.factor.Store(0)
	if r := send(bulk, "/v1/events/batch", batch("bulk")); r.StatusCode != http.StatusOK {
		t.Errorf("when others are fast again: got %d %s", r.StatusCode, r.text)
	}
}

// The right of a dataset to send a large body is given on after the rest, and only so many wait for it.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var turns turn
		if wait := turns.take(time.Now()); wait != 0 {
			t.Fatalf("the first: got %v, want the turn", wait)
		}
		got := make(chan time.Duration, maxWaiting)
		for range maxWaiting {
			go func() { got <- turns.take(time.Now()) }()
		}
		synctest.Wait()
		if wait := turns.take(time.Now()); wait < time.Second {
			t.Errorf("one too many: got %v, want to wait", wait)
		}
		begun := time.Now()
		turns.give(begun, time.Second)
		if wait := <-got; wait != 0 || time.Since(begun) != time.Second {
			t.Errorf("the next: got %v after %v, want the turn after 1s", wait, time.Since(begun))
		}
		for range maxWaiting - 1 {
			turns.give(time.Now(), 0)
			if wait := <-got; wait != 0 {
				t.Errorf("a later one: got %v, want the turn", wait)
			}
		}
		begun = time.Now()
		turns.give(begun, maxRest)
		if wait := turns.take(begun); wait != maxRest {
			t.Errorf("in a long rest: got %v, want %v", wait, maxRest)
		}
		if wait := turns.take(begun.Add(-time.Hour)); wait != 0 || time.Since(begun) != maxRest {
			t.Errorf("after the clock was set back: got %v after %v, want the turn after the rest", wait, time.Since(begun))
		}
	})
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
