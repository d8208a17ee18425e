package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"sluice/event"
)

// What Add and Offer may answer.
var (
	ErrQueueFull   = errors.New("the queue is full")
	ErrQueueClosed = errors.New("the queue is closed")
)

// Queue collects events and sends them in the background, FillEvents or FillBytes to a batch. Make one by NewQueue, let
// Run work in a goroutine, Add from as many as you like, and Close at the end.
//
// It holds at most QueueOptions.MaxBytes of events, those under way included. Every event that Add took is either
// accepted by the service, or handed to QueueOptions.Failed and counted in the report of Close.
type Queue struct {
	c *Client
	o QueueOptions

	mu       sync.Mutex
	waiting  [][]byte      // events not in a batch yet, oldest first
	bytes    int           // their size
	held     int           // size of everything taken and not settled
	since    time.Time     // when the oldest of waiting came
	space    chan struct{} // closed and replaced when held shrinks
	wake     chan struct{} // one slot: waiting has changed, or closing has begun
	closing  bool
	running  bool
	finished chan struct{} // closed when Run has settled everything
	report   QueueReport
}

// QueueOptions are the bounds of a Queue. A zero member has the value named beside it.
type QueueOptions struct {
	MaxBytes   int           // memory for events, encoded: 32 MiB
	FlushEvery time.Duration // the longest an event waits for its batch to fill: 1 s
	Parallel   int           // batches under way at once: 2
	// Failed is called, from several goroutines, for every batch that was not wholly accepted. Its Events are the JSON
	// of the whole batch; Err says which of them the service rejected, by index in Events, and which it did not confirm.
	Failed func(QueueFailure)
}

// QueueFailure is a batch that was not wholly accepted.
type QueueFailure struct {
	Events [][]byte    // one JSON object each
	Err    *BatchError // by index in Events
}

// QueueReport counts what became of the events a Queue took.
type QueueReport struct {
	Taken    int           // events Add and Offer accepted
	Accepted int           // events the service accepted
	Rejected int           // events the service rejected
	Unsent   int           // events the service did not confirm
	Waiting  int           // events not settled yet; 0 after Close without an error of its context
	Warnings int           // warnings of accepted events
	Problems []event.Error // the first 100 rejections; Index is that within its batch
	LastErr  error         // of the last batch that was not confirmed
}

// NewQueue makes a Queue. It starts nothing.
func NewQueue(c *Client, o QueueOptions) *Queue {
	if o.MaxBytes <= 0 {
		o.MaxBytes = 32 << 20
	}
	if o.FlushEvery <= 0 {
		o.FlushEvery = time.Second
	}
	if o.Parallel <= 0 {
		o.Parallel = 2
	}
	return &Queue{c: c, o: o, space: make(chan struct{}), wake: make(chan struct{}, 1), finished: make(chan struct{})}
}

// Add takes an event, waiting for space until ctx ends. A nil error is a promise about the report, not a receipt.
func (q *Queue) Add(ctx context.Context, e Event) error {
	body, err := q.encode(e)
	if err != nil {
		return err
	}
	for {
		space, err := q.offer(body)
		if !errors.Is(err, ErrQueueFull) {
			return err
		}
		select {
		case <-space:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ErrQueueFull, ctx.Err())
		}
	}
}

// Offer takes an event if there is space now, and answers ErrQueueFull if there is none.
func (q *Queue) Offer(e Event) error {
	body, err := q.encode(e)
	if err != nil {
		return err
	}
	_, err = q.offer(body)
	return err
}

func (q *Queue) encode(e Event) ([]byte, error) {
	body, err := q.c.encode(e)
	if err != nil {
		return nil, fmt.Errorf("client: the event cannot be written as JSON: %w", err)
	}
	if len(body) > min(q.o.MaxBytes, MaxBytes-2) {
		return nil, fmt.Errorf("client: the event is %d bytes, more than the queue or a request can hold", len(body))
	}
	return body, nil
}

func (q *Queue) offer(body []byte) (space chan struct{}, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closing {
		return nil, ErrQueueClosed
	}
	if q.held+len(body) > q.o.MaxBytes {
		return q.space, ErrQueueFull
	}
	if len(q.waiting) == 0 {
		q.since = time.Now()
	}
	q.waiting = append(q.waiting, body)
	q.bytes += len(body)
	q.held += len(body)
	q.report.Taken++
	if len(q.waiting) == 1 || q.full() {
		q.poke()
	}
	return nil, nil
}

