package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"sluice/client"
	"sluice/event"
)

// uploader sends the batches of one file. Its goroutines are one that reads and cuts, several that prepare and
// send, and one that books: reader → work → senders → results → booker.
type uploader struct {
	client   *client.Client
	cutter   *cutter
	first    *batch // read already, to learn the dataset; nil: none
	parallel int
	preparer func() *preparer // one for each sender
	id       identity
	salt     string
	book     *book
	now      func() time.Time
	count    *counts
}

// counts are what the progress bar shows.
type counts struct{ accepted, rejected atomic.Int64 }

// result is a batch whose rows are all accounted for.
type result struct {
	mark    mark
	refused []refusal
}

// run sends everything. It returns the first error that ends the upload; batches booked before it stand.
func (u *uploader) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	work := make(chan *batch)
	results := make(chan result, u.parallel)
	free := &sync.Pool{New: func() any { return new(batch) }}

	booked := u.book.booked()
	group.Go(func() error {
		defer close(work)
		return u.read(ctx, work, free, booked)
	})
	var senders sync.WaitGroup
	for range u.parallel {
		senders.Add(1)
		group.Go(func() error {
			defer senders.Done()
			return u.sendAll(ctx, work, results, free)
		})
	}
	group.Go(func() error {
		senders.Wait()
		close(results)
		return nil
	})
	// The booker is in no group: an error elsewhere must not keep it from booking what the service has confirmed.
	bookings := make(chan error, 1)
	go func() { bookings <- u.bookAll(results, cancel) }()
	err := group.Wait()
	if failed := <-bookings; failed != nil {
		return failed // the rest only ended because of it
	}
	return err
}

func (u *uploader) read(ctx context.Context, work chan<- *batch, free *sync.Pool, booked func(int64) bool) error {
	for {
		b := u.first
		u.first = nil
		if b == nil {
			b = free.Get().(*batch)
			if err := u.cutter.next(b); ended(err) {
				return nil
			} else if err != nil {
				return err
			}
		}
		if booked(b.number) {
			free.Put(b)
			continue
		}
		select {
		case work <- b:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (u *uploader) sendAll(ctx context.Context, work <-chan *batch, results chan<- result, free *sync.Pool) error {
	p := u.preparer()
	for b := range work {
		r, err := u.send(ctx, p, b)
		if err != nil {
			return err
		}
		free.Put(b)
		results <- *r
	}
	return nil
}

// send sends one batch and accounts for each of its rows.
func (u *uploader) send(ctx context.Context, p *preparer, b *batch) (*result, error) {
	prep := p.prepare(b)
	r := &result{refused: prep.refused, mark: mark{Batch: b.number, End: b.end, Rows: len(b.spans), Warnings: prep.warnings}}
	for part, req := range prep.requests {
		receipt, err := u.client.Submit(ctx, client.Request{
			Batch: true, Body: req.body, Events: len(req.lines),
			Key: keyOf(u.id, u.salt, b, part, req.body),
		})
		if err == nil {
			r.mark.Accepted += receipt.Accepted
			if receipt.Replayed {
				r.mark.Replayed += receipt.Accepted
			}
			refused, err := u.explain(ctx, req, receipt)
			if err != nil {
				return nil, err
			}
			r.refused = append(r.refused, refused...)
			continue
		}
		e, ok := errors.AsType[*client.Error](err)
		if !ok || e.Status != 400 || e.Code == event.MalformedJSON {
			return nil, err
		}
		r.refused = append(r.refused, name(req.lines, nil, e.Problems, e.Code, e.Message)...)
	}
	r.mark.Rejected = r.mark.Rows - r.mark.Accepted
	slices.SortFunc(r.refused, func(a, b refusal) int { return int(a.Line - b.Line) })
	if len(r.refused) != r.mark.Rejected {
		return nil, fmt.Errorf("the service counts %d rows of a batch as rejected, but names %d", r.mark.Rejected, len(r.refused))
	}
	u.count.accepted.Add(int64(r.mark.Accepted))
	u.count.rejected.Add(int64(r.mark.Rejected))
	return r, nil
}

// explain names the rows that the service refused of a batch it took. An answer lists at most 100 problems; where it
// stops short, the submission tells which rows were accepted.
func (u *uploader) explain(ctx context.Context, req request, receipt *client.Receipt) ([]refusal, error) {
	if receipt.Rejected == 0 {
		return nil, nil
	}
	var accepted []bool
	if receipt.Truncated {
		s, err := u.client.StatusEvents(ctx, receipt.SubmissionID)
		if err != nil {
			return nil, fmt.Errorf("look up which rows were rejected: %w", err)
		}
		accepted = make([]bool, len(req.lines))
		for _, e := range s.Events {
			if e.Index < len(accepted) {
				accepted[e.Index] = true
			}
		}
	} else {
		accepted = slices.Repeat([]bool{true}, len(req.lines))
		for _, p := range receipt.Problems {
			if p.Index < len(accepted) {
				accepted[p.Index] = false
			}
		}
	}
	return name(req.lines, accepted, receipt.Problems, event.BatchRejected, "The service refused the row; its answer listed other rows' problems only."), nil
}

// name gives the refused rows with their problems. accepted nil means that none was accepted.
func name(lines []int64, accepted []bool, ps []event.Error, code event.Code, message string) []refusal {
	by := map[int][]problem{}
	for _, p := range ps {
		by[p.Index] = append(by[p.Index], problemOf(p))
	}
	var out []refusal
	for i, line := range lines {
		if accepted != nil && accepted[i] {
			continue
		}
		if len(by[i]) == 0 {
			by[i] = []problem{{Code: code, Message: message}}
		}
		out = append(out, refuse(line, by[i]...))
	}
	return out
}

// Results are booked together: a sync for each batch would take the disk from a service on the same machine. What a crash
// loses by waiting is only knowledge: the batches are sent again and answered from the service's memory.
const (
	bookEvery   = 200 * time.Millisecond // arbitrary: not felt by a person
	bookBatches = 64                     // arbitrary: a bound on the refused rows in memory
)

// bookAll books results until there are no more. If it cannot, it stops the others: what is not booked should not be sent.
func (u *uploader) bookAll(results <-chan result, stop func()) error {
	var (
		failed error
		held   []result
		due    <-chan time.Time
	)
	flush := func() {
		if failed == nil && len(held) > 0 { // after a failure the rest is only drained
			if failed = u.book.add(held, u.now()); failed != nil {
				stop()
			}
		}
		held, due = held[:0], nil
	}
	for {
		select {
		case r, ok := <-results:
			if !ok {
				flush()
				return failed
			}
			if held = append(held, r); due == nil {
				due = time.After(bookEvery)
			}
			if len(held) == bookBatches {
				flush()
			}
		case <-due:
			flush()
		}
	}
}
