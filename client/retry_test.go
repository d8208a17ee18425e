package client

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// bubble runs f in a synctest bubble, where waiting costs nothing.
func bubble(t *testing.T, s *service, o Options, f func(t *testing.T, c *Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		o.Transport = inside{s}
		f(t, open(t, "http://127.0.0.1", o))
	})
}

func TestWhatIsTriedAgain(t *testing.T) {
	for _, tt := range []struct {
		status int
		code   string
		again  bool
	}{
		{400, "MISSING_FIELD", false},
		{403, "INVALID_API_KEY", false},
		{404, "NOT_FOUND", false},
		{408, "", true},
		{409, "IDEMPOTENCY_IN_PROGRESS", true},
		{409, "OTHER", false},
		{413, "PAYLOAD_TOO_LARGE", false},
		{422, "IDEMPOTENCY_KEY_REUSED", false},
		{302, "", false},
		{429, "RATE_LIMITED", true},
		{500, "INTERNAL_ERROR", true},
		{502, "", true},
		{503, "UNAVAILABLE", true},
		{504, "", true},
	} {
		s := &service{answer: func(n int, w http.ResponseWriter, _ *http.Request) bool {
			return n == 1 && fail(w, tt.status, tt.code)
		}}
		bubble(t, s, Options{}, func(t *testing.T, c *Client) {
			_, err := c.Send(t.Context(), purchase())
			if tt.again != (err == nil) || tt.again != (len(s.requests) == 2) {
				t.Errorf("%d %s: got %d tries and error %v", tt.status, tt.code, len(s.requests), err)
			}
			if tt.again && s.requests[0].header.Get("Idempotency-Key") != s.requests[1].header.Get("Idempotency-Key") {
				t.Errorf("%d: the tries had different keys", tt.status)
			}
			if e, ok := errors.AsType[*Error](err); !tt.again && (!ok || e.Status != tt.status) {
				t.Errorf("%d: got error %v", tt.status, err)
			}
		})
	}
}

type failing struct {
	err  error
	then http.RoundTripper
	n    int
}

func (f *failing) RoundTrip(r *http.Request) (*http.Response, error) {
	if f.n++; f.n == 1 {
		return nil, f.err
	}
	return f.then.RoundTrip(r)
}

func TestNetworkErrors(t *testing.T) {
	for _, tt := range []struct {
		err   error
		again bool
	}{
		{errors.New("connection reset by peer"), true},
		{context.DeadlineExceeded, true},
		{fmt.Errorf("tls: %w", x509.UnknownAuthorityError{}), false},
		{x509.HostnameError{Certificate: &x509.Certificate{}, Host: "x"}, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := &failing{err: tt.err, then: inside{&service{}}}
			c := open(t, "http://127.0.0.1", Options{Transport: f})
			_, err := c.Send(t.Context(), purchase())
			if tt.again != (err == nil) {
				t.Errorf("%v: got %d tries and error %v", tt.err, f.n, err)
			}
		})
	}
}

// An answer that is lost after the service stored the event must not store it twice.
func TestLostAnswer(t *testing.T) {
	s := &service{}
	lost := &losing{inside{s}, 0}
	synctest.Test(t, func(t *testing.T) {
		c := open(t, "http://127.0.0.1", Options{Transport: lost})
		receipt, err := c.Send(t.Context(), purchase())
		if err != nil || !receipt.Replayed || len(s.stored) != 1 {
			t.Errorf("got error %v, receipt %+v, %d stored", err, receipt, len(s.stored))
		}
	})
}

type losing struct {
	then http.RoundTripper
	n    int
}

func (l *losing) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := l.then.RoundTrip(r)
	if l.n++; l.n <= 2 {
		return nil, errors.New("connection reset by peer")
	}
	return resp, err
}

