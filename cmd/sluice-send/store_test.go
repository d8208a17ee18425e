package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/cmd/sluice-send/internal/upload"
)

// store is a stand-in for the service that fails on demand. It keeps what the contract says of Idempotency-Keys, and
// counts how often each row was stored.
type store struct {
	mu       sync.Mutex
	stored   map[string]int // custom_data.order → times
	keys     map[string]kept
	requests int
	replays  int
	fail     func(n int, w http.ResponseWriter) bool // before anything is stored
	lose     func(n int) bool                        // after it is stored: the answer does not arrive
}

type kept struct {
	sum     [32]byte
	receipt []byte
}

func (s *store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if r.Method == http.MethodGet {
		io.WriteString(w, "{}")
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if r.Header.Get("Content-Encoding") != "" {
		w.WriteHeader(http.StatusUnsupportedMediaType)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
	if s.fail != nil && s.fail(s.requests, w) {
		return
	}
	key := r.Header.Get("Idempotency-Key")
	old, known := s.keys[key]
	switch {
	case known && old.sum != sha256.Sum256(body):
		w.WriteHeader(422)
		io.WriteString(w, `{"status":"error","error_code":"IDEMPOTENCY_KEY_REUSED","message":"So it is."}`)
		return
	case known:
		s.replays++
		w.Header().Set("Idempotency-Replayed", "true")
	default:
		old = s.keep(key, body)
	}
	if s.lose != nil && s.lose(s.requests) {
		panic(http.ErrAbortHandler) // the connection breaks
	}
	w.Write(old.receipt)
}

func (s *store) keep(key string, body []byte) kept {
	var events []struct {
		Custom struct {
			Order string `json:"order"`
		} `json:"custom_data"`
	}
	if err := json.Unmarshal(body, &events); err != nil {
		panic(err)
	}
	if s.stored == nil {
		s.stored, s.keys = map[string]int{}, map[string]kept{}
	}
	for _, e := range events {
		s.stored[e.Custom.Order]++
	}
	k := kept{sha256.Sum256(body), fmt.Appendf(nil, `{"submission_id":"batch.%d","received_at":"2026-11-14T23:40:05Z","status":"RECEIVED"}`, s.requests)}
	s.keys[key] = k
	return k
}

// sent is how many requests came.
func (s *store) sent() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}

// check wants every one of n orders stored once, but for those that are bad.
func (s *store) check(t *testing.T, n int, bad func(i int) bool) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	want := 0
	for i := range n {
		if bad(i) {
			continue
		}
		want++
		if got := s.stored[fmt.Sprint(i)]; got != 1 {
			t.Fatalf("row %d is stored %d times", i, got)
		}
	}
	if len(s.stored) != want {
		t.Errorf("%d different rows are stored, want %d", len(s.stored), want)
	}
}

// orders writes a CSV of n rows; every row for which bad holds names an event type that does not exist.
func orders(t testing.TB, path string, n int, bad func(i int) bool) {
	t.Helper()
	var b bytes.Buffer
	b.WriteString("timestamp,event_type,email,value,currency_code,custom_data.order\n")
	now := time.Now().Unix()
	for i := range n {
		kind := "purchase"
		if bad(i) {
			kind = "bought"
		}
		fmt.Fprintf(&b, "%d,%s,customer%d@example.com,%d.50,EUR,%d\n", now-int64(i%500000), kind, i, i%1000, i)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}

func none(int) bool { return false }

// every gives a test for each nth row.
func every(n int) func(int) bool { return func(i int) bool { return i%n == n-1 } }

// uploadTo runs an upload in this process and gives its exit code and words.
func uploadTo(t *testing.T, url, path string, flags ...string) (code int, stdout, stderr string) {
	t.Helper()
	return uploadWith(t, t.Context(), url, path, flags...)
}

func uploadWith(t *testing.T, ctx context.Context, url, path string, flags ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, words bytes.Buffer
	env := map[string]string{"SLUICE_API_KEY": "test-key", "SLUICE_URL": url, "SLUICE_DATASET": "spring"}
	p := &program{stdin: strings.NewReader(""), stdout: &out, stderr: &words, env: func(k string) string { return env[k] }, now: time.Now}
	args := append([]string{"upload", path, "--hash", "email=email_sha256", "--batch", "100", "--json"}, flags...)
	code = p.run(ctx, args)
	return code, out.String(), words.String()
}

// rejectedLines gives the lines named in a file of rejected rows, each with how often.
func rejectedLines(t *testing.T, path string) map[int64]int {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := map[int64]int{}
	for line := range strings.Lines(string(data)) {
		var r upload.RejectedRow
		if err := json.Unmarshal([]byte(line), &r); err != nil || r.Line == 0 || r.Code == "" {
			t.Fatalf("a line of the rejected rows cannot be read: %v", err)
		}
		lines[r.Line]++
	}
	return lines
}

func tempCSV(t *testing.T, n int, bad func(int) bool) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "orders.csv")
	orders(t, path, n, bad)
	return path
}
