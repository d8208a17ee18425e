package api

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/internal/dataset"
	"sluice/internal/stream"
)

func TestReplay(t *testing.T) {
	dir := t.TempDir()
	s := openServiceIn(t, dir, nil)
	s.key = s.dataset(specShop)
	single, batch := goodEvent(""), "["+goodEvent("")+","+badEvent()+","+eventAt(8*86400, "")+"]"
	first := s.post("/v1/events", single, "Idempotency-Key: k1")
	firstBatch := s.post("/v1/events/batch", batch, "Idempotency-Key: k1") // another path, another key
	if first.StatusCode != 200 || firstBatch.StatusCode != 200 || first.Header.Get("Idempotency-Replayed") != "" {
		t.Fatalf("got %d, %d", first.StatusCode, firstBatch.StatusCode)
	}
	again := func(s *service, name string) {
		t.Helper()
		r := s.post("/v1/events", single, "Idempotency-Key: k1")
		if r.StatusCode != 200 || r.text != first.text || r.Header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("%s: got %d %s, want %s", name, r.StatusCode, r.text, first.text)
		}
		r = s.post("/v1/events/batch", gzipOf(t, batch), "Idempotency-Key: k1", "Content-Encoding: gzip", "Prefer: handling=strict")
		if r.StatusCode != 200 || r.text != firstBatch.text || r.Header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("%s: got %d %s, want %s", name, r.StatusCode, r.text, firstBatch.text)
		}
		if a, b := r.Header.Get("X-Events-Accepted"), r.Header.Get("X-Events-Rejected"); a != "2" || b != "1" {
			t.Errorf("%s: counts %s/%s, want 2/1", name, a, b)
		}
		if p := r.Header.Get("Preference-Applied"); p != "" {
			t.Errorf("%s: Preference-Applied: %s", name, p)
		}
		for _, other := range []string{goodEvent(`,"source":"app"`), "{}", "nonsense"} {
			checkAnswer(t, s.post("/v1/events", other, "Idempotency-Key: k1"), "IDEMPOTENCY_KEY_REUSED")
		}
	}
	again(s, "at once")
	s.clock.Advance(40 * 24 * time.Hour)
	again(s, "when the events would be too old")
	s.stop()
	s2 := openServiceIn(t, dir, nil)
	s2.key = s.key
	again(s2, "after a restart")
	if n := s2.Stats().Replays; n != 2 {
		t.Errorf("got %d replays, want 2", n)
	}
}

// Only successes are kept, and a key counts within its dataset.
func TestReplayScope(t *testing.T) {
	s := openShop(t)
	if r := s.post("/v1/events", badEvent(), "Idempotency-Key: k"); r.StatusCode != 400 {
		t.Fatalf("got %d, want 400", r.StatusCode)
	}
	mine := s.post("/v1/events", goodEvent(""), "Idempotency-Key: k")
	if mine.StatusCode != 200 || mine.Header.Get("Idempotency-Replayed") != "" {
		t.Errorf("after a rejection: got %d %s", mine.StatusCode, mine.text)
	}
	other := s.dataset(dataset.Spec{ID: "other"})
	r := s.post("/v1/events", strings.Replace(goodEvent(""), "shop", "other", 1), "Idempotency-Key: k", "Authorization:", "Authorization: "+other)
	if r.StatusCode != 200 || r.text == mine.text {
		t.Errorf("another dataset: got %d %s", r.StatusCode, r.text)
	}
	for _, key := range []string{strings.Repeat("x", 256), "a b", "ä", "a\tb"} {
		r := s.post("/v1/events", goodEvent(""), "Idempotency-Key: "+key)
		checkAnswer(t, r, "INVALID_TYPE")
	}
	checkAnswer(t, s.post("/v1/events", goodEvent(""), "Idempotency-Key: a", "Idempotency-Key: b"), "INVALID_TYPE")
	if r := s.post("/v1/events", goodEvent(""), "Idempotency-Key: "+strings.Repeat("~", 255)); r.StatusCode != 200 {
		t.Errorf("longest key: got %d %s", r.StatusCode, r.text)
	}
	if r := s.post("/v1/events/validate", goodEvent(""), "Idempotency-Key: k"); r.StatusCode != 200 || r.Header.Get("Idempotency-Replayed") != "" {
		t.Errorf("validate: got %d %s", r.StatusCode, r.text)
	}
}