// A page of some proxy under status 200 is not a receipt.
func TestForeignAnswer(t *testing.T) {
	s := &service{answer: func(n int, w http.ResponseWriter, _ *http.Request) bool {
		if n == 1 {
			w.Write([]byte("<html>Welcome to the airport</html>"))
		}
		return n == 1
	}}
	bubble(t, s, Options{}, func(t *testing.T, c *Client) {
		if _, err := c.Send(t.Context(), purchase()); err != nil || len(s.requests) != 2 {
			t.Errorf("got %d tries and error %v", len(s.requests), err)
		}
	})
}

func TestRetryAfter(t *testing.T) {
	for _, tt := range []struct {
		header   string
		min, max time.Duration
	}{
		{"7", 7 * time.Second, 8 * time.Second},
		{"Sat, 01 Jan 2000 00:00:09 GMT", 9 * time.Second, 10 * time.Second}, // a bubble begins at midnight of that day
		{"Fri, 31 Dec 1999 23:59:00 GMT", 0, time.Second},
		{"soon", 0, time.Second},
		{"-5", 0, time.Second},
	} {
		s := &service{answer: func(n int, w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Retry-After", tt.header)
			return n == 1 && fail(w, 429, "RATE_LIMITED")
		}}
		bubble(t, s, Options{Retry: Retry{Base: time.Second}}, func(t *testing.T, c *Client) {
			begin := time.Now()
			if _, err := c.Send(t.Context(), purchase()); err != nil {
				t.Fatal(err)
			}
			if got := time.Since(begin); got < tt.min || got > tt.max {
				t.Errorf("Retry-After %q: waited %v, want %v to %v", tt.header, got, tt.min, tt.max)
			}
		})
	}
}

func TestWaitsAreJitteredAndBounded(t *testing.T) {
	r := Retry{Base: 100 * time.Millisecond, Max: 3 * time.Second}.withDefaults()
	for n := 1; n < 100; n++ {
		ceiling := r.Max
		if n < 6 {
			ceiling = min(r.Max, r.Base<<(n-1))
		}
		low, high := false, false
		for range 200 {
			w := r.wait(n, 0)
			if w < 0 || w > ceiling {
				t.Fatalf("try %d: got a wait of %v, want at most %v", n, w, ceiling)
			}
			low, high = low || w < ceiling/3, high || w > ceiling/3*2
		}
		if !low || !high {
			t.Errorf("try %d: 200 waits miss a third of the range", n)
		}
	}
}

func TestTotalDeadline(t *testing.T) {
	s := &service{answer: func(_ int, w http.ResponseWriter, _ *http.Request) bool { return fail(w, 503, "UNAVAILABLE") }}
	bubble(t, s, Options{Retry: Retry{Total: time.Minute, Budget: -1}}, func(t *testing.T, c *Client) {
		begin := time.Now()
		_, err := c.Send(t.Context(), purchase())
		gaveUp, ok := errors.AsType[*GiveUpError](err)
		if !ok || gaveUp.Attempts != len(s.requests) || gaveUp.Key == "" || time.Since(begin) > time.Minute {
			t.Errorf("got %v after %v and %d tries", err, time.Since(begin), len(s.requests))
		}
		if e, ok := errors.AsType[*Error](err); !ok || e.Status != 503 {
			t.Errorf("got %v, want the last answer inside", err)
		}
	})
}

// A Retry-After beyond the deadline ends the request at once instead of at the deadline.
func TestNoVainWait(t *testing.T) {
	s := &service{answer: func(_ int, w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Retry-After", "3600")
		return fail(w, 503, "UNAVAILABLE")
	}}
	bubble(t, s, Options{}, func(t *testing.T, c *Client) {
		begin := time.Now()
		_, err := c.Send(t.Context(), purchase())
		if _, ok := errors.AsType[*GiveUpError](err); !ok || time.Since(begin) > 0 {
			t.Errorf("got %v after %v", err, time.Since(begin))
		}
	})
}

