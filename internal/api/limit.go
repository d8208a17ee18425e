package api

import (
	"cmp"
	"time"

	"sluice/internal/limit"
)

// LeastInFlight is the smallest BytesInFlight with which a dataset's half holds the largest request: its body as it
// came, decompressed, and its record.
const LeastInFlight = 32 << 20

// Limits hold a server together under load.
type Limits struct {
	// BytesInFlight bounds what all requests hold in memory at one time. One dataset may hold a half of it (arbitrary), so
	// that its flood leaves memory for the others.
	BytesInFlight int64
	// AnswerTime is how long a sender may take to read a short answer; a long one has more time, by minRate. Default 10 s
	// (arbitrary).
	AnswerTime time.Duration
	// Connections is how many connections may be open at one time; one peer may have a half. A stream of HTTP/2 without a
	// valid key counts as one, but for the first of its connection.
	Connections int64
	// IdempotencyKeys is how many idempotency keys a dataset may have in use; the engine keeps each in memory. Default
	// 1,000,000 (arbitrary: some 170 MB).
	IdempotencyKeys int64
	// KeyAge is how long an idempotency key is known.
	KeyAge time.Duration
	// BacklogAge is how old the oldest event not yet in the store may be before events are rejected. Zero: any age.
	BacklogAge time.Duration
}

func (l *Limits) keys() int64 { return cmp.Or(l.IdempotencyKeys, 1_000_000) }

// minRate is the slowest a sender may be, in bytes a second, after ten seconds of grace: a whole body has 90 seconds.
const minRate = 64 << 10

// readTime is how long a body of size bytes may take to arrive.
func readTime(size int64) time.Duration { return 10*time.Second + slowest(size) }

// answerTime is how long a sender may take to read an answer.
func (l *Limits) answerTime(size int) time.Duration {
	return cmp.Or(l.AnswerTime, 10*time.Second) + slowest(int64(size))
}

// slowest is how long size bytes take at the slowest rate.
func slowest(size int64) time.Duration { return time.Duration(size) * time.Second / minRate }

// rate is a dataset's limit on this node.
func (s *Server) rate(perSecond float64) limit.Rate {
	return limit.Rate{PerSecond: perSecond, Share: s.Share()}
}