// Of many requests with one key one is stored; the others get its receipt or an answer that says to wait.
func TestParallelKeys(t *testing.T) {
	s := openShop(t)
	const senders = 64
	receipts := make(chan string, senders)
	var wg sync.WaitGroup
	for range senders {
		wg.Go(func() {
			for {
				r := s.post("/v1/events", goodEvent(""), "Idempotency-Key: one")
				if r.StatusCode == 409 && r.Header.Get("Retry-After") == "1" {
					continue
				}
				if r.StatusCode != 200 {
					t.Errorf("got %d %s", r.StatusCode, r.text)
				}
				receipts <- r.text
				return
			}
		})
	}
	wg.Wait()
	close(receipts)
	want := ""
	for got := range receipts {
		if want == "" {
			want = got
		}
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if got := s.Stats().Datasets[0].Accepted; got != 1 {
		t.Errorf("accepted: got %d, want 1", got)
	}
}

// While the first request with a key is being stored, a second one is told to wait. Then it gets the receipt.
func TestKeyInProgress(t *testing.T) {
	storing, goOn := make(chan struct{}), make(chan struct{})
	o := stream.Options{AckTimeout: time.Minute, Step: func(name string) error {
		if name == "keyed.publish" {
			storing <- struct{}{}
			<-goOn
		}
		return nil
	}}
	s := openServiceOn(t, t.TempDir(), o, nil)
	s.key = s.dataset(specShop)
	first := make(chan reply)
	go func() { first <- s.post("/v1/events", goodEvent(""), "Idempotency-Key: k") }()
	<-storing
	r := s.post("/v1/events", goodEvent(""), "Idempotency-Key: k")
	close(goOn)
	checkAnswer(t, r, "IDEMPOTENCY_IN_PROGRESS")
	if r.StatusCode != 409 || r.Header.Get("Retry-After") != "1" {
		t.Errorf("got %d, Retry-After %q", r.StatusCode, r.Header.Get("Retry-After"))
	}
	want := <-first
	r = s.post("/v1/events", goodEvent(""), "Idempotency-Key: k")
	if want.StatusCode != 200 || r.StatusCode != 200 || r.text != want.text {
		t.Errorf("got %d %s, then %d %s", want.StatusCode, want.text, r.StatusCode, r.text)
	}
}

// A sender whose connection stalled tries again and is served at once. What is left of the first try gets the same receipt.
func TestRetryOfAStalledRequest(t *testing.T) {
	s := openShop(t)
	conn := s.dial(t)
	body := goodEvent("")
	fmt.Fprintf(conn, "POST /v1/events HTTP/1.1\r\nHost: x\r\nAuthorization: %s\r\nIdempotency-Key: k\r\nContent-Length: %d\r\n\r\n%s",
		s.key, len(body), body[:10])
	waitFor(t, "the first request", func() bool { return s.Stats().BytesInFlight > 0 })
	second := s.post("/v1/events", body, "Idempotency-Key: k")
	if second.StatusCode != 200 {
		t.Fatalf("got %d %s", second.StatusCode, second.text)
	}
	if _, err := io.WriteString(conn, body[10:]); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	got, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != 200 || string(got) != second.text+"\n" || resp.Header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("the slow one: got %d %s, want %s", resp.StatusCode, got, second.text)
	}
}

// waitFor polls until something holds.
func waitFor(t testing.TB, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s: not within ten seconds", what)
		}
	}
}

// failingStream fails on demand, as a real one cannot be made to.
type failingStream struct {
	Stream
	fail func(what string) error
}

func (f failingStream) Append(ctx context.Context, record []byte) (stream.Position, error) {
	if err := f.fail("append"); err != nil {
		return stream.Position{}, err
	}
	return f.Stream.Append(ctx, record)
}

func (f failingStream) AppendKeyed(ctx context.Context, key string, record []byte) (stream.Position, error) {
	pos, err := f.Stream.AppendKeyed(ctx, key, record)
	if fail := f.fail("append keyed"); fail != nil {
		return stream.Position{}, fail
	}
	return pos, err
}

func (f failingStream) ReadKeyed(ctx context.Context, key string) ([]byte, stream.Position, error) {
	if err := f.fail("read keyed"); err != nil {
		return nil, stream.Position{}, err
	}
	return f.Stream.ReadKeyed(ctx, key)
}

