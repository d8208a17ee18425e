package api

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"sluice/internal/submission"
)

// A panic at any step of a request leaks neither memory nor a place among those that decode, and shows nothing of its
// value. As many leaks as there are processors would block every large body for good.
func TestPanicAtEachStep(t *testing.T) {
	const secret = "very-secret-value"
	var at atomic.Pointer[string]
	s := openServiceIn(t, t.TempDir(), func(s *Server) {
		s.Step = func(name string) {
			if p := at.Load(); p != nil && *p == name {
				panic(secret)
			}
		}
	})
	s.key = s.dataset(specShop)
	large := "[" + strings.TrimSuffix(strings.Repeat(goodEvent("")+",", 100), ",") + "]"
	requests := []struct {
		path, body string
		headers    []string
	}{
		{"/v1/events", goodEvent(""), nil},
		{"/v1/events", badEvent(), nil},
		{"/v1/events/batch", large, nil},
		{"/v1/events/batch", large, []string{"Idempotency-Key: k%d"}},
		{"/v1/events/batch", gzipOf(t, large), []string{"Content-Encoding: gzip"}},
		{"/v1/events/validate", large, nil},
	}
	panics := 0
	for _, step := range []string{"enter", "body", "decode", "store", "append", "stored", "answer", "written"} {
		at.Store(&step)
		for i := range runtime.GOMAXPROCS(0) + 1 {
			for _, c := range requests {
				before := s.Stats().Faults
				r, err := http.NewRequestWithContext(t.Context(), "POST", s.url+c.path, strings.NewReader(c.body))
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("Authorization", s.key)
				for _, h := range c.headers {
					name, value, _ := strings.Cut(h, ": ")
					if strings.Contains(value, "%d") {
						value = fmt.Sprintf(value, panics) + step
					}
					r.Header.Set(name, value)
				}
				resp, err := http.DefaultTransport.RoundTrip(r)
				if err == nil {
					resp.Body.Close()
				}
				waitFor(t, "the end of the request", func() bool { return s.Stats().BytesInFlight == 0 })
				if s.Stats().Faults == before {
					continue // it does not get to this step
				}
				panics++
				answering := step == "answer" || step == "written"
				if !answering && (err != nil || resp.StatusCode != 500) {
					t.Errorf("%s, try %d: got %v, %v, want 500", step, i, resp, err)
				}
			}
		}
	}
	at.Store(nil)
	if panics < 8*2*3 {
		t.Errorf("%d panics: the test does not get to every step", panics)
	}
	if s.decoding.Used() != 0 || s.queueing.Used() != 0 {
		t.Errorf("%d places for decoding and %d bytes of the queue are in use, want none", s.decoding.Used(), s.queueing.Used())
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if r := s.post("/v1/events/batch", large); r.StatusCode != 200 {
				t.Errorf("after the panics: got %d %s", r.StatusCode, r.text)
			}
		})
	}
	wg.Wait()
	if strings.Contains(s.log.String(), secret) {
		t.Error("the log shows the value of the panic")
	}
}

// keeper is a live view that keeps everything it gets.
type keeper struct {
	mu   sync.Mutex
	seen []*submission.Submission
}

func (k *keeper) Wants(int64) int { return 3 }

func (k *keeper) Show(s *submission.Submission) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.seen = append(k.seen, s)
}

// What the live view gets is its own: later requests, which use the same memory again, do not change it.
func TestLiveViewOwnsWhatItGets(t *testing.T) {
	k := &keeper{}
	s := openServiceIn(t, t.TempDir(), func(s *Server) { s.Live = k })
	s.key = s.dataset(specShop)
	for i := range 50 {
		mark := fmt.Sprintf("%08d", i)
		body := goodEvent(`,"source":"s` + mark + `","custom_data":{"n":"` + mark + `"}`)
		s.post("/v1/events/batch", "["+strings.Repeat(body+",", 4)+badEvent()+"]")
		s.post("/v1/events", `{"unknown`+mark+`":1`) // rejected as a whole
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	n := 0
	for _, sub := range k.seen {
		if sub.Kind == submission.Rejected {
			continue
		}
		mark := fmt.Sprintf("%08d", n)
		n++
		if len(sub.Rows) != 3 || sub.DatasetID != "shop" || len(sub.Rejections) != 1 || sub.Rejections[0].Field != "/event_type" {
			t.Fatalf("got %d rows, %+v", len(sub.Rows), sub.Rejections)
		}
		for i := range sub.Rows {
			if r := &sub.Rows[i]; r.Source != "s"+mark || r.CustomData != `{"n":"`+mark+`"}` || r.EmailSHA256 != someHash {
				t.Errorf("submission %s: got %q, %q", mark, r.Source, r.CustomData)
			}
		}
	}
	if n != 50 {
		t.Errorf("got %d submissions, want 50", n)
	}
}
