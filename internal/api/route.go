package api

import (
	"net/http"
	"strings"
)

// What a request can ask for. The last one is every path we do not have.
const (
	routeEvents = iota
	routeBatch
	routeValidate
	routeSubmission
	routeStats
	routeSchema
	routeOpenAPI
	routeDocs
	routeNone
	routeCount
)

// route is one path of the API. Dispatch, numbers, /openapi.json, /docs and docs/api.md are made from this table.
type route struct {
	Method  string
	Path    string
	Allow   string // the header
	Keyed   bool   // needs a key
	Summary string

	Operation string // its name in /openapi.json
	Success   string // what a 200 says
	Schema    string // of a 200: a component; "" where it is none of ours
	Detail    string
}

var routes = [routeCount]route{
	routeEvents: {
		http.MethodPost, "/v1/events", "POST", true, "Send one event",
		"sendEvent", "The event is queued.", "Receipt",
		"The body is one event. It is checked at once and queued: a 200 is written only after the event is on stable " +
			"storage.",
	},
	routeBatch: {
		http.MethodPost, "/v1/events/batch", "POST", true, "Send up to 1,000 events",
		"sendBatch", "The valid events are queued.", "Receipt",
		"The body is an array of events; 500 at a time work best. Valid events are queued as one submission and the others " +
			"are listed in errors. With Prefer: handling=strict one invalid event rejects them all.",
	},
	routeValidate: {
		http.MethodPost, "/v1/events/validate", "POST", true, "Try events without sending them",
		"validateEvents", "What would become of the events.", "Validation",
		"One event or an array of them, under the same rules. Nothing is stored. The answer shows each valid event as it " +
			"would be stored, its privacy outcome with the reasons, and its consent string decoded, as far as the answer is " +
			"not much longer than the body (at most 16 MiB). Events count towards events_per_second.",
	},
	routeSubmission: {
		http.MethodGet, "/v1/submissions/{submission_id}", "GET, HEAD", true, "Look a submission up",
		"readSubmission", "The submission.", "Submission",
		"Readable as soon as the receipt is out, by the dataset that sent it, for at least 30 days. RECEIVED turns into " +
			"PROCESSED once the events are in the store.",
	},
	routeStats: {
		http.MethodGet, "/v1/stats", "GET, HEAD", true, "Read the numbers of your dataset",
		"readStats", "The numbers.", "Stats",
		"window is 1h, 24h (the default), 7d or 30d, in whole hours or days that end with the running one; 1h holds the " +
			"running hour and the one before. The answer has accepted, rejected and late events, privacy outcomes, event " +
			"types, reasons for rejections with a hint and an example of a valid value, identifier coverage, match readiness " +
			"with its formula, how fresh the numbers are, and the age and end of the key. They are the numbers of the store: " +
			"an event is counted some seconds after its receipt. Cheap enough to read every minute: with If-None-Match the " +
			"answer is 304 while the numbers are the same. " +
			"With by=campaign the answer also has campaigns: the events of each campaign by type, and values and refunds by " +
			"currency, as reported and by time of receipt.",
	},
	routeSchema: {
		http.MethodGet, "/v1/schema/events", "GET, HEAD", true, "Read the event schema",
		"readSchema", "The schema.", "",
		"A JSON Schema 2020-12 document made from the tables the validator runs on. Ask again with If-None-Match.",
	},
	routeOpenAPI: {
		http.MethodGet, "/openapi.json", "GET, HEAD", false, "Read this description",
		"readDescription", "This document.", "", "OpenAPI 3.1.",
	},
	routeDocs: {
		http.MethodGet, "/docs", "GET, HEAD", false, "Read the documentation",
		"readDocs", "The page.", "", "One page that needs no network.",
	},
	routeNone: {Path: "other"},
}

const submissionPrefix = "/v1/submissions/"

// find matches a path exactly: no cleaning and no redirect, since a POST that is redirected loses its body.
func find(path string) int {
	for i := range routes[:routeNone] {
		if routes[i].Path == path {
			return i
		}
	}
	if id, ok := strings.CutPrefix(path, submissionPrefix); ok && id != "" && !strings.Contains(id, "/") {
		return routeSubmission
	}
	return routeNone
}

// takes says whether the route answers the method. HEAD is GET without the body.
func (r *route) takes(method string) bool {
	return method == r.Method || method == http.MethodHead && r.Method == http.MethodGet
}

// Route names what a path asks for without the values in it, as the routes of Stats are named.
func Route(path string) string { return routes[find(path)].Path }
