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
	entry := q.entry(r.status())
	entry.Code, entry.More = r.code, r.truncated
	q.explain(entry, r.all())
}

// rememberStored notes a request of which a part was accepted, under the id that its receipt has, and in each second
// one that was accepted whole: a sample costs nothing, and shows what arrives.
func (q *request) rememberStored(res *event.Result) {
	now := q.sub.ReceivedAt
	if res.Rejected == 0 && (q.usage.sampled.Load() == now || q.usage.sampled.Swap(now) == now) {
		return
	}
	entry := q.entry(http.StatusOK)
	entry.SubmissionID, entry.More = submission.FormatID(q.sub.Kind, q.sub.ID), res.ErrorsTruncated
	if res.Rejected == 0 {
		q.server.Journal.AddAccepted(entry)
		return
	}
	q.explain(entry, res.Errors)
}

// entry is what is noted of every request.
func (q *request) entry(status int) *journal.Request {
	rt := &routes[q.route]
	r := &journal.Request{
		RequestID: strings.Clone(q.id), At: q.start, Method: rt.Method, Path: rt.Path, Status: status, KeyID: q.keyID,
		Accepted: q.accepted, Rejected: q.rejected,
	}
	if q.dataset != nil {
		r.DatasetID = q.dataset.ID
	}
	return r
}

// explain adds why events were rejected, and notes the request.
func (q *request) explain(r *journal.Request, problems []event.Error) {
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
