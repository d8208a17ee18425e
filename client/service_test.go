package client

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// service is a small stand-in for the service: it speaks the shapes of the API and keeps Idempotency-Keys, but knows
// no rule of an event except that one whose event_type is "bad" is rejected.
type service struct {
	mu       sync.Mutex
	requests []received
	stored   []json.RawMessage
	receipts map[string][]byte
	answer   func(n int, w http.ResponseWriter, r *http.Request) bool // true: it has answered
}

type received struct {
	path   string
	header http.Header
	body   []byte
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body, err := readBody(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.requests = append(s.requests, received{r.URL.Path, r.Header.Clone(), body})
	w.Header().Set("Content-Type", "application/json")
	if s.answer != nil && s.answer(len(s.requests), w, r) {
		return
	}
	key := r.Header.Get("Idempotency-Key")
	if old, ok := s.receipts[key]; ok {
		w.Header().Set("Idempotency-Replayed", "true")
		w.Write(old)
		return
	}
	receipt, status := s.accept(r.URL.Path, body)
	if status == http.StatusOK {
		if s.receipts == nil {
			s.receipts = map[string][]byte{}
		}
		s.receipts[key] = receipt
	}
	w.WriteHeader(status)
	w.Write(receipt)
}

func readBody(r *http.Request) ([]byte, error) {
	var in io.Reader = r.Body
	switch r.Header.Get("Content-Encoding") {
	case "gzip":
		z, err := gzip.NewReader(r.Body)
		if err != nil {
			return nil, err
		}
		in = z
	case "zstd":
		z, err := zstd.NewReader(r.Body)
		if err != nil {
			return nil, err
		}
		defer z.Close()
		in = z
	}
	return io.ReadAll(in)
}

func (s *service) accept(path string, body []byte) (answer []byte, status int) {
	kind, events := "single", []json.RawMessage{body}
	if path == "/v1/events/batch" {
		kind, events = "batch", nil
		if err := json.Unmarshal(body, &events); err != nil {
			return []byte(`{"status":"error","error_code":"MALFORMED_JSON","message":"No JSON."}`), 400
		}
	}
	var problems []string
	for i, e := range events {
		if bytes.Contains(e, []byte(`"bad"`)) {
			problems = append(problems, fmt.Sprintf(
				`{"index":%d,"error_code":"INVALID_EVENT_TYPE","field":"/event_type","message":"Not a known type.","hint":"Use purchase."}`, i))
			continue
		}
		s.stored = append(s.stored, e)
	}
	list := "[" + strings.Join(problems, ",") + "]"
	if len(problems) == len(events) {
		return fmt.Appendf(nil, `{"status":"error","error_code":"INVALID_EVENT_TYPE","message":"Not a known type.","request_id":"r1","errors":%s}`, list), 400
	}
	extra := ""
	if len(problems) > 0 {
		extra = fmt.Sprintf(`,"accepted":%d,"rejected":%d,"errors":%s`, len(events)-len(problems), len(problems), list)
	}
	return fmt.Appendf(nil, `{"submission_id":"%s.%d","received_at":"2026-11-14T23:40:05Z","status":"RECEIVED"%s}`, kind, len(s.requests), extra), 200
}

func (s *service) storedCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.stored)
}

// fail answers status with the service's error object.
func fail(w http.ResponseWriter, status int, code string) bool {
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"status":"error","error_code":%q,"message":"So it is.","request_id":"r1"}`, code)
	return true
}

// start serves s on loopback and gives a Client for it.
func start(t *testing.T, s *service, o Options) *Client {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return open(t, server.URL, o)
}

func open(t *testing.T, url string, o Options) *Client {
	t.Helper()
	c, err := New(url, "test-key", o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// inside carries requests to s without a network, so that a test can run them in a synctest bubble.
type inside struct{ s http.Handler }

func (i inside) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	i.s.ServeHTTP(w, r)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return w.Result(), nil
}

var noon = time.Date(2026, 11, 14, 12, 0, 0, 0, time.UTC)

func purchase() Event {
	return Event{
		Time: noon, EventType: "purchase", Value: new(9.99), CurrencyCode: "EUR",
		Identifiers: Identifiers{EmailSHA256: Vectors[0].SHA256},
	}
}

func purchases(n int) []Event {
	events := make([]Event, n)
	for i := range events {
		events[i] = purchase()
	}
	return events
}
