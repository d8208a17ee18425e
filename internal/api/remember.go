package api

import (
	"net/http"
	"slices"
	"strings"

	"sluice/event"
	"sluice/internal/journal"
	"sluice/internal/submission"
)

// journalReasons is how many reasons the journal lists for one request. Arbitrary.
const journalReasons = 8

// remember notes a request that was rejected.
func (q *request) remember(r *rejection) {
	q.note(&journal.Request{Status: r.status(), Code: r.code, Rejected: q.rejected, More: r.truncated}, r.all())
}

// rememberPart notes a request of which a part was accepted, under the id that its receipt has.
func (q *request) rememberPart(res *event.Result) {
	q.note(&journal.Request{
		Status: q.status, SubmissionID: submission.FormatID(q.sub.Kind, q.sub.ID), Accepted: q.accepted, Rejected: q.rejected,
		More: res.ErrorsTruncated,
	}, res.Errors)
}

// rememberAccepted notes one accepted request of the dataset in each second: a sample costs nothing, and shows what
// arrives.
func (q *request) rememberAccepted() {
	if now := q.sub.ReceivedAt; q.usage.sampled.Load() == now || q.usage.sampled.Swap(now) == now {
		return
	}
	q.server.Journal.AddAccepted(&journal.Request{
		RequestID: strings.Clone(q.id), At: q.start, Method: routes[q.route].method, Path: routes[q.route].path,
		Status:    http.StatusOK,
		DatasetID: q.dataset.ID, KeyID: q.keyID, SubmissionID: submission.FormatID(q.sub.Kind, q.sub.ID),
		Accepted: q.accepted,
	})
}

func (q *request) note(r *journal.Request, problems []event.Error) {
	r.RequestID, r.At, r.Method, r.Path, r.KeyID = strings.Clone(q.id), q.start, routes[q.route].method,
		routes[q.route].path, q.keyID
	if q.dataset != nil {
		r.DatasetID = q.dataset.ID
	}
	for i := range problems {
		p := &problems[i]
		reason := journal.Reason{Code: p.Code, Field: knownField(p.Field), Message: p.Message, Hint: hintOf(p)}
		if slices.Contains(r.Reasons, reason) {
			continue
		}
		if len(r.Reasons) == journalReasons {
			r.More = true
			break
		}
		r.Reasons = append(r.Reasons, reason)
	}
	q.server.Journal.Add(r, q.route == routeEvents || q.route == routeBatch)
}

// knownField is the longest beginning of a pointer that the table of fields has: the rest may be a name that the sender
// made.
func knownField(pointer string) string {
	for {
		if f, ok := event.LookupField(pointer); ok {
			return f.Pointer
		}
		i := strings.LastIndexByte(pointer, '/')
		if i < 0 {
			return ""
		}
		pointer = pointer[:i]
	}
}
