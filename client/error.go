package client

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"sluice/event"
)

// Error is an answer of the service that is no success.
type Error struct {
	Status     int           // HTTP status
	Code       event.Code    // "" when the answer was not the service's, but a proxy's
	Message    string        //
	RequestID  string        // names the request to the operator
	Problems   []event.Error // every problem of every rejected event, at most 100
	Truncated  bool          // there were more than 100
	RetryAfter time.Duration // as the service asked; 0: it did not
}

// Error is the status, the code, the message and the first problems.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d", e.Status)
	if e.Code != "" {
		b.WriteString(" " + string(e.Code))
	}
	if e.Message != "" {
		b.WriteString(": " + e.Message)
	}
	if e.RequestID != "" {
		b.WriteString(" (request id " + e.RequestID + ")")
	}
	// repeats the message; it adds where the fault is and how to correct it
	if len(e.Problems) == 1 && e.Problems[0].Message == e.Message {
		if p := e.Problems[0]; p.Field != "" {
			b.WriteString(" At " + p.Field + ".")
		}
		if h := e.Problems[0].Hint; h != "" {
			b.WriteString(" " + h)
		}
		return b.String()
	}
	writeProblems(&b, e.Problems, e.Truncated)
	return b.String()
}

// JudgesEvents says whether the service rejected the events, each for what it is. A 400 without a code is not the
// service's, and one for the whole body says nothing about an event: the same events can be accepted later.
func (e *Error) JudgesEvents() bool {
	return e.Status == 400 && e.Code != "" && e.Code != event.MalformedJSON
}

// KeyRejected says whether the service rejected the key, or the key's use for this dataset.
func (e *Error) KeyRejected() bool { return e.Status == 403 || e.Status == 401 }

// GiveUpError says that no final answer came. The events may or may not be stored.
type GiveUpError struct {
	Key      string // the Idempotency-Key of every try: the same bytes with this key are stored at most once
	Attempts int    // tries made
	Reason   string // what ended them: the context, the deadline or the retry budget
	Err      error  // the last try's error
}

// Error says how often the request was tried, why not again, and how the last try ended.
func (e *GiveUpError) Error() string {
	return fmt.Sprintf("gave up after %s, %s: %v", plural(e.Attempts, "try", "tries"), e.Reason, e.Err)
}

// Unwrap is the last try's error.
func (e *GiveUpError) Unwrap() error { return e.Err }

// Unsent is a run of events that the service did not confirm.
type Unsent struct {
	From, To int // events [From, To) of the slice given to SendBatch
	Err      error
}

// BatchError says which events of a batch were not accepted.
type BatchError struct {
	Rejected  int           // events the service rejected
	Problems  []event.Error // why, by index in the slice given; at most 100 for each request
	Truncated bool          // some request had more than 100
	Unsent    []Unsent      // events without an answer
}

// Error lists the first problems by index, code, field and hint.
func (e *BatchError) Error() string {
	var parts []string
	if e.Rejected > 0 {
		parts = append(parts, plural(e.Rejected, "event", "events")+" rejected")
	}
	for _, u := range e.Unsent {
		parts = append(parts, fmt.Sprintf("events %d to %d not confirmed: %v", u.From, u.To-1, u.Err))
	}
	var b strings.Builder
	b.WriteString(strings.Join(parts, "; "))
	writeProblems(&b, e.Problems, e.Truncated)
	return b.String()
}

// Unwrap gives the errors of the requests that got no answer.
func (e *BatchError) Unwrap() []error {
	errs := make([]error, len(e.Unsent))
	for i, u := range e.Unsent {
		errs[i] = u.Err
	}
	return errs
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}

// shownProblems is how many problems an error's text lists; the rest are in its Problems. Arbitrary: a screenful.
const shownProblems = 5

func writeProblems(b *strings.Builder, ps []event.Error, truncated bool) {
	for i, p := range ps {
		if i == shownProblems {
			more := strconv.Itoa(len(ps) - i)
			if truncated {
				more = "over " + more
			}
			b.WriteString("\n  and " + more + " more problems")
			return
		}
		fmt.Fprintf(b, "\n  event %d: %s", p.Index, p.Code)
		if p.Field != "" {
			b.WriteString(" at " + p.Field)
		}
		b.WriteString(": " + p.Message)
		if p.Hint != "" {
			b.WriteString(" " + p.Hint)
		}
	}
}
