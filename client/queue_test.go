package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func sizes(s *service) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var n []int
	for _, r := range s.requests {
		n = append(n, strings.Count(string(r.body), `"event_type"`))
	}
	return fmt.Sprint(n)
}

func add(t *testing.T, q *Queue, n int) {
	t.Helper()
	for range n {
		if err := q.Add(t.Context(), purchase()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestQueueFillsBatches(t *testing.T) {
	s := &service{}
	bubble(t, s, Options{}, func(t *testing.T, c *Client) {
		q := NewQueue(c, QueueOptions{})
		go q.Run(t.Context())
		add(t, q, 1200)
		synctest.Wait()
		if got := sizes(s); got != "[500 500]" {
			t.Errorf("before the time is up: got %s, want two full batches", got)
		}
		report, err := q.Close(t.Context())
		if err != nil || report.Accepted != 1200 || report.Waiting != 0 || sizes(s) != "[500 500 200]" {
			t.Errorf("got %+v, error %v, batches %s", report, err, sizes(s))
		}
		if err := q.Add(t.Context(), purchase()); !errors.Is(err, ErrQueueClosed) {
			t.Errorf("Add after Close: got %v", err)
		}
	})
}

func TestQueueFlushesByTime(t *testing.T) {
	s := &service{}
	bubble(t, s, Options{}, func(t *testing.T, c *Client) {
		q := NewQueue(c, QueueOptions{FlushEvery: 10 * time.Second})
		go q.Run(t.Context())
		add(t, q, 3)
		time.Sleep(9 * time.Second) // of the bubble
		add(t, q, 1)
		synctest.Wait()
		if got := sizes(s); got != "[]" {
			t.Errorf("after 9 s: got %s, want nothing sent", got)
		}
		time.Sleep(time.Second + 1)
		synctest.Wait()
		if got := sizes(s); got != "[4]" {
			t.Errorf("after 10 s: got %s, want one batch of 4", got)
		}
		if _, err := q.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestQueueFlushesBySize(t *testing.T) {
	s := &service{}
	bubble(t, s, Options{}, func(t *testing.T, c *Client) {
		q := NewQueue(c, QueueOptions{})
		go q.Run(t.Context())
		e := purchase()
		e.CustomData = map[string]any{"note": strings.Repeat("x", 300_000)}
		for range 4 {
			if err := q.Add(t.Context(), e); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if got := sizes(s); got != "[3]" {
			t.Errorf("got %s, want a batch of 3 within 1 MB", got)
		}
		if _, err := q.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestQueueIsBounded(t *testing.T) {
	gate := make(chan struct{})
	s := &service{}
	bubble(t, s, Options{}, func(t *testing.T, c *Client) {
		gate = make(chan struct{}) // of the bubble
		c.http.Transport = roundTripper(func(r *http.Request) (*http.Response, error) {
			<-gate
			return inside{s}.RoundTrip(r)
		})
		one, _ := c.encode(purchase())
		q := NewQueue(c, QueueOptions{MaxBytes: 10*len(one) + 5, FlushEvery: time.Millisecond})
		go q.Run(t.Context())
		add(t, q, 10)
		if err := q.Offer(purchase()); !errors.Is(err, ErrQueueFull) {
			t.Errorf("Offer to a full queue: got %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := q.Add(ctx, purchase()); !errors.Is(err, ErrQueueFull) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Add to a full queue: got %v", err)
		}
		added := make(chan error)
		go func() { added <- q.Add(t.Context(), purchase()) }()
		synctest.Wait()
		close(gate)
		if err := <-added; err != nil {
			t.Errorf("Add when space came: got %v", err)
		}
		report, err := q.Close(t.Context())
		if err != nil || report.Taken != 11 || report.Accepted != 11 {
			t.Errorf("got %+v, %v", report, err)
		}
	})
}

func TestQueueReportsEveryFailure(t *testing.T) {
	s := &service{answer: func(n int, w http.ResponseWriter, _ *http.Request) bool {
		return n > 1 && fail(w, 403, "INVALID_API_KEY")
	}}
	bubble(t, s, Options{}, func(t *testing.T, c *Client) {
		var failed atomic.Int64
		q := NewQueue(c, QueueOptions{Parallel: 1, Failed: func(f QueueFailure) { failed.Add(int64(len(f.Events))) }})
		bad := purchase()
		bad.EventType = "bad"
		if err := q.Add(t.Context(), bad); err != nil {
			t.Fatal(err)
		}
		add(t, q, 500)
		report, err := q.Close(t.Context()) // never run: Close runs it
		if err == nil || report.Accepted != 499 || report.Rejected != 1 || report.Unsent != 1 || report.Waiting != 0 {
			t.Errorf("got %+v, %v", report, err)
		}
		if len(report.Problems) != 1 || report.Problems[0].Index != 0 {
			t.Errorf("got problems %+v", report.Problems)
		}
		if e, ok := errors.AsType[*Error](err); !ok || !e.KeyRejected() {
			t.Errorf("got %v, want the rejection inside", err)
		}
		if failed.Load() != 501 {
			t.Errorf("Failed saw %d events, want both batches of 500 and 1", failed.Load())
		}
	})
}

func TestQueueEndsWithItsContext(t *testing.T) {
	s := &service{answer: func(_ int, w http.ResponseWriter, _ *http.Request) bool { return fail(w, 503, "UNAVAILABLE") }}
	bubble(t, s, Options{}, func(t *testing.T, c *Client) {
		ctx, cancel := context.WithCancel(t.Context())
		q := NewQueue(c, QueueOptions{})
		ended := make(chan error)
		go func() { ended <- q.Run(ctx) }()
		add(t, q, 700)
		synctest.Wait()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Run: got %v", err)
		}
		report, err := q.Close(t.Context())
		if err == nil || report.Unsent != 700 || report.Waiting != 0 {
			t.Errorf("got %+v, %v", report, err)
		}
	})
}

func TestQueueRejectsWhatCannotFit(t *testing.T) {
	c := open(t, "http://127.0.0.1", Options{})
	q := NewQueue(c, QueueOptions{MaxBytes: 50})
	if err := q.Add(t.Context(), purchase()); err == nil || errors.Is(err, ErrQueueFull) {
		t.Errorf("got %v, want a rejection that waiting cannot change", err)
	}
}
