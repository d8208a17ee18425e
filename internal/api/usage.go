package api

import (
	"sync"
	"sync/atomic"
	"time"

	"sluice/event"
	"sluice/internal/limit"
	"sluice/internal/submission"
)

// usage is what the server remembers of one dataset: its rates, its share of memory, its numbers. There is one for each
// dataset whose key was presented.
type usage struct {
	id       string
	requests limit.Bucket
	events   limit.Bucket
	inFlight atomic.Int64
	keys     limit.Window // of idempotency keys: the engine holds each in memory
	decoding limit.Waiters
	queueing limit.Waiters
	turn     limit.Turn   // of its large bodies
	sampled  atomic.Int64 // the second of the last accepted request in the journal

	mu     sync.Mutex
	counts DatasetStats          // as far as requests are added to it
	codes  map[event.Code]uint64 // rejected requests of every path
	failed []time.Time           // the last requests with events if all of them were rejected, at most FailingLeast
	last   event.Code            // of the last one of them
}

// FailingLeast is how many requests in a row must be rejected until a sender counts as failing. Arbitrary: one who
// tries things out has a few.
const FailingLeast = 10

// Failing are the last requests of a dataset on this node if all of them were rejected: at most FailingLeast of them.
// The zero value says that the last one was accepted, or that there was none.
type Failing struct {
	Requests    int
	First, Last time.Time  // of these requests
	Code        event.Code // of the last one
}

func (s *Server) usage(id string) *usage {
	if u, ok := s.usages.Load(id); ok {
		return u.(*usage)
	}
	u, _ := s.usages.LoadOrStore(id, &usage{id: id})
	return u.(*usage)
}

// accepted counts a request with events that was accepted; for a replay, none of them.
func (u *usage) accepted(n submission.Counts) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.counts.Accepted += uint64(n.Accepted)
	u.counts.Rejected += uint64(n.Rejected)
	u.counts.Late += uint64(n.Late)
	u.counts.Restricted += uint64(n.Restricted)
	u.counts.Suppressed += uint64(n.Suppressed)
	u.failed = u.failed[:0]
}

// rejected counts a request that was rejected. If it was one with events, and is not to come later, whole is true.
func (u *usage) rejected(code event.Code, whole bool, events uint64, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.codes == nil {
		u.codes = map[event.Code]uint64{}
	}
	u.codes[code]++
	if !whole {
		return
	}
	u.counts.RejectedRequests++
	u.counts.Rejected += events
	if len(u.failed) == FailingLeast {
		u.failed = append(u.failed[:0], u.failed[1:]...)
	}
	u.failed, u.last = append(u.failed, now), code
}

func (u *usage) stats() DatasetStats {
	u.mu.Lock()
	defer u.mu.Unlock()
	st := u.counts
	st.DatasetID, st.BytesInFlight, st.Limited = u.id, u.inFlight.Load(), u.codes[event.RateLimited]
	for i := range codeTable {
		if n := u.codes[codeTable[i].Code]; n > 0 {
			st.RejectedByCode = append(st.RejectedByCode, CodeCount{codeTable[i].Code, n})
		}
	}
	if n := len(u.failed); n > 0 {
		st.Failing = Failing{Requests: n, First: u.failed[0], Last: u.failed[n-1], Code: u.last}
	}
	return st
}
