package api

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"time"

	"sluice/event"
	"sluice/internal/limit"
)

// rejection is why a request was not accepted. Handlers return it; only the answer writes it.
type rejection struct {
	code    event.Code
	field   string
	message string
	hint    string // empty: the code's own remedy

	problems   []event.Error     // every problem found; empty: the one above
	indexed    bool              // problems belong to events of a batch
	truncated  bool              // there are more problems than listed
	counted    bool              // rejections are answered, too, by code
	rejections []event.Rejection // the same, summed up for the operator
	unknown    []event.Warning   // unknown members of these events

	other int           // the status, where it is not that of the code
	wait  time.Duration // Retry-After, longer than the second of every answer that says to retry
	allow string        // Allow
}

// Error is the message, for logs: it never holds anything a sender sent.
func (r *rejection) Error() string { return string(r.code) + ": " + r.message }

// reject makes the rejection of a whole request.
func reject(code event.Code, message string) *rejection {
	return &rejection{code: code, message: message}
}

// advise is reject with a hint of its own.
func advise(code event.Code, message, hint string) *rejection {
	return &rejection{code: code, message: message, hint: hint}
}

// after is the rejection with a wait.
func (r *rejection) after(wait time.Duration) *rejection {
	r.wait = wait
	return r
}

// all is every problem that was found.
func (r *rejection) all() []event.Error {
	if len(r.problems) > 0 {
		return r.problems
	}
	return []event.Error{{Code: r.code, Field: r.field, Message: r.message, Hint: r.hint}}
}

func (r *rejection) status() int { return cmp.Or(r.other, statusOf(r.code)) }

// statusByCode is the one place where a code becomes a status; those that are not here are 400.
var statusByCode = map[event.Code]int{
	event.MissingAPIKey:         http.StatusForbidden,
	event.InvalidAPIKey:         http.StatusForbidden,
	event.DatasetForbidden:      http.StatusForbidden,
	event.ServerSideOnly:        http.StatusForbidden,
	event.NotFound:              http.StatusNotFound,
	event.MethodNotAllowed:      http.StatusMethodNotAllowed,
	event.IdempotencyInProgress: http.StatusConflict,
	event.PayloadTooLarge:       http.StatusRequestEntityTooLarge,
	event.UnsupportedMediaType:  http.StatusUnsupportedMediaType,
	event.IdempotencyKeyReused:  http.StatusUnprocessableEntity,
	event.RateLimited:           http.StatusTooManyRequests,
	event.InternalError:         http.StatusInternalServerError,
	event.Unavailable:           http.StatusServiceUnavailable,
}

func statusOf(code event.Code) int { return cmp.Or(statusByCode[code], http.StatusBadRequest) }

// retryable says whether the same request may succeed later without being changed.
func retryable(status int) bool {
	return status == http.StatusTooManyRequests || status >= 500
}

// append adds the error object. Its first three members are the specification's, so that a sender who reads
// nothing else is served well.
func (r *rejection) append(b []byte, requestID string) []byte {
	b = append(b, `{"status":"error","error_code":"`...)
	b = append(b, r.code...)
	b = append(b, `","message":`...)
	b = event.AppendString(b, r.message)
	b = append(b, `,"request_id":`...)
	b = event.AppendString(b, requestID)
	if r.counted {
		b = appendCounts(b, r.rejections)
	}
	b = appendErrors(b, r.all(), r.truncated, r.indexed, true)
	if len(r.unknown) > 0 {
		b = appendWarnings(b, r.unknown, false, r.indexed)
	}
	if retryable(r.status()) {
		b = append(b, `,"retryable":true`...)
	}
	b = append(b, `,"doc_url":"/docs#`...) // relative to the address that the sender used
	b = append(b, r.code...)
	return append(b, `"}`...)
}

// appendCounts adds how many events have which code as their first problem, the most frequent first: of a large batch
// the list of errors is cut off.
func appendCounts(b []byte, rejections []event.Rejection) []byte {
	var codes []event.Code
	events := map[event.Code]int{}
	for i := range rejections {
		r := &rejections[i]
		if r.Events > 0 && events[r.Code] == 0 {
			codes = append(codes, r.Code)
		}
		events[r.Code] += int(r.Events)
	}
	slices.SortStableFunc(codes, func(x, y event.Code) int { return events[y] - events[x] })
	b = append(b, `,"events_by_code":{`...)
	for i, code := range codes {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '"')
		b = append(b, code...)
		b = appendCount(b, `":`, events[code])
	}
	return append(b, '}')
}

// appendCount adds a number and what stands before it.
func appendCount(b []byte, name string, n int) []byte {
	return strconv.AppendInt(append(b, name...), int64(n), 10)
}

// appendErrors adds the errors. seen adds what the events have instead to the hints: not in a receipt, which may be
// kept.
func appendErrors(b []byte, errs []event.Error, truncated, indexed, seen bool) []byte {
	b = append(b, `,"errors":[`...)
	for i := range errs {
		e := &errs[i]
		b = appendProblem(b, i, indexed, e.Index, `"error_code":"`, e.Code, e.Field, e.Message)
		b = append(b, `,"hint":`...)
		hint := hintOf(e)
		if seen && e.Seen != "" {
			hint = e.Seen + " " + hint
		}
		b = event.AppendString(b, hint)
		b = append(b, '}')
	}
	if truncated {
		return append(b, `],"errors_truncated":true`...)
	}
	return append(b, ']')
}

func hintOf(e *event.Error) string {
	if e.Hint != "" {
		return e.Hint
	}
	return codeInfo(e.Code).Remedy
}

func appendWarnings(b []byte, warnings []event.Warning, truncated, indexed bool) []byte {
	b = append(b, `,"warnings":[`...)
	for i := range warnings {
		w := &warnings[i]
		b = appendProblem(b, i, indexed, w.Index, `"code":"`, w.Code, w.Field, w.Message)
		b = append(b, '}')
	}
	if truncated {
		return append(b, `],"warnings_truncated":true`...)
	}
	return append(b, ']')
}

// appendProblem adds what errors and warnings have in common, without the closing brace. name is that of the code.
func appendProblem(b []byte, i int, indexed bool, index int, name string, code event.Code, field,
	message string,
) []byte {
	if i > 0 {
		b = append(b, ',')
	}
	b = append(b, '{')
	if indexed {
		b = appendCount(b, `"index":`, index)
		b = append(b, ',')
	}
	b = append(b, name...)
	b = append(b, code...)
	b = append(b, `","field":`...)
	b = event.AppendString(b, field)
	b = append(b, `,"message":`...)
	return event.AppendString(b, message)
}

// resting says that the dataset's next large request comes too early.
func resting(wait time.Duration) *rejection {
	return advise(event.RateLimited, "The limit large_requests of this dataset is reached: requests of "+
		strconv.Itoa(limit.HugeSize)+" bytes and more delay the requests of others at the moment.",
		"Wait for Retry-After, then send the same again; put fewer events into each request.").after(wait)
}
