package api

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	"sluice/event"
	"sluice/internal/submission"
)

// tally sums up why requests were rejected as a whole, and how many there were, until the sums go into the stream. Of a
// rejected event nothing but time, dataset, code, field and count is kept.
type tally struct {
	mu       sync.Mutex
	sums     map[tallyKey]event.Rejection
	requests map[requestsKey]int32
	lost     uint64
}

// counted is what a tally has of one dataset.
type counted struct {
	rejections []event.Rejection
	requests   []submission.Requests
}

// requestsKey names requests of a dataset: with the code of their rejection, or "" for those that were answered again.
type requestsKey struct {
	dataset string
	code    event.Code
}

type tallyKey struct {
	dataset string
	code    event.Code
	field   string
}

// tallyLimit bounds the tally (arbitrary: 40 codes × 20 fields × a few datasets in one second).
const tallyLimit = 4096

func (t *tally) add(dataset string, c counted) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sums == nil {
		t.sums, t.requests = make(map[tallyKey]event.Rejection), make(map[requestsKey]int32)
	}
	for _, r := range c.requests {
		key := requestsKey{dataset, r.Code}
		if _, known := t.requests[key]; !known && len(t.requests) >= tallyLimit {
			t.lost += uint64(r.Count)
			continue
		}
		t.requests[key] += r.Count
	}
	for _, r := range c.rejections {
		key := tallyKey{dataset, r.Code, r.Field}
		sum, known := t.sums[key]
		if !known && len(t.sums) >= tallyLimit {
			t.lost += uint64(r.Count)
			continue
		}
		if !known {
			key.field = strings.Clone(r.Field) // a request's memory is used again
			sum.Code, sum.Field = r.Code, key.field
		}
		sum.Count += r.Count
		sum.Events += r.Events
		t.sums[key] = sum
	}
}

// take empties the tally, by dataset.
func (t *tally) take() map[string]counted {
	t.mu.Lock()
	sums, requests := t.sums, t.requests
	t.sums, t.requests = nil, nil
	t.mu.Unlock()
	out := make(map[string]counted)
	for key, sum := range sums {
		c := out[key.dataset]
		c.rejections = append(c.rejections, sum)
		out[key.dataset] = c
	}
	for key, n := range requests {
		c := out[key.dataset]
		c.requests = append(c.requests, submission.Requests{Code: key.code, Count: n})
		out[key.dataset] = c
	}
	return out
}

func (t *tally) stats() (waiting int, lost uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.sums) + len(t.requests), t.lost
}

// count counts a rejection. Requests without a valid key are counted by code alone: they belong to no dataset.
func (q *request) count(r *rejection) {
	s := q.server
	if q.usage == nil {
		s.counts.codes[codeIndex[r.code]].Add(1)
		return
	}
	q.usage.rejections.add(r.code)
	status := r.status()
	if r.code == event.RateLimited {
		q.usage.count.limited.Add(1)
	}
	if q.route != routeEvents && q.route != routeBatch || retryable(status) || status == http.StatusConflict {
		return
	}
	q.usage.count.rejectedRequests.Add(1)
	q.usage.streak.rejected(r.code, q.start)
	c := counted{requests: []submission.Requests{{Code: r.code, Count: 1}}}
	if status == http.StatusUnprocessableEntity { // its events were never looked at, or were accepted before
		s.tally.add(q.dataset.ID, c)
		return
	}
	rejections := r.rejections
	if rejections == nil {
		rejections = []event.Rejection{{Code: r.code, Count: 1}}
	}
	for i := range rejections {
		q.usage.count.rejected.Add(uint64(rejections[i].Events))
	}
	c.rejections = rejections
	s.tally.add(q.dataset.ID, c)
	q.show(&submission.Submission{
		Kind: submission.Rejected, ReceivedAt: q.start.Unix(), DatasetID: q.dataset.ID,
		Rejections: rejections,
	})
}

const (
	tallyPeriod = time.Second     // a rejected event shows up in the store a second later
	lastFlush   = 5 * time.Second // arbitrary: what a stop may wait for the queue
)

// Run puts the counts of rejected events and requests into the stream, about once a second while there are any, and
// once more when ctx ends. Stop taking requests first and the stream last: then no count is lost.
func (s *Server) Run(ctx context.Context) error {
	tick := time.NewTicker(tallyPeriod)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.flush(ctx)
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastFlush)
			defer cancel()
			s.flush(last)
			return nil
		}
	}
}

// flush appends one record per dataset. They wait together, so they share a frame. What the stream does not
// take is counted again for the next time: an unknown outcome may count a rejection twice, never an event.
func (s *Server) flush(ctx context.Context) {
	var wg sync.WaitGroup
	slots := make(chan struct{}, 64)
	for id, c := range s.tally.take() {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			now := s.Now()
			record := submission.AppendRecord(nil, &submission.Submission{
				Kind: submission.Rejected, Base: submission.NewBase(now), ReceivedAt: now.Unix(), DatasetID: id,
				Rejections: c.rejections, Requests: c.requests,
			})
			if _, err := s.Stream.Append(ctx, record); err != nil {
				s.outage.rejected(s.Log, now, "append counts of rejected events", err)
				s.tally.add(id, c)
			}
		})
	}
	wg.Wait()
}
