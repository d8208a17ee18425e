package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"sluice/client"
)

// fake answers every batch with the same words, so that the examples have a service to talk to.
func fake(status int, body string) *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}))
}

func ExampleClient_Send() {
	service := fake(200, `{"submission_id":"single.01980f3e","received_at":"2026-11-14T23:40:05Z","status":"RECEIVED"}`)
	defer service.Close()

	c, err := client.New(service.URL, "the-key-of-the-dataset", client.Options{DatasetID: "spring-sale"})
	if err != nil {
		log.Fatal(err)
	}
	email, err := client.HashEmail(" Ana@Example.com ")
	if err != nil {
		log.Fatal(err)
	}
	receipt, err := c.Send(context.Background(), client.Event{
		Time:         time.Now(),
		EventType:    "purchase",
		Value:        new(49.90),
		CurrencyCode: "EUR",
		Identifiers:  client.Identifiers{EmailSHA256: email},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(receipt.Status, receipt.SubmissionID)
	// Output: RECEIVED single.01980f3e
}

func ExampleClient_SendBatch() {
	service := fake(200, `{"submission_id":"batch.01980f3e","received_at":"2026-11-14T23:40:05Z","status":"RECEIVED",
		"accepted":1,"rejected":1,"errors":[{"index":1,"error_code":"MISSING_IDENTIFIER","field":"/identifiers",
		"message":"At least one hashed identifier is required.","hint":"Send email_sha256, ifa or ip."}]}`)
	defer service.Close()

	c, err := client.New(service.URL, "the-key-of-the-dataset", client.Options{DatasetID: "spring-sale"})
	if err != nil {
		log.Fatal(err)
	}
	known := client.Event{
		Time: time.Now(), EventType: "sign_up",
		Identifiers: client.Identifiers{IFA: "8a7f4c2e-1b3d-4e5f-9a6b-7c8d9e0f1a2b"},
	}
	unknown := client.Event{Time: time.Now(), EventType: "sign_up"}

	_, err = c.SendBatch(context.Background(), []client.Event{known, unknown})
	if rejected, ok := errors.AsType[*client.BatchError](err); ok {
		for _, p := range rejected.Problems {
			fmt.Printf("event %d: %s at %s. %s\n", p.Index, p.Code, p.Field, p.Hint)
		}
	}
	// Output: event 1: MISSING_IDENTIFIER at /identifiers. Send email_sha256, ifa or ip.
}

func ExampleQueue() {
	service := fake(200, `{"submission_id":"batch.01980f3e","received_at":"2026-11-14T23:40:05Z","status":"RECEIVED"}`)
	defer service.Close()

	c, err := client.New(service.URL, "the-key-of-the-dataset", client.Options{DatasetID: "spring-sale"})
	if err != nil {
		log.Fatal(err)
	}
	q := client.NewQueue(c, client.QueueOptions{FlushEvery: 200 * time.Millisecond})
	go q.Run(context.Background())

	for range 3 {
		err := q.Add(context.Background(), client.Event{
			Time: time.Now(), EventType: "page_view",
			Identifiers: client.Identifiers{IFA: "8a7f4c2e-1b3d-4e5f-9a6b-7c8d9e0f1a2b"},
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	report, err := q.Close(context.Background())
	fmt.Println(report.Accepted, "of", report.Taken, "accepted; error:", err)
	// Output: 3 of 3 accepted; error: <nil>
}

func ExampleHashEmail() {
	h, err := client.HashEmail("  Ana@Example.COM ")
	fmt.Println(h, err)
	_, err = client.HashEmail(h)
	fmt.Println(err)
	// Output:
	// 8e43ca37701228e74983efdbd0cff5c16b3b1e5d4e29a7c05626d4d25a018e11 <nil>
	// the value is 64 hex digits, a hash already: hashing it again would match nobody
}

func ExampleHashIPv4() {
	h, err := client.HashIPv4("::ffff:192.0.2.1")
	fmt.Println(h, err)
	_, err = client.HashIPv4("2001:db8::1")
	fmt.Println(err)
	// Output:
	// 37fcff24bf62035b2b08020afc08b4fecd4fcffce57ab23518e3561ff0fe76b9 <nil>
	// the value is not an IPv4 address
}

// With OpenTelemetry, a try carries the trace of its context.
func ExampleOptions_propagate() {
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Println(r.Header.Get("Traceparent"))
		fmt.Fprint(w, `{"submission_id":"single.01980f3e","received_at":"2026-11-14T23:40:05Z","status":"RECEIVED"}`)
	}))
	defer service.Close()

	propagator := propagation.TraceContext{} // or otel.GetTextMapPropagator()
	c, err := client.New(service.URL, "the-key-of-the-dataset", client.Options{
		DatasetID: "spring-sale",
		Propagate: func(ctx context.Context, h http.Header) { propagator.Inject(ctx, propagation.HeaderCarrier(h)) },
	})
	if err != nil {
		log.Fatal(err)
	}
	span := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled})
	ctx := trace.ContextWithSpanContext(context.Background(), span)
	if _, err := c.Send(ctx, client.Event{Time: time.Now(), EventType: "page_view"}); err != nil {
		log.Fatal(err)
	}
	// Output: 00-01000000000000000000000000000000-0200000000000000-01
}
