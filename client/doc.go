// Package client sends conversion events to a Sluice service.
//
// A [Client] belongs to one dataset and its key. It is safe for concurrent use.
//
//	c, err := client.New("https://events.example.com", key, client.Options{DatasetID: "spring-sale"})
//	if err != nil { … }
//	email, err := client.HashEmail("Ana@example.com")
//	if err != nil { … }
//	receipt, err := c.Send(ctx, client.Event{
//		Time:         order.PaidAt,
//		EventType:    "purchase",
//		Value:        new(49.90),
//		CurrencyCode: "EUR",
//		Identifiers:  client.Identifiers{EmailSHA256: email},
//	})
//
// # Which call to use
//
//   - [Client.Send] for one event whose fate you want to know now.
//   - [Client.SendBatch] for a slice; it is divided at 1,000 events and 5 MB.
//   - [Queue] for a program that makes events all day: it fills batches in the background, within a bound on memory.
//   - [Client.Submit] for bytes that are JSON already, and for a caller that keeps its own Idempotency-Key.
//   - [Client.Validate] before any of them: the service's own rules, run here, without a connection.
//   - [Client.ValidateRemote] for the service's word on events it shall not keep.
//   - [Client.Status] afterwards: what became of a submission.
//
// # Hashes
//
// Identifiers leave your machine hashed or not at all. [HashEmail] trims, lower-cases, and hashes; [HashIPv4] does the
// same for the canonical dotted form of an IPv4 address. Both reject what they cannot have been meant for, such as a
// value that is a hash already. [Vectors] holds pairs to check another implementation against.
//
// # Retries
//
// A request is tried again after a network error and after the statuses 408, 429 and 5xx; also after a 409 that
// says an earlier try of the same request is still running. Every other answer is final. The wait before try n is drawn
// evenly from zero to [Retry.Base]·2ⁿ⁻¹, at most [Retry.Max], on top of any Retry-After the service gave. Three bounds
// end it: the context, [Retry.Total], and the budget that all requests of a Client share, so that an outage is not
// answered by a storm of retries.
//
// One Idempotency-Key is fixed before the first try of a request and goes with each of its tries. The service stores
// a request with a known key once, however often it arrives.
//
// # Errors
//
// Nothing is dropped in silence. An error is one of these, found by [errors.AsType]:
//
//   - [*Error]: the service answered and rejected. It names the status, the code, and each problem with index,
//     field and hint.
//   - [*GiveUpError]: no final answer came in time. The events may or may not be stored; its Key makes sending the same
//     bytes again safe for at least 48 hours.
//   - [*BatchError]: part of a batch was rejected or never sent; it says which events, by their index in your slice.
//
// No error holds a value of an event, nor the key.
//
// # Tracing and transport
//
// [Options.Transport] takes any [http.RoundTripper]. [Options.Propagate] is called for every try with the request's
// header, which is all that OpenTelemetry needs:
//
//	Propagate: func(ctx context.Context, h http.Header) {
//		otel.GetTextMapPropagator().Inject(ctx, propagation.HeaderCarrier(h))
//	},
package client
