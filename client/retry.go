package client

import (
	"context"
	"crypto/x509"
	"errors"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"sluice/event"
)

// Retry bounds the tries of one request. A zero member has the value named beside it.
type Retry struct {
	Base    time.Duration // upper end of the first wait: 250 ms; it doubles with every try
	Max     time.Duration // largest upper end: 20 s
	Attempt time.Duration // longest single try: 30 s
	Total   time.Duration // from the first try to the last answer, waits included: 2 min
	// Budget is how many retries all requests of a Client may have in hand: 50. A retry takes one, a success gives back
	// a tenth. When it is used up, a request is tried once and no more. Negative: no such bound.
	Budget int
}

func (r Retry) withDefaults() Retry {
	def := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	def(&r.Base, 250*time.Millisecond)
	def(&r.Max, 20*time.Second)
	def(&r.Attempt, 30*time.Second)
	def(&r.Total, 2*time.Minute)
	if r.Budget == 0 {
		r.Budget = 50
	}
	return r
}

// wait is the time before try n+1, full jitter on top of what the service asked for: callers that got the same
// Retry-After must not come back in the same instant.
func (r Retry) wait(n int, asked time.Duration) time.Duration {
	ceiling := r.Max
	if n < 30 { // beyond, the shift overflows, and Max was passed long ago
		ceiling = min(r.Max, r.Base<<(n-1))
	}
	return asked + rand.N(ceiling+1)
}

// budget is the bucket of retries that the requests of a Client share, counted in tenths.
type budget struct {
	mu     sync.Mutex
	tenths int
	max    int // negative: unbounded
}

func newBudget(n int) *budget { return &budget{tenths: n * 10, max: n * 10} }

func (b *budget) take() bool {
	if b.max < 0 {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.tenths < 10 {
		return false
	}
	b.tenths -= 10
	return true
}

func (b *budget) succeed() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tenths = min(b.tenths+1, b.max)
}

// retryable says whether trying again may end better. Network errors may; a certificate that does not fit will not.
func retryable(err error) bool {
	if e, ok := errors.AsType[*Error](err); ok {
		switch e.Status {
		case http.StatusOK: // a proxy's page, or half an answer: the outcome is not known
			return true
		case http.StatusConflict:
			return e.Code == event.IdempotencyInProgress
		}
		return e.Status == http.StatusRequestTimeout || e.Status == http.StatusTooManyRequests || e.Status >= 500
	}
	_, host := errors.AsType[x509.HostnameError](err)
	_, auth := errors.AsType[x509.UnknownAuthorityError](err)
	_, cert := errors.AsType[x509.CertificateInvalidError](err)
	return !host && !auth && !cert
}

// repeat calls try until it succeeds, fails for good, or a bound is met. key goes into the error.
func (c *Client) repeat(ctx context.Context, key string, try func(ctx context.Context) error) error {
	total, cancel := context.WithTimeout(ctx, c.o.Retry.Total)
	defer cancel()
	deadline, _ := total.Deadline()
	for n := 1; ; n++ {
		attempt, stop := context.WithTimeout(total, c.o.Retry.Attempt)
		err := try(attempt)
		stop()
		if err == nil {
			c.budget.succeed()
			return nil
		}
		if ctx.Err() == nil && !retryable(err) {
			return err
		}
		giveUp := func(why string) error { return &GiveUpError{Key: key, Attempts: n, Reason: why, Err: err} }
		ended := func() error {
			err = errors.Join(ctx.Err(), err)
			return giveUp("the context ended")
		}
		switch {
		case ctx.Err() != nil:
			return ended()
		case total.Err() != nil:
			return giveUp("the time for it was up")
		case !c.budget.take():
			return giveUp("the retry budget is used up")
		}
		var asked time.Duration
		if e, ok := errors.AsType[*Error](err); ok {
			asked = e.RetryAfter
		}
		pause := c.o.Retry.wait(n, asked)
		if time.Until(deadline) < pause {
			return giveUp("no time was left for another")
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ended()
		}
	}
}

// retryAfter reads the header in both its forms: seconds, or a date.
func retryAfter(h http.Header, now time.Time) time.Duration {
	v := strings.TrimSpace(h.Get("Retry-After"))
	if s, err := strconv.ParseUint(v, 10, 32); err == nil {
		return time.Duration(s) * time.Second
	}
	if t, err := http.ParseTime(v); err == nil {
		return max(0, t.Sub(now))
	}
	return 0
}
