package main

import (
	"context"
	"fmt"
	"net/http"

	"sluice/event"
)

// requestRule is a rule about requests that no body can show.
type requestRule struct {
	name   string
	why    string
	method string
	path   string
	body   string
	change func(*http.Request)
	status int
	code   event.Code
}

func header1(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

var requestRules = []requestRule{
	{
		"request-no-key", "a request without a key is rejected", "POST", "/v1/events", "{}",
		func(r *http.Request) { r.Header.Del("Authorization") }, 403, event.MissingAPIKey,
	},
	{
		"request-wrong-key", "an unknown key is rejected", "POST", "/v1/events", "{}",
		header1("Authorization", "Bearer no-such-key"), 403, event.InvalidAPIKey,
	},
	{
		"request-two-keys", "two Authorization headers are rejected", "POST", "/v1/events", "{}",
		func(r *http.Request) { r.Header.Add("Authorization", r.Header.Get("Authorization")) }, 403, event.InvalidAPIKey,
	},
	{
		"request-browser", "a browser is rejected", "POST", "/v1/events", "{}", header1("Origin", "https://shop.example.com"),
		403, event.ServerSideOnly,
	},
	{
		"request-media-type", "only JSON is read", "POST", "/v1/events", "{}", header1("Content-Type", "text/csv"), 415,
		event.UnsupportedMediaType,
	},
	{
		"request-encoding", "an encoding other than gzip and zstd is rejected", "POST", "/v1/events", "{}",
		header1("Content-Encoding", "br"), 415, event.UnsupportedMediaType,
	},
	{
		"request-broken-gzip", "a body that does not unpack is rejected", "POST", "/v1/events", "{}",
		header1("Content-Encoding", "gzip"), 400, event.MalformedJSON,
	},
	{"request-unknown-path", "there is nothing elsewhere", "POST", "/v1/event", "{}", nil, 404, event.NotFound},
	{"request-method", "events are posted", "PUT", "/v1/events", "{}", nil, 405, event.MethodNotAllowed},
	{
		"request-array-to-single", "an array belongs to the batch path", "POST", "/v1/events", "[]", nil, 400,
		event.InvalidType,
	},
	{
		"request-object-to-batch", "an object belongs to the single path", "POST", "/v1/events/batch", "{}", nil, 400,
		event.InvalidType,
	},
	{
		"request-empty-batch", "a batch holds at least one event", "POST", "/v1/events/batch", "[]", nil, 400,
		event.EmptyBatch,
	},
	{
		"request-no-submission", "an unknown submission is not found", "GET",
		"/v1/submissions/batch.00000000-0000-7000-8000-000000000000", "", nil, 404, event.NotFound,
	},
	{
		"request-stats-no-key", "the numbers of a dataset need its key", "GET", "/v1/stats", "",
		func(r *http.Request) { r.Header.Del("Authorization") }, 403, event.MissingAPIKey,
	},
	{
		"request-stats-window", "an unknown window of the numbers cannot be read", "GET", "/v1/stats?window=2h", "", nil, 400,
		event.InvalidParameter,
	},
	{"request-stats-method", "the numbers are read", "POST", "/v1/stats", "{}", nil, 405, event.MethodNotAllowed},
}

func (o *conformance) requestRule(ctx context.Context, m requestRule) (diff []string, err error) {
	status, h, r, err := o.exchange(ctx, m.method, m.path, m.body, m.change)
	if err != nil {
		return nil, err
	}
	if status != m.status {
		diff = append(diff, fmt.Sprintf("status %d, want %d", status, m.status))
	}
	if r == nil {
		return append(diff, "the answer is not a JSON object"), nil
	}
	if r.Status != "error" || r.ErrorCode != m.code || r.Message == "" {
		diff = append(diff, fmt.Sprintf("status %q, error_code %q, want %q, %q and a message", r.Status, r.ErrorCode, "error",
			m.code))
	}
	for name, want := range map[string]string{
		"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff",
		"Content-Type": "application/json",
	} {
		if got := h.Get(name); got != want {
			diff = append(diff, fmt.Sprintf("%s: %q, want %q", name, got, want))
		}
	}
	if h.Get("X-Request-Id") == "" {
		diff = append(diff, "no X-Request-Id")
	}
	return diff, nil
}
