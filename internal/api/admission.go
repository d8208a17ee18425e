package api

import (
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/event"
	"sluice/internal/listen"
)

// One message for every key that does not open a dataset: which of the reasons it was is nobody's business but
// the operator's.
const (
	noKeyMessage  = "The request carries no API key."
	badKeyMessage = "The API key is not valid."
)

// enter checks everything that can be known before the body is read, in this order:
//
//	request id → path → browser → method → key → memory → request rate → media type and encoding → event rate → queue
//
// A path that does not exist is 404 for everyone, with or without a key; a browser gets its error before its
// preflight is; a wrong method is 405 before a key is asked for. The rate is charged before the request is
// looked at any closer, so that a flood of nonsense is slowed down too.
func (q *request) enter() error {
	rt := &routes[q.route]
	switch {
	case q.route == routeNone:
		return advise(event.NotFound, "There is nothing at this path.",
			"The paths are listed at /docs and /openapi.json; they end without a slash.")
	case q.r.Header["Origin"] != nil:
		q.identify()
		return reject(event.ServerSideOnly, "The request comes from a browser.")
	case !rt.takes(q.r.Method):
		q.identify()
		r := advise(event.MethodNotAllowed, "This path does not take the request's method.", "Use "+rt.Allow+".")
		r.allow = rt.Allow
		return r
	case !rt.Keyed:
		return nil
	}
	if err := q.authenticate(); err != nil {
		return err
	}
	if rt.Method == http.MethodPost {
		if err := q.reserve(overhead); err != nil {
			return err
		}
	} else {
		q.take(overhead) // reading goes on without: then it counts as a stranger's
	}
	q.buffers = q.server.pools.get(q.route)
	if wait := q.usage.requests.Take(q.start, q.server.rate(q.dataset.RequestsPerSecond), 1); wait > 0 {
		return limited("requests", q.dataset.RequestsPerSecond, wait)
	}
	if rt.Method != http.MethodPost {
		return nil
	}
	if err := q.media(); err != nil {
		return err
	}
	// Without events left in its limit a request is rejected before its body costs anything. One with an idempotency key
	// may be a retry of what was accepted: it is answered.
	limit := q.dataset.EventsPerSecond
	if wait := q.usage.events.Wait(q.start, q.server.rate(limit), 1); wait > 0 && q.r.Header["Idempotency-Key"] == nil {
		return limited("events", limit, wait)
	}
	if err := q.server.Ready(); err != nil && q.route != routeValidate {
		q.server.counts.shedStream.Add(1)
		return reject(event.Unavailable, "The queue cannot take events at the moment.")
	}
	return nil
}

// identify finds out for the counts alone whose request is rejected before its key is asked for: the answer is the same
// with any key and without one.
func (q *request) identify() {
	if routes[q.route].Keyed && q.authenticate() != nil {
		q.keyID = ""
	}
}

func (q *request) authenticate() error {
	values := q.r.Header["Authorization"]
	if len(values) == 0 || len(values) == 1 && values[0] == "" {
		return reject(event.MissingAPIKey, noKeyMessage)
	}
	if len(values) > 1 {
		return reject(event.InvalidAPIKey, badKeyMessage)
	}
	if strings.EqualFold(strings.TrimSpace(values[0]), "bearer") {
		return advise(event.MissingAPIKey, noKeyMessage,
			"Nothing follows Bearer in the Authorization header: check that the variable with the key is set.")
	}
	d, keyID, err := q.server.Keys.Authenticate(bearer(values[0]))
	q.keyID = keyID // of a key that has ended, too
	if err != nil {
		if scheme, _, _ := strings.Cut(values[0], " "); strings.EqualFold(scheme, "basic") {
			return advise(event.InvalidAPIKey, badKeyMessage,
				"The Authorization header has the scheme Basic: send Authorization: Bearer and the dataset's key.")
		}
		return reject(event.InvalidAPIKey, badKeyMessage)
	}
	listen.CarriedKey(q.r.Context())
	q.dataset = d
	q.usage = q.server.usage(d.ID)
	return nil
}

// bearer cuts the scheme off, if there is one: the specification shows the bare key too.
func bearer(value string) string {
	const scheme = "bearer "
	if len(value) >= len(scheme) && strings.EqualFold(value[:len(scheme)], scheme) {
		return strings.Trim(value[len(scheme):], " \t")
	}
	return value
}

func limited(what string, rate float64, wait time.Duration) *rejection {
	instead := "spread events over time"
	if what == "requests" {
		instead = "put more events into each batch"
	}
	return advise(event.RateLimited, "The limit "+what+"_per_second of this dataset is reached: "+
		strconv.FormatFloat(rate, 'f', -1, 64)+" "+what+"/s.",
		"Wait for Retry-After, then send the same again; "+instead+", or ask the operator for a higher limit.").after(wait)
}

// media checks what the body says of itself.
func (q *request) media() error {
	for _, v := range q.r.Header["Content-Type"] {
		name, _, _ := strings.Cut(v, ";")
		if name = strings.TrimSpace(name); name != "" && !strings.EqualFold(name, "application/json") {
			return advise(event.UnsupportedMediaType, "The body is not declared as JSON.",
				"Send Content-Type: application/json.")
		}
	}
	codings := q.r.Header["Content-Encoding"]
	if len(codings) > 0 {
		q.coding = strings.ToLower(strings.TrimSpace(codings[0]))
	}
	if len(codings) > 1 || !slices.Contains([]string{"", "identity", "gzip", "zstd"}, q.coding) {
		q.w.Header()["Accept-Encoding"] = acceptEncoding
		return advise(event.UnsupportedMediaType, "The Content-Encoding is not one of identity, gzip and zstd, used once.",
			"Send Content-Encoding: gzip or zstd, or none.")
	}
	if q.r.ContentLength > MaxBody {
		return tooLarge()
	}
	return nil
}

var acceptEncoding = []string{"gzip, zstd"}

// preference is one of a Prefer header, up to a comma that is in no quoted text.
var preference = regexp.MustCompile(`(?:[^",]|"(?:[^"\\]|\\.)*")+`)

// strict says whether the sender prefers all or nothing (RFC 7240, the first handling preference counts).
func strict(values []string) bool {
	for _, v := range values {
		for _, p := range preference.FindAllString(v, -1) {
			name, value, _ := strings.Cut(p, "=")
			if strings.EqualFold(strings.TrimSpace(name), "handling") {
				value, _, _ = strings.Cut(value, ";")
				value = strings.TrimSpace(value)
				return strings.EqualFold(value, "strict") || strings.EqualFold(value, `"strict"`)
			}
		}
	}
	return false
}

// requestID keeps a well-formed id of the sender's.
func requestID(values []string) string {
	other := func(c rune) bool {
		return (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '.' && c != '_' && c != '-'
	}
	if len(values) != 1 || values[0] == "" || len(values[0]) > 128 || strings.ContainsFunc(values[0], other) {
		return newRequestID()
	}
	return values[0]
}
