package client

import (
	"context"
	"errors"
	"fmt"

	"sluice/event"
)

// Send sends one event. A nil error means that it is on stable storage. Warnings are in the receipt.
func (c *Client) Send(ctx context.Context, e Event) (*Receipt, error) {
	body, err := c.encode(e)
	if err != nil {
		return nil, err
	}
	return c.Submit(ctx, Request{Body: body, Events: 1})
}

// SendBatch sends events in as few requests as their number and size allow, one after the other, and gives
// the receipt of each. Unless every event was accepted, the error is a *BatchError whose indexes are those of events.
// After an answer that would only repeat itself, a rejected key or an unreachable service, the rest is not tried.
func (c *Client) SendBatch(ctx context.Context, events []Event) ([]Receipt, error) {
	if len(events) == 0 {
		return nil, errors.New("client: no events to send")
	}
	bodies := make([][]byte, len(events))
	for i := range events {
		body, err := c.encode(events[i])
		if err != nil {
			return nil, fmt.Errorf("client: event %d cannot be written as JSON: %w", i, err)
		}
		if len(body)+2 > MaxBytes {
			return nil, fmt.Errorf("client: event %d is %d bytes, over the limit of a request", i, len(body))
		}
		bodies[i] = body
	}
	return c.sendAll(ctx, bodies, MaxEvents, MaxBytes)
}

// sendAll sends encoded events in order, in batches of at most maxEvents and maxBytes.
func (c *Client) sendAll(ctx context.Context, bodies [][]byte, maxEvents, maxBytes int) ([]Receipt, error) {
	var (
		receipts []Receipt
		failed   BatchError
	)
	for from := 0; from < len(bodies); {
		to := cut(bodies, from, maxEvents, maxBytes)
		receipt, err := c.Submit(ctx, Request{Batch: true, Body: join(bodies[from:to]), Events: to - from})
		if err == nil {
			receipt.First = from
			shift(receipt.Problems, from)
			for i := range receipt.Warnings {
				receipt.Warnings[i].Index += from
			}
			receipts = append(receipts, *receipt)
			failed.add(receipt.Rejected, receipt.Problems, receipt.Truncated)
		} else if e, ok := errors.AsType[*Error](err); ok && e.JudgesEvents() {
			shift(e.Problems, from)
			failed.add(to-from, e.Problems, e.Truncated)
		} else {
			failed.Unsent = append(failed.Unsent, Unsent{from, len(bodies), err})
			break
		}
		from = to
	}
	if failed.Rejected > 0 || len(failed.Unsent) > 0 {
		return receipts, &failed
	}
	return receipts, nil
}

func (e *BatchError) add(rejected int, ps []event.Error, truncated bool) {
	e.Rejected += rejected
	e.Problems = append(e.Problems, ps...)
	e.Truncated = e.Truncated || truncated
}

func shift(ps []event.Error, by int) {
	for i := range ps {
		ps[i].Index += by
	}
}

// cut finds the end of the batch that begins at from: never empty, within both limits.
func cut(bodies [][]byte, from, maxEvents, maxBytes int) int {
	size := len("[]")
	for to := from; to < len(bodies); to++ {
		size += len(bodies[to])
		if to > from {
			size++ // the comma
			if to-from == maxEvents || size > maxBytes {
				return to
			}
		}
	}
	return len(bodies)
}

func join(bodies [][]byte) []byte {
	size := 1
	for _, b := range bodies {
		size += len(b) + 1
	}
	out := make([]byte, 0, size)
	sep := byte('[')
	for _, b := range bodies {
		out = append(append(out, sep), b...)
		sep = ','
	}
	return append(out, ']')
}
