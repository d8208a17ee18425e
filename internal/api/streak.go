package api

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sluice/event"
)

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

// streak remembers the requests with events that were rejected since the last accepted one. The zero value has none.
type streak struct {
	any  atomic.Bool // an accepted request looks at nothing else
	mu   sync.Mutex
	last [FailingLeast]time.Time // a ring
	n    int                     // how many there were
	code event.Code
}

func (s *streak) accepted() {
	if !s.any.Load() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n = 0
	s.any.Store(false)
}

func (s *streak) rejected(code event.Code, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last[s.n%FailingLeast] = now
	s.n++
	s.code = code
	s.any.Store(true)
}

func (s *streak) failing() Failing {
	if !s.any.Load() {
		return Failing{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n == 0 {
		return Failing{}
	}
	first := 0
	if s.n >= FailingLeast {
		first = s.n % FailingLeast
	}
	return Failing{
		Requests: min(s.n, FailingLeast), First: s.last[first], Last: s.last[(s.n-1)%FailingLeast],
		Code: s.code,
	}
}

// codeCounts counts by error code. Only rejected requests pay for it.
type codeCounts struct {
	mu sync.Mutex
	by map[event.Code]uint64
}

func (c *codeCounts) add(code event.Code) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.by == nil {
		c.by = map[event.Code]uint64{}
	}
	c.by[code]++
}

func (c *codeCounts) list() []CodeCount {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []CodeCount
	for code, n := range c.by {
		out = append(out, CodeCount{code, n})
	}
	slices.SortFunc(out, func(a, b CodeCount) int { return cmp.Compare(codeIndex[a.Code], codeIndex[b.Code]) })
	return out
}
