// Package limit bounds what each dataset uses of what all share: a rate, or something scarce that is given out in turn.
package limit

import (
	"sync"
	"time"
)

// Rate is a limit, and the part of it that this node may use.
type Rate struct{ PerSecond, Share float64 }

// Bucket limits a rate. Its burst is what one second brings, and at least one.
type Bucket struct {
	mu     sync.Mutex
	limit  Rate
	tokens float64
	last   time.Time
}

// Take removes n tokens and returns zero, or removes none and returns how long to wait. A request for more than
// the burst is let through by a full bucket, which it leaves in debt: rejected, it could never be sent at all.
func (b *Bucket) Take(now time.Time, limit Rate, n float64) time.Duration {
	return b.use(now, limit, n, n)
}

// Wait returns how long to wait until n tokens are there, and removes none.
func (b *Bucket) Wait(now time.Time, limit Rate, n float64) time.Duration {
	return b.use(now, limit, n, 0)
}

// use removes n tokens if there are as many as wanted.
func (b *Bucket) use(now time.Time, limit Rate, wanted, n float64) time.Duration {
	rate := limit.PerSecond * limit.Share
	if rate <= 0 {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	burst := max(rate, 1)
	if b.last.IsZero() || b.limit.PerSecond != limit.PerSecond {
		b.tokens = burst
	} else { // another share, as of a node less, is no reason for a new burst
		b.tokens = min(burst, b.tokens+rate*max(0, now.Sub(b.last).Seconds()))
	}
	b.last, b.limit = now, limit
	need := min(wanted, burst)
	if b.tokens < need {
		return time.Duration((need - b.tokens) / rate * float64(time.Second))
	}
	b.tokens -= n
	return 0
}