func (q *Queue) full() bool { return len(q.waiting) >= FillEvents || q.bytes >= FillBytes }

func (q *Queue) poke() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// Run sends batches until Close has been called and everything is settled, or until ctx ends; then what is left is
// reported as unsent. It returns nil or the context's error.
func (q *Queue) Run(ctx context.Context) error {
	q.mu.Lock()
	if q.running {
		q.mu.Unlock()
		return errors.New("client: the queue runs already")
	}
	q.running = true
	q.mu.Unlock()
	var senders sync.WaitGroup
	defer func() {
		senders.Wait()
		close(q.finished)
	}()
	slots := make(chan struct{}, q.o.Parallel)
	for {
		batch, last := q.next(ctx)
		if len(batch) > 0 {
			slots <- struct{}{} // a sender ends when ctx does, so this wait is bounded
			senders.Go(func() {
				receipts, err := q.c.sendAll(ctx, batch, FillEvents, MaxBytes)
				q.settle(batch, receipts, err)
				<-slots
			})
		}
		if last {
			return ctx.Err()
		}
	}
}

// next waits for a batch: a full one, one whose oldest event is old enough, or whatever is left once the queue is
// closing or ctx has ended. last says that no more will come.
func (q *Queue) next(ctx context.Context) (batch [][]byte, last bool) {
	for {
		q.mu.Lock()
		if ctx.Err() != nil {
			q.closing = true // nobody will send what would be added now
		}
		stop := q.closing
		age := time.Since(q.since)
		if n := len(q.waiting); n > 0 && (stop || q.full() || age >= q.o.FlushEvery) {
			end := cut(q.waiting, 0, FillEvents, FillBytes)
			batch = q.waiting[:end:end]
			q.waiting = q.waiting[end:]
			for _, b := range batch {
				q.bytes -= len(b)
			}
			q.since = time.Now()
			last = stop && len(q.waiting) == 0
			q.mu.Unlock()
			return batch, last
		}
		idle := len(q.waiting) == 0
		q.mu.Unlock()
		if stop {
			return nil, true
		}
		var tick <-chan time.Time
		if !idle {
			tick = time.After(q.o.FlushEvery - age)
		}
		select {
		case <-tick:
		case <-q.wake:
		case <-ctx.Done():
		}
	}
}

// settle records what became of a batch, reports it, and frees its space.
func (q *Queue) settle(batch [][]byte, receipts []Receipt, err error) {
	failed, _ := errors.AsType[*BatchError](err)
	if failed != nil && q.o.Failed != nil {
		q.o.Failed(QueueFailure{Events: batch, Err: failed})
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, r := range receipts {
		q.report.Accepted += r.Accepted
		q.report.Warnings += len(r.Warnings)
	}
	if failed != nil {
		q.report.Rejected += failed.Rejected
		for _, u := range failed.Unsent {
			q.report.Unsent += u.To - u.From
			q.report.LastErr = u.Err
		}
		keep := min(len(failed.Problems), 100-len(q.report.Problems)) // arbitrary: what one answer would list
		q.report.Problems = append(q.report.Problems, failed.Problems[:keep]...)
	}
	for _, b := range batch {
		q.held -= len(b)
	}
	close(q.space)
	q.space = make(chan struct{})
}

// Stats is the report so far.
func (q *Queue) Stats() QueueReport {
	q.mu.Lock()
	defer q.mu.Unlock()
	r := q.report
	r.Waiting = r.Taken - r.Accepted - r.Rejected - r.Unsent
	return r
}

// Close takes no more events, sends what is left, waits for every answer or for the end of ctx, and reports. The error
// is nil only if every event the queue ever took was accepted. A Queue that was never run is run here.
func (q *Queue) Close(ctx context.Context) (QueueReport, error) {
	q.mu.Lock()
	q.closing = true
	running := q.running
	q.mu.Unlock()
	q.poke()
	if !running {
		// Run fails only if another caller started it in between, and then it is that one which is awaited.
		_ = q.Run(ctx)
	}
	select {
	case <-q.finished:
	case <-ctx.Done():
	}
	r := q.Stats()
	if r.Accepted == r.Taken {
		return r, nil
	}
	err := fmt.Errorf("of %d events %d were accepted, %d rejected, %d not confirmed, %d still wait",
		r.Taken, r.Accepted, r.Rejected, r.Unsent, r.Waiting)
	if r.LastErr != nil {
		err = fmt.Errorf("%w: %w", err, r.LastErr)
	}
	return r, errors.Join(err, ctx.Err())
}
