package api

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sluice/event"
	"sluice/internal/submission"
)

// tally sums up why requests were rejected as a whole, and how many there were, until the sums go into the stream. Of a
// rejected event nothing but time, dataset, code, field and count is kept.
type tally struct {
	mu   sync.Mutex
	sums map[tallyKey]event.Rejection // without code and field
	lost atomic.Uint64
}

// tallyKey names problems of events at a field, or requests: with the code of their rejection, or "" for those that
// were answered again.
type tallyKey struct {
	dataset  string
	requests bool
	code     event.Code
	field    string
}

// tallyLimit bounds the tally (arbitrary: 40 codes × 20 fields × a few datasets in one second). Problems take half of
// it at most: requests are counted also while many datasets have many of them.
const tallyLimit = 8192

func (t *tally) add(dataset string, rejections []event.Rejection, requests []submission.Requests) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range requests {
		t.sum(tallyKey{dataset: dataset, requests: true, code: r.Code}, r.Count, 0)
	}
	for _, r := range rejections {
		t.sum(tallyKey{dataset: dataset, code: r.Code, field: r.Field}, r.Count, r.Events)
	}
}

// sum adds to the counts of a key. The lock is held.
func (t *tally) sum(key tallyKey, count, events int32) {
	sum, known := t.sums[key]
	if !known {
		if n := len(t.sums); n >= tallyLimit || !key.requests && n >= tallyLimit/2 {
			t.lost.Add(uint64(count))
			return
		}
		if t.sums == nil {
			t.sums = make(map[tallyKey]event.Rejection)
		}
		key.field = strings.Clone(key.field) // a request's memory is used again
	}
	sum.Count += count
	sum.Events += events
	t.sums[key] = sum
}

// take empties the tally: what is to be stored of each dataset.
func (t *tally) take() map[string]*submission.Submission {
	t.mu.Lock()
	sums := t.sums
	t.sums = nil
	t.mu.Unlock()
	out := make(map[string]*submission.Submission)
	for key, sum := range sums {
		sub := out[key.dataset]
		if sub == nil {
			sub = &submission.Submission{Kind: submission.Rejected, DatasetID: key.dataset}
			out[key.dataset] = sub
		}
		if key.requests {
			sub.Requests = append(sub.Requests, submission.Requests{Code: key.code, Count: sum.Count})
			continue
		}
		sum.Code, sum.Field = key.code, key.field
		sub.Rejections = append(sub.Rejections, sum)
	}
	return out
}

// count counts a rejection. Requests without a valid key are counted by code alone: they belong to no dataset.
func (q *request) count(r *rejection) {
	if q.usage == nil {
		q.server.strangers.rejected(r.code, false, 0, q.start)
		return
	}
	status := r.status()
	whole := (q.route == routeEvents || q.route == routeBatch) && !retryable(status) && status != http.StatusConflict
	rejections := r.rejections
	switch {
	case status == http.StatusUnprocessableEntity: // its events were never looked at, or were accepted before
		rejections = nil
	case rejections == nil:
		rejections = []event.Rejection{{Code: r.code, Count: 1}}
	}
	var events uint64
	for i := range rejections {
		events += uint64(rejections[i].Events)
	}
	q.usage.rejected(r.code, whole, events, q.start)
	if !whole {
		return
	}
	q.server.tally.add(q.dataset.ID, rejections, []submission.Requests{{Code: r.code, Count: 1}})
	if rejections != nil {
		q.show(&submission.Submission{
			Kind: submission.Rejected, ReceivedAt: q.start.Unix(), DatasetID: q.dataset.ID, Rejections: rejections,
		})
	}
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
	for id, sub := range s.tally.take() {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			now := s.Now()
			sub.Base, sub.ReceivedAt = submission.NewBase(now), now.Unix()
			if _, err := s.Stream.Append(ctx, submission.AppendRecord(nil, sub)); err != nil {
				s.outage.rejected(s.Log, now, "append counts of rejected events", err)
				s.tally.add(id, sub.Rejections, sub.Requests)
			}
		})
	}
	wg.Wait()
}