func (f failingStream) Read(ctx context.Context, at stream.Position) ([]byte, error) {
	if err := f.fail("read"); err != nil {
		return nil, err
	}
	return f.Stream.Read(ctx, at)
}

func (f failingStream) Ready() error {
	if err := f.fail("ready"); err != nil {
		return err
	}
	return f.Stream.Ready()
}

// Whatever goes wrong with the queue is a 503 that may be tried again, never a claim.
func TestQueueOutage(t *testing.T) {
	var mu sync.Mutex
	broken := map[string]error{}
	s := openServiceIn(t, t.TempDir(), func(s *Server) {
		s.Stream = failingStream{s.Stream, func(what string) error {
			mu.Lock()
			defer mu.Unlock()
			return broken[what]
		}}
	})
	s.key = s.dataset(specShop)
	set := func(what string, err error) {
		mu.Lock()
		defer mu.Unlock()
		clear(broken)
		broken[what] = err
	}
	lost := errors.New("lost")
	first := s.post("/v1/events", goodEvent(""))
	id, _ := first.object(t)["submission_id"].(string)
	for _, c := range []struct {
		what   string
		err    error
		send   func() reply
		status int
		code   string
	}{
		{"append", stream.ErrTimeout, func() reply { return s.post("/v1/events", goodEvent("")) }, 503, "UNAVAILABLE"},
		{"append", stream.ErrNoSpace, func() reply { return s.post("/v1/events/batch", "["+goodEvent("")+"]") }, 503, "UNAVAILABLE"},
		{"append", stream.ErrTooLarge, func() reply { return s.post("/v1/events", goodEvent("")) }, 413, "PAYLOAD_TOO_LARGE"},
		{"ready", stream.ErrUnavailable, func() reply { return s.post("/v1/events", goodEvent("")) }, 503, "UNAVAILABLE"},
		{"ready", stream.ErrUnavailable, func() reply { return s.post("/v1/events/validate", goodEvent("")) }, 200, ""},
		{"append keyed", lost, func() reply { return s.post("/v1/events", goodEvent(""), "Idempotency-Key: k") }, 503, "UNAVAILABLE"},
		{"read keyed", lost, func() reply { return s.post("/v1/events", goodEvent(""), "Idempotency-Key: k") }, 503, "UNAVAILABLE"},
		// The key is taken and has no record yet: another node is storing it.
		{"read keyed", stream.ErrNotFound, func() reply { return s.post("/v1/events", goodEvent(""), "Idempotency-Key: k") }, 409, "IDEMPOTENCY_IN_PROGRESS"},
		{"", nil, func() reply { return s.post("/v1/events", goodEvent(""), "Idempotency-Key: k") }, 200, ""},
		{"read", lost, func() reply { return s.send("GET", "/v1/submissions/"+id, "") }, 503, "UNAVAILABLE"},
		{"read", stream.ErrGone, func() reply { return s.send("GET", "/v1/submissions/"+id, "") }, 404, "NOT_FOUND"},
		{"", nil, func() reply { return s.send("GET", "/v1/submissions/"+id, "") }, 200, ""},
	} {
		set(c.what, c.err)
		r := c.send()
		if r.StatusCode != c.status {
			t.Errorf("%s, %v: got %d %s, want %d", c.what, c.err, r.StatusCode, r.text, c.status)
			continue
		}
		checkAnswer(t, r, c.code)
		if retry := r.Header.Get("Retry-After") == "1" && strings.Contains(r.text, `"retryable":true`); retry != (c.status == 503) {
			t.Errorf("%s, %v: retryable %v in %s", c.what, c.err, retry, r.text)
		}
	}
	lines := func(rejects, again int) {
		t.Helper()
		if log := s.log.String(); strings.Count(log, "the stream rejects records") != rejects || strings.Count(log, "accepts records again") != again {
			t.Errorf("want %d outages and %d ends:\n%s", rejects, again, log)
		}
	}
	s.post("/v1/events", goodEvent("")) // some are taken, some are not: that is no end of it
	lines(1, 0)
	s.clock.Advance(quiet)
	s.post("/v1/events", goodEvent(""))
	s.post("/v1/events", goodEvent(""))
	lines(1, 1)
	set("append", lost)
	s.post("/v1/events", goodEvent(""))
	lines(2, 1)
}
