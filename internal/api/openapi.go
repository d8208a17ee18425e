package api

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"sluice/event"
	"sluice/internal/version"
)

// document is the description of this API, which holds for an hour: an example that is copied into a terminal must not
// be rejected for its age.
type document struct {
	mu   sync.Mutex
	hour int64
	body []byte
}

// openAPI serves the description of this API.
func (q *request) openAPI() error {
	d, hour := &q.server.document, q.start.Unix()/3600
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.body == nil || d.hour != hour {
		body, err := openAPIDocument(q.start)
		if err != nil {
			return err
		}
		d.hour, d.body = hour, body
	}
	q.shared = [][]byte{d.body}
	return nil
}

// openAPIDocument makes the OpenAPI 3.1 document from the tables that the program runs on.
func openAPIDocument(now time.Time) ([]byte, error) {
	var paths object
	for i := range routes[:routeNone] {
		paths = paths.with(routes[i].Path, object{{strings.ToLower(routes[i].Method), operation(i, now)}})
	}
	return json.MarshalIndent(object{
		{"openapi", "3.1.0"},
		{"info", object{
			{"title", "Sluice"},
			{"version", version.Number},
			{"summary", "Conversion events, server to server"},
			{"description", "Send conversion events as JSON. Every identifier is a hash. " +
				"A 200 means that the events are on stable storage."},
			{"contact", object{{"name", "The operator of this service"}}},
		}},
		{"servers", []object{{{"url", "/"}}}},
		{"security", []object{{{"key", []string{}}}}},
		{"tags", []object{
			{{"name", tagEvents}, {"description", "Send events, try them out, and find out what became of them."}},
			{{"name", tagDescription}, {"description", "This API, for machines and for people."}},
		}},
		{"paths", paths},
		{"components", object{
			{"securitySchemes", object{{"key", object{
				{"type", "http"},
				{"scheme", "bearer"},
				{"description", "The dataset's API key. It opens one dataset and belongs on a server, never into a browser."},
			}}}},
			{"schemas", componentSchemas()},
		}},
	}, "", "  ")
}

// The groups of operations.
const (
	tagEvents      = "events"
	tagDescription = "description"
)

func operation(i int, now time.Time) object {
	rt := &routes[i]
	tag := tagEvents
	switch i {
	case routeSchema, routeOpenAPI, routeDocs:
		tag = tagDescription
	}
	op := object{
		{"operationId", rt.Operation}, {"tags", []string{tag}}, {"summary", rt.Summary}, {"description", rt.Detail},
	}
	if !rt.Keyed {
		op = op.with("security", []object{})
	}
	op = op.with("parameters", parameters(i))
	if rt.Method == http.MethodPost {
		op = op.with("requestBody", object{
			{"required", true},
			{"description", "At most 5,242,880 bytes, on the wire and decompressed. Content-Encoding may be gzip or zstd."},
			{"content", object{{"application/json", object{{"schema", bodySchema(i)}, {"examples", requestExamples(i, now)}}}}},
		})
	}
	return op.with("responses", responses(i, now))
}

func parameters(i int) []object {
	parameter := func(in, name, description string, schema object) object {
		return object{{"name", name}, {"in", in}, {"description", description}, {"schema", schema}}
	}
	text := object{{"type", "string"}}
	params := []object{parameter("header", "X-Request-Id", "An id of yours for this request, which the answer repeats: "+
		"1 to 128 letters, digits, dots, hyphens and underscores. Any other is replaced.",
		text.with("pattern", "^[A-Za-z0-9._-]{1,128}$"))}
	switch i {
	case routeEvents, routeBatch:
		params = append(params, parameter("header", "Idempotency-Key", "Makes a retry safe: the same key with the same "+
			"body is stored once and answered with the first receipt. Put at least 64 random bits into it, for example a "+
			"random UUID.", text.with("pattern", "^[!-~]{1,255}$")))
	case routeSubmission:
		id := parameter("path", "submission_id", "From the receipt.", text)
		params = append(params, slices.Insert(id, 2, member{"required", true}),
			parameter("query", "include", "events: list the events too.", text.with("enum", []string{"events"})))
	case routeStats:
		names := windowNames()
		params = append(params, parameter("query", "window", "How far back; 24h when it is left out.",
			text.with("enum", names).with("default", names[0])),
			parameter("query", "by", "campaign: list the campaigns too, as reported.", text.with("enum", []string{byCampaign})),
			parameter("header", "If-None-Match", "The ETag of the numbers you have.", text))
	case routeSchema:
		params = append(params, parameter("header", "If-None-Match", "The ETag of the schema you have.", text))
	}
	if i == routeBatch {
		params = append(params, parameter("header", "Prefer", "handling=strict: one invalid event rejects them all.", text))
	}
	return params
}

func ref(name string) object { return object{{"$ref", "#/components/schemas/" + name}} }

func bodySchema(i int) object {
	switch i {
	case routeEvents:
		return ref("Event")
	case routeBatch:
		return ref("Batch")
	default:
		return object{{"oneOf", []object{ref("Event"), ref("Batch")}}}
	}
}