func TestBudget(t *testing.T) {
	broken := true
	s := &service{answer: func(_ int, w http.ResponseWriter, _ *http.Request) bool {
		return broken && fail(w, 500, "INTERNAL_ERROR")
	}}
	bubble(t, s, Options{Retry: Retry{Budget: 3, Total: time.Hour}}, func(t *testing.T, c *Client) {
		_, err := c.Send(t.Context(), purchase())
		if len(s.requests) != 4 || !strings.Contains(fmt.Sprint(err), "retry budget") {
			t.Errorf("got %d tries and %v, want 1 and 3 more", len(s.requests), err)
		}
		c.Send(t.Context(), purchase())
		if len(s.requests) != 5 {
			t.Errorf("got %d tries, want one more without a budget", len(s.requests))
		}
		broken = false
		for range 10 {
			if _, err := c.Send(t.Context(), purchase()); err != nil {
				t.Fatal(err)
			}
		}
		broken = true
		c.Send(t.Context(), purchase())
		if len(s.requests) != 17 {
			t.Errorf("got %d tries, want 17: ten successes pay for one retry", len(s.requests))
		}
	})
}

func TestContextEndsTheWait(t *testing.T) {
	s := &service{answer: func(_ int, w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Retry-After", "50")
		return fail(w, 503, "UNAVAILABLE")
	}}
	bubble(t, s, Options{}, func(t *testing.T, c *Client) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(5*time.Second, cancel)
		begin := time.Now()
		_, err := c.Send(ctx, purchase())
		if !errors.Is(err, context.Canceled) || time.Since(begin) != 5*time.Second {
			t.Errorf("got %v after %v", err, time.Since(begin))
		}
	})
}

// A try that stalls is given up after Attempt, and the next one may be lucky.
func TestStall(t *testing.T) {
	s := &service{}
	stall := roundTripper(func(r *http.Request) (*http.Response, error) {
		if len(s.requests) == 0 {
			s.requests = append(s.requests, received{})
			<-r.Context().Done()
			return nil, r.Context().Err()
		}
		return inside{s}.RoundTrip(r)
	})
	synctest.Test(t, func(t *testing.T) {
		c := open(t, "http://127.0.0.1", Options{Transport: stall, Retry: Retry{Attempt: 4 * time.Second}})
		begin := time.Now()
		_, err := c.Send(t.Context(), purchase())
		if err != nil || time.Since(begin) < 4*time.Second || time.Since(begin) > 5*time.Second {
			t.Errorf("got %v after %v", err, time.Since(begin))
		}
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestPropagate(t *testing.T) {
	type span struct{}
	s := &service{answer: func(n int, w http.ResponseWriter, _ *http.Request) bool { return n == 1 && fail(w, 500, "") }}
	o := Options{Propagate: func(ctx context.Context, h http.Header) {
		h.Set("Traceparent", ctx.Value(span{}).(string))
	}}
	bubble(t, s, o, func(t *testing.T, c *Client) {
		if _, err := c.Send(context.WithValue(t.Context(), span{}, "00-abc"), purchase()); err != nil {
			t.Fatal(err)
		}
		for i, r := range s.requests {
			if got := r.header.Get("Traceparent"); got != "00-abc" {
				t.Errorf("try %d: got traceparent %q", i, got)
			}
		}
	})
}

// A redirect is not followed: the key would go along.
func TestRedirect(t *testing.T) {
	elsewhere := &service{}
	other := httptest.NewServer(elsewhere)
	defer other.Close()
	s := &service{answer: func(_ int, w http.ResponseWriter, r *http.Request) bool {
		http.Redirect(w, r, other.URL+"/v1/events", http.StatusTemporaryRedirect)
		return true
	}}
	_, err := start(t, s, Options{}).Send(t.Context(), purchase())
	if e, ok := errors.AsType[*Error](err); !ok || e.Status != 307 || len(elsewhere.requests) != 0 {
		t.Errorf("got %v, %d requests elsewhere", err, len(elsewhere.requests))
	}
}
