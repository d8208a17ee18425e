package upload

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"sluice/client"
	"sluice/cmd/sluice-send/internal/input"
	"sluice/event"
)

// counts are what the progress bar shows.
type counts struct{ accepted, rejected atomic.Int64 }

// result is a batch whose rows are all accounted for.
type result struct {
	entry    entry
	rejected []RejectedRow
}

// run sends the batches. Its goroutines are one that reads and cuts, several that prepare and send, and one that
// records: reader → work → senders → results → recorder. It returns the first error that ends the upload; batches
// recorded before it stay recorded.
func (j *job) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	work := make(chan *input.Batch)
	results := make(chan result, j.o.Parallel)
	free := &sync.Pool{New: func() any { return new(input.Batch) }}

	recorded := j.journal.recorded()
	group.Go(func() error {
		defer close(work)
		return j.read(ctx, work, free, recorded)
	})
	for range j.o.Parallel {
		group.Go(func() error {
			p := j.newPreparer()
			for b := range work {
				r, err := j.send(ctx, p, b)
				if err != nil {
					return err
				}
				free.Put(b)
				results <- *r
			}
			return nil
		})
	}
	// The recorder is in no group: an error elsewhere must not keep it from recording what the service has confirmed.
	recording := make(chan error, 1)
	go func() { recording <- j.recordAll(results, cancel) }()
	err := group.Wait()
	close(results)
	if failed := <-recording; failed != nil {
		return failed // the rest only ended because of it
	}
	return err
}

