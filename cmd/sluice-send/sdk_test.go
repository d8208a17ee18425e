package main

import (
	"errors"
	"testing"
	"time"

	"sluice/client"
	"sluice/event"
)

func pageView() client.Event {
	return client.Event{Time: time.Now().Add(-time.Minute), EventType: "page_view", Identifiers: client.Identifiers{EmailSHA256: client.Vectors[0].SHA256}}
}

// The SDK and the real service understand each other. It stands here because this is where the service is at hand.
func TestClientAgainstTheService(t *testing.T) {
	s := startServer(t, "spring")
	c := newTestClient(t, s)
	ctx := t.Context()

	late := pageView()
	late.Time = time.Now().Add(-8 * 24 * time.Hour)
	one, err := c.Send(ctx, late)
	must(t, err)
	if one.Accepted != 1 || len(one.Warnings) != 1 || one.Warnings[0].Code != event.LateEvent {
		t.Errorf("Send: got %+v", one)
	}
	sub, err := c.StatusEvents(ctx, one.SubmissionID)
	if err != nil || sub.DatasetID != "spring" || sub.Late != 1 || len(sub.Events) != 1 || sub.Events[0].OptimizationEligible {
		t.Errorf("StatusEvents: got %+v, %v", sub, err)
	}

	nobody := pageView()
	nobody.Identifiers = client.Identifiers{PartnerID: "p"}
	receipts, err := c.SendBatch(ctx, []client.Event{pageView(), nobody, pageView()})
	failed, ok := errors.AsType[*client.BatchError](err)
	if !ok || len(receipts) != 1 || receipts[0].Accepted != 2 || failed.Rejected != 1 || failed.Problems[0].Index != 1 || failed.Problems[0].Code != event.MissingIdentifier || failed.Problems[0].Hint == "" {
		t.Errorf("SendBatch: got %+v, %v", receipts, err)
	}
	if _, err := c.SendBatch(ctx, []client.Event{nobody}); errors.As(err, &failed) && failed.Rejected != 1 {
		t.Errorf("SendBatch of one bad event: got %v", err)
	}
	// What the client rejects here is what the service rejects there.
	if _, err := c.Validate(pageView(), nobody); !errors.As(err, &failed) || failed.Problems[0] != (event.Error{
		Index: 1, Code: event.MissingIdentifier, Field: failed.Problems[0].Field, Message: failed.Problems[0].Message, Hint: failed.Problems[0].Hint,
	}) {
		t.Errorf("Validate: got %v", err)
	}
	verdict, err := c.ValidateRemote(ctx, benchEvent(1))
	if err != nil || !verdict.Valid || len(verdict.Events) != 1 {
		t.Errorf("ValidateRemote: got %+v, %v", verdict, err)
	}
	testSameKey(t, c)

	q := client.NewQueue(c, client.QueueOptions{FlushEvery: 50 * time.Millisecond})
	go q.Run(ctx)
	for range 1234 {
		must(t, q.Add(ctx, pageView()))
	}
	if report, err := q.Close(ctx); err != nil || report.Accepted != 1234 {
		t.Errorf("Queue: got %+v, %v", report, err)
	}
}

// testSameKey sends the same key again, with the same body and with another.
func testSameKey(t *testing.T, c *client.Client) {
	t.Helper()
	body := benchEvent(2)
	first, err := c.Submit(t.Context(), client.Request{Body: body, Key: "order-1"})
	must(t, err)
	again, err := c.Submit(t.Context(), client.Request{Body: body, Key: "order-1"})
	if err != nil || !again.Replayed || first.Replayed || again.SubmissionID != first.SubmissionID {
		t.Errorf("the same key: got %+v, %v, want the receipt %+v", again, err, first)
	}
	_, err = c.Submit(t.Context(), client.Request{Body: benchEvent(3), Key: "order-1"})
	if e, ok := errors.AsType[*client.Error](err); !ok || e.Code != event.IdempotencyKeyReused {
		t.Errorf("the same key with another body: got %v", err)
	}
	strict := append(append([]byte("["), body...), ",{}]"...)
	_, err = c.Submit(t.Context(), client.Request{Batch: true, Body: strict, Strict: true})
	if e, ok := errors.AsType[*client.Error](err); !ok || e.Status != 400 {
		t.Errorf("a strict batch: got %v", err)
	}
}
