package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"sluice/event"
)

// requestRule is a rule about requests that no body can show.
type requestRule struct {
	name    string
	why     string
	request string // method, path and body
	change  func(http.Header)
	status  int
	code    event.Code
}

const post = "POST /v1/events {}"

func set(name, value string) func(http.Header) {
	return func(h http.Header) { h.Set(name, value) }
}

func noKey(h http.Header) { h.Del("Authorization") }

func twoKeys(h http.Header) { h.Add("Authorization", h.Get("Authorization")) }

var requestRules = []requestRule{
	{"request-no-key", "a request without a key is rejected", post, noKey, 403, event.MissingAPIKey},
	{
		"request-wrong-key", "an unknown key is rejected", post, set("Authorization", "Bearer no-such-key"),
		403, event.InvalidAPIKey,
	},
	{"request-two-keys", "two Authorization headers are rejected", post, twoKeys, 403, event.InvalidAPIKey},
	{
		"request-browser", "a browser is rejected", post, set("Origin", "https://shop.example.com"),
		403, event.ServerSideOnly,
	},
	{
		"request-media-type", "only JSON is read", post, set("Content-Type", "text/csv"),
		415, event.UnsupportedMediaType,
	},
	{
		"request-encoding", "an encoding other than gzip and zstd is rejected", post, set("Content-Encoding", "br"),
		415, event.UnsupportedMediaType,
	},
	{
		"request-broken-gzip", "a body that does not unpack is rejected", post, set("Content-Encoding", "gzip"),
		400, event.MalformedJSON,
	},
	{"request-unknown-path", "there is nothing elsewhere", "POST /v1/event {}", nil, 404, event.NotFound},
	{"request-method", "events are posted", "PUT /v1/events {}", nil, 405, event.MethodNotAllowed},
	{
		"request-array-to-single", "an array belongs to the batch path", "POST /v1/events []", nil,
		400, event.InvalidType,
	},
	{
		"request-object-to-batch", "an object belongs to the single path", "POST /v1/events/batch {}", nil,
		400, event.InvalidType,
	},
	{"request-empty-batch", "a batch holds at least one event", "POST /v1/events/batch []", nil, 400, event.EmptyBatch},
	{
		"request-no-submission", "an unknown submission is not found",
		"GET /v1/submissions/batch.00000000-0000-7000-8000-000000000000", nil, 404, event.NotFound,
	},
	{"request-stats-no-key", "the numbers of a dataset need its key", "GET /v1/stats", noKey, 403, event.MissingAPIKey},
	{
		"request-stats-window", "an unknown window of the numbers cannot be read", "GET /v1/stats?window=2h", nil,
		400, event.InvalidParameter,
	},
	{"request-stats-method", "the numbers are read", "POST /v1/stats {}", nil, 405, event.MethodNotAllowed},
}

func (o *conformance) requestRule(ctx context.Context, m requestRule) (path string, diff []string, err error) {
	method, rest, _ := strings.Cut(m.request, " ")
	path, body, _ := strings.Cut(rest, " ")
	r, err := o.exchange(ctx, method, path, body, m.change)
	if err != nil {
		return path, nil, err
	}
	if r.status != m.status {
		diff = append(diff, fmt.Sprintf("status %d, want %d", r.status, m.status))
	}
	if !r.object {
		return path, append(diff, "the answer is not a JSON object"), nil
	}
	if r.Status != "error" || r.ErrorCode != m.code || r.Message == "" {
		diff = append(diff, fmt.Sprintf("status %q, error_code %q, want %q, %q and a message", r.Status, r.ErrorCode, "error",
			m.code))
	}
	for name, want := range map[string]string{
		"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff",
		"Content-Type": "application/json",
	} {
		if got := r.header.Get(name); got != want {
			diff = append(diff, fmt.Sprintf("%s: %q, want %q", name, got, want))
		}
	}
	if r.header.Get("X-Request-Id") == "" {
		diff = append(diff, "no X-Request-Id")
	}
	return path, diff, nil
}