func (j *job) read(ctx context.Context, work chan<- *input.Batch, free *sync.Pool,
	recorded func(int64) bool,
) error {
	for {
		b := j.first
		j.first = nil
		if b == nil {
			b = free.Get().(*input.Batch)
			if err := j.cutter.Next(b); input.Ended(err) {
				return nil
			} else if err != nil {
				return err
			}
		}
		if recorded(b.Number) {
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

// send sends one batch and accounts for each of its rows.
func (j *job) send(ctx context.Context, p *Preparer, b *input.Batch) (*result, error) {
	prep := p.Prepare(b)
	r := &result{
		rejected: prep.Rejected,
		entry:    entry{Batch: b.Number, End: b.End, Rows: len(b.Spans), Warnings: prep.Warnings},
	}
	for part, req := range prep.Requests {
		receipt, err := j.o.Client.Submit(ctx, client.Request{
			Batch: true, Body: req.Body, Events: len(req.Lines),
			Key: keyOf(j.header.Identity, j.header.Salt, b, part, req.Body),
		})
		if err == nil {
			r.entry.Accepted += receipt.Accepted
			r.entry.Submissions = append(r.entry.Submissions, receipt.SubmissionID)
			if receipt.Replayed {
				r.entry.Replayed += receipt.Accepted
			}
			rejected, err := j.explain(ctx, req, receipt)
			if err != nil {
				return nil, err
			}
			r.rejected = append(r.rejected, rejected...)
			continue
		}
		e, ok := errors.AsType[*client.Error](err)
		if !ok || !e.JudgesEvents() {
			return nil, err
		}
		r.rejected = append(r.rejected, name(req.Lines, nil, e.Problems, e.Code, e.Message)...)
	}
	r.entry.Rejected = r.entry.Rows - r.entry.Accepted
	slices.SortFunc(r.rejected, func(a, b RejectedRow) int { return int(a.Line - b.Line) })
	if len(r.rejected) != r.entry.Rejected {
		return nil, fmt.Errorf("the service counts %d rows of a batch as rejected, but names %d", r.entry.Rejected,
			len(r.rejected))
	}
	j.describe(r, p, b)
	j.count.accepted.Add(int64(r.entry.Accepted))
	j.count.rejected.Add(int64(r.entry.Rejected))
	return r, nil
}

// describe counts the rejected rows by code, explains them in the words of the file, and keeps the rows themselves
// where they are asked for.
func (j *job) describe(r *result, p *Preparer, b *input.Batch) {
	at := 0
	for i := range r.rejected {
		row := &r.rejected[i]
		row.Problem = p.explain(row.Problems())[0]
		if r.entry.Codes == nil {
			r.entry.Codes = map[event.Code]int{}
		}
		r.entry.Codes[row.Code]++
		if j.journal.rows.path == "" {
			continue
		}
		for at < len(b.Spans) && b.Spans[at].Line < row.Line {
			at++
		}
		if at < len(b.Spans) {
			row.raw = bytes.Clone(b.Row(at)) // the batch is used again
		}
	}
}

// explain names the rows that the service rejected of a batch it took. An answer lists at most 100 problems; where it
// stops short, the submission says which rows were accepted.
func (j *job) explain(ctx context.Context, req Request, receipt *client.Receipt) ([]RejectedRow, error) {
	if receipt.Rejected == 0 {
		return nil, nil
	}
	accepted := withoutProblem(req, receipt.Problems)
	if receipt.Truncated {
		s, err := j.o.Client.StatusEvents(ctx, receipt.SubmissionID)
		if err != nil {
			return nil, fmt.Errorf("look up which rows were rejected: %w", err)
		}
		clear(accepted)
		for _, e := range s.Events {
			if e.Index < len(accepted) {
				accepted[e.Index] = true
			}
		}
	}
	return name(req.Lines, accepted, receipt.Problems, event.BatchRejected,
		"The service rejected the row; its answer listed other rows' problems only."), nil
}

// withoutProblem says for each row of a request whether no problem names it.
func withoutProblem(req Request, ps []event.Error) []bool {
	good := slices.Repeat([]bool{true}, len(req.Lines))
	for _, p := range ps {
		if p.Index < len(good) {
			good[p.Index] = false
		}
	}
	return good
}

// name gives the rejected rows with their problems. accepted nil means that none was accepted.
func name(lines []int64, accepted []bool, ps []event.Error, code event.Code, message string) []RejectedRow {
	by := map[int][]Problem{}
	for _, p := range ps {
		by[p.Index] = append(by[p.Index], problemsOf(p)...)
	}
	var out []RejectedRow
	for i, line := range lines {
		if accepted != nil && accepted[i] {
			continue
		}
		if len(by[i]) == 0 {
			by[i] = []Problem{{Code: code, Message: message}}
		}
		out = append(out, reject(line, by[i]...))
	}
	return out
}

// Ask lets the service judge rows that passed here. It stores nothing and returns the rows that the service rejects.
func Ask(ctx context.Context, c *client.Client, req Request) ([]RejectedRow, error) {
	v, err := c.ValidateRemote(ctx, req.Body)
	if e, ok := errors.AsType[*client.Error](err); ok && e.JudgesEvents() {
		return name(req.Lines, nil, e.Problems, e.Code, e.Message), nil
	}
	if err != nil {
		return nil, err
	}
	return name(req.Lines, withoutProblem(req, v.Problems), v.Problems, event.BatchRejected,
		"The service would reject the row."), nil
}

// Results are recorded together: a sync for each batch would take the disk from a service on the same machine. What a
// crash loses by waiting is only knowledge: the batches are sent again and answered from the service's memory.
const (
	recordEvery   = 200 * time.Millisecond // arbitrary: not felt by a person
	recordBatches = 64                     // arbitrary: a bound on the rejected rows in memory
)

// recordAll records results until there are no more. If it cannot, it stops the others: what is not recorded should not
// be sent.
func (j *job) recordAll(results <-chan result, stop func()) error {
	var (
		failed error
		held   []result
		due    <-chan time.Time
	)
	flush := func() {
		if failed == nil && len(held) > 0 { // after a failure the rest is only drained
			if failed = j.journal.add(held, j.o.Now()); failed != nil {
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
				due = time.After(recordEvery)
			}
			if len(held) == recordBatches {
				flush()
			}
		case <-due:
			flush()
		}
	}
}
