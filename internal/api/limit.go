package api

import (
	"sync"
	"sync/atomic"
	"time"

	"sluice/event"
)

// LeastInFlight is the smallest BytesInFlight with which a dataset's half holds the largest request: its body as it came,
// decompressed, and its record.
const LeastInFlight = 32 << 20

// Limits hold a server together under load. A zero member takes its default.
type Limits struct {
	// BytesInFlight bounds what all requests hold in memory at one time. Default 256 MiB (arbitrary).
	BytesInFlight int64
	// DatasetShare is the part of BytesInFlight that one dataset may hold, so that its flood leaves room for the
	// others. Default a half (arbitrary).
	DatasetShare float64
	// MinRate is the slowest a sender may be, in bytes a second, after ten seconds of grace. Default 64 KiB: a
	// whole body then has 90 seconds.
	MinRate int64
	// BacklogAge is how old the oldest event not yet in the store may be before events are refused. Zero: any age.
	BacklogAge time.Duration
}

func (l *Limits) bytesInFlight() int64 {
	if l.BytesInFlight > 0 {
		return l.BytesInFlight
	}
	return 256 << 20
}

func (l *Limits) datasetBytes() int64 {
	if l.DatasetShare > 0 {
		return int64(l.DatasetShare * float64(l.bytesInFlight()))
	}
	return l.bytesInFlight() / 2
}

// readTime is how long a body of size bytes may take to arrive.
func (l *Limits) readTime(size int64) time.Duration {
	rate := l.MinRate
	if rate <= 0 {
		rate = 64 << 10
	}
	return 10*time.Second + time.Duration(size)*time.Second/time.Duration(rate)
}

// lane is what the server remembers of one dataset: its rates, its share of memory, its numbers. There are as
// many lanes as datasets whose key was presented.
type lane struct {
	id       string
	requests bucket
	events   bucket
	inFlight atomic.Int64
	decoding waiting
	queueing waiting
	count    laneCounts
}

func (s *Server) lane(id string) *lane {
	if l, ok := s.lanes.Load(id); ok {
		return l.(*lane)
	}
	l, _ := s.lanes.LoadOrStore(id, &lane{id: id})
	return l.(*lane)
}

// bucket is a token bucket. Its burst is what one second brings, and at least one.
type bucket struct {
	mu     sync.Mutex
	rate   float64
	tokens float64
	last   time.Time
}

// take removes n tokens and returns zero, or removes none and returns how long to wait. A request for more than
// the burst is let through by a full bucket, which it leaves in debt: refused, it could never be sent at all.
func (b *bucket) take(now time.Time, rate, n float64) time.Duration {
	if rate <= 0 {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	burst := max(rate, 1)
	switch {
	case b.last.IsZero(), b.rate != rate:
		b.rate, b.tokens = rate, burst
	default:
		b.tokens = min(burst, b.tokens+rate*max(0, now.Sub(b.last).Seconds()))
	}
	b.last = now
	need := min(n, burst)
	if b.tokens < need {
		return time.Duration((need - b.tokens) / rate * float64(time.Second))
	}
	b.tokens -= n
	return 0
}

// overhead is what a request costs besides its body: goroutine, buffers, decoder (measured at 8 to 20 KiB).
const overhead = 16 << 10

// reserve makes sure that the request has n bytes of memory to its name, or says that there are none left.
func (q *request) reserve(n int64) error {
	more := n - q.reserved
	if more <= 0 {
		return nil
	}
	s, l := q.server, q.lane
	if total := s.inFlight.Add(more); total > s.Limits.bytesInFlight() {
		s.inFlight.Add(-more)
		s.counts.shedMemory.Add(1)
		return busy("The server is handling as many bytes as it can hold.")
	}
	if held := l.inFlight.Add(more); held > s.Limits.datasetBytes() {
		l.inFlight.Add(-more)
		s.inFlight.Add(-more)
		s.counts.shedShare.Add(1)
		return busy("This dataset's requests hold as many bytes as one dataset may.")
	}
	q.reserved = n
	return nil
}

// release gives back what reserve took.
func (q *request) release() {
	if q.reserved > 0 {
		q.server.inFlight.Add(-q.reserved)
		q.lane.inFlight.Add(-q.reserved)
		q.reserved = 0
	}
}

func busy(message string) *refusal {
	r := refuse(event.Unavailable, message)
	r.wait = time.Second
	return r
}