// requestExamples are those of which every event is accepted: what should be copied, and what the schema describes.
func requestExamples(i int, now time.Time) object {
	out := object{}
	for j := range examples {
		if e := &examples[j]; e.route == i && e.valid(now) {
			out = out.with(e.name, object{{"summary", e.summary}, {"value", json.RawMessage(exampleAt(e.body, now))}})
		}
	}
	return out
}

func responseExamples(i, status int, now time.Time) object {
	out := object{}
	for j := range examples {
		e := &examples[j]
		if s, body := e.answer(now); e.route == i && s == status {
			out = out.with(e.name, object{{"summary", e.summary}, {"value", json.RawMessage(body)}})
		}
	}
	return out
}

func responses(i int, now time.Time) object {
	kind, content := "application/json", object{{"type", "object"}}
	switch {
	case i == routeDocs:
		kind, content = "text/html", object{{"type", "string"}}
	case routes[i].Schema != "":
		content = ref(routes[i].Schema)
	}
	answer := func(status int, description, kind string, schema object) object {
		media := object{{"schema", schema}}
		if ex := responseExamples(i, status, now); len(ex) > 0 {
			media = media.with("examples", ex)
		}
		return object{
			{"description", description}, {"headers", answerHeaders(i, status)}, {"content", object{{kind, media}}},
		}
	}
	out := object{{"200", answer(http.StatusOK, routes[i].Success, kind, content)}}
	if i == routeSchema || i == routeStats {
		out = out.with("304", object{{"description", "You have the newest."}})
	}
	codes := codesOf(i)
	for _, status := range statuses {
		var lines []string
		for _, code := range codes {
			if statusOf(code) == status {
				lines = append(lines, "`"+string(code)+"`: "+codeInfo(code).Meaning)
			}
		}
		if len(lines) == 0 {
			continue
		}
		out = out.with(strconv.Itoa(status),
			answer(status, strings.Join(lines, "\n\n"), "application/json", ref("Error")))
	}
	return out
}

func answerHeaders(i, status int) (h object) {
	add := func(there bool, name, kind, description string) {
		if there {
			h = h.with(name, object{{"description", description}, {"schema", object{{"type", kind}}}})
		}
	}
	ok, queues := status == http.StatusOK, i == routeEvents || i == routeBatch
	early := status == http.StatusMethodNotAllowed || status == http.StatusRequestEntityTooLarge ||
		status == http.StatusUnsupportedMediaType
	add(true, "X-Request-Id", "string", "The id of this request.")
	add(i == routeBatch, "X-Events-Accepted", "integer", "Events queued.")
	add(i == routeBatch, "X-Events-Rejected", "integer", "Events rejected.")
	add(i == routeBatch && !early, "Preference-Applied", "string",
		"handling=strict, if the request asked for it and its body was read.")
	add(status == http.StatusMethodNotAllowed, "Allow", "string", "The methods that the path takes.")
	add(status == http.StatusUnsupportedMediaType, "Accept-Encoding", "string",
		"The encodings that are read, if the request had another one.")
	add(retryable(status) || status == http.StatusConflict, "Retry-After", "integer",
		"Seconds to wait before trying again.")
	add(ok && queues, "Idempotency-Replayed", "string",
		"true: this is the receipt of an earlier request with the same key.")
	add(ok && i == routeSchema, "ETag", "string", "Version of the schema.")
	add(ok && i == routeStats, "ETag", "string",
		"Weak: it changes with the numbers, not with the time at which they were counted.")
	return h
}

// codesOf are the codes a route can reject with, in the order of the table.
func codesOf(i int) []event.Code {
	rt := &routes[i]
	var out []event.Code
	for _, info := range codeTable {
		if info.Kind != event.WarningKind && canReject(rt, i, info) {
			out = append(out, info.Code)
		}
	}
	return out
}

func canReject(rt *route, i int, info event.CodeInfo) bool {
	post := rt.Method == http.MethodPost
	queues := i == routeEvents || i == routeBatch
	switch info.Code {
	case event.ServerSideOnly, event.InternalError, event.MethodNotAllowed:
		return true
	case event.MissingAPIKey, event.InvalidAPIKey, event.RateLimited:
		return rt.Keyed
	case event.Unavailable:
		return rt.Keyed && i != routeSchema
	case event.NotFound:
		return i == routeSubmission
	case event.InvalidParameter:
		return i == routeSubmission || i == routeStats
	case event.IdempotencyInProgress, event.IdempotencyKeyReused:
		return queues
	case event.EmptyBatch, event.BatchTooLarge:
		return i == routeBatch || i == routeValidate
	case event.BatchRejected:
		return i == routeBatch
	case event.MalformedJSON, event.InvalidType, event.DatasetForbidden, event.PayloadTooLarge, event.UnsupportedMediaType:
		return post
	}
	return queues && info.Kind == event.RuleKind
}

// codeTable are all codes, in the order of the table.
var codeTable = event.Codes()

func codeInfo(code event.Code) event.CodeInfo {
	info, _ := event.LookupCode(code)
	return info
}
