package api

import (
	"container/list"
	"slices"
	"strings"
	"sync"
	"time"

	"sluice/event"
	"sluice/internal/submission"
)

// The journal is in memory: after a restart it is empty. All bounds are arbitrary; together they keep it under 20 MB.
const (
	journalAge     = 24 * time.Hour
	journalMost    = 16384 // requests
	journalShare   = 2048  // of one dataset, and of all that came without a valid key
	journalReasons = 8     // listed for one request
	saidMost       = 4096  // places, each a code at a field of a dataset
	saidPlace      = 4     // messages of a place: those that were given last
)

// RejectedRequest is what is known of a request that was rejected, whole or in part. It holds no value from an event, and no
// member name that is not in the table of fields.
type RejectedRequest struct {
	RequestID    string
	At           time.Time
	Method, Path string
	Status       int
	DatasetID    string // "" when it came without a valid key
	KeyID        string
	Code         event.Code // of the answer; "" when only a part was rejected
	SubmissionID string     // of the part that was accepted
	Accepted     int        // events
	Rejected     int
	Reasons      []RejectedReason // different ones, in the order of the answer
	More         bool             // there are more reasons than listed
}

// RejectedReason is why events were rejected, as the answer said it.
type RejectedReason struct {
	Code          event.Code
	Field         string // a member of event.Fields, or "" for anything else
	Message, Hint string
}

// Said is a message that senders of a dataset got for one code at one field.
type Said struct {
	Message, Hint string
	Requests      int64 // answers with it since First
	First, Last   time.Time
}

// journal remembers rejected requests for a day. The zero value is empty. Only requests that are rejected pay for it.
type journal struct {
	mu    sync.Mutex
	order list.List                // of *RejectedRequest, oldest first
	byID  map[string]*list.Element // the last one with this request id
	byOwn map[string][]*list.Element
	said  map[saidKey]*saidAt
}

type saidKey struct {
	dataset string
	code    event.Code
	field   string
}

type saidAt struct {
	all  []Said // that of the latest answer last
	last time.Time
}

// add remembers a request and, if it was one with events, what its answer said.
func (j *journal) add(r *RejectedRequest, events bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.byID == nil {
		j.byID, j.byOwn, j.said = map[string]*list.Element{}, map[string][]*list.Element{}, map[saidKey]*saidAt{}
	}
	for e := j.order.Front(); e != nil && (j.order.Len() >= journalMost || r.At.Sub(e.Value.(*RejectedRequest).At) > journalAge); e = j.order.Front() {
		j.drop(e)
	}
	if own := j.byOwn[r.DatasetID]; len(own) >= journalShare {
		j.drop(own[0])
	}
	e := j.order.PushBack(r)
	j.byID[r.RequestID] = e
	j.byOwn[r.DatasetID] = append(j.byOwn[r.DatasetID], e)
	if r.DatasetID == "" || !events {
		return
	}
	for i := range r.Reasons {
		j.say(r.DatasetID, &r.Reasons[i], r.At)
	}
}

// drop forgets a request, which is the oldest of its owner.
func (j *journal) drop(e *list.Element) {
	r := j.order.Remove(e).(*RejectedRequest)
	if j.byID[r.RequestID] == e {
		delete(j.byID, r.RequestID)
	}
	if own := j.byOwn[r.DatasetID][1:]; len(own) > 0 {
		j.byOwn[r.DatasetID] = own
	} else {
		delete(j.byOwn, r.DatasetID)
	}
}

// say counts a message. At a place that has as many as are kept, it takes the place of the one that was given longest ago.
func (j *journal) say(dataset string, r *RejectedReason, now time.Time) {
	key := saidKey{dataset, r.Code, r.Field}
	at := j.said[key]
	if at == nil {
		if len(j.said) >= saidMost && !j.forget(now) {
			return
		}
		at = &saidAt{}
		j.said[key] = at
	}
	said := Said{Message: r.Message, Hint: r.Hint, First: now}
	if i := slices.IndexFunc(at.all, func(s Said) bool { return s.Message == r.Message && s.Hint == r.Hint }); i >= 0 {
		said = at.all[i]
		at.all = slices.Delete(at.all, i, i+1)
	} else if len(at.all) >= saidPlace {
		at.all = slices.Delete(at.all, 0, 1)
	}
	said.Requests++
	said.Last = now
	at.all, at.last = append(at.all, said), now
}

// forget drops the places without an answer for a day, and says whether there were any.
func (j *journal) forget(now time.Time) bool {
	before := len(j.said)
	for k, at := range j.said {
		if now.Sub(at.last) > journalAge {
			delete(j.said, k)
		}
	}
	return len(j.said) < before
}

// Rejected returns what is known of the last rejected request with an id. It is known for a day, on the node that answered,
// until that node restarts; while very many requests are rejected, for less.
func (s *Server) Rejected(requestID string) (RejectedRequest, bool) {
	j := &s.journal
	j.mu.Lock()
	defer j.mu.Unlock()
	e := j.byID[requestID]
	if e == nil {
		return RejectedRequest{}, false
	}
	r := e.Value.(*RejectedRequest)
	return *r, s.Now().Sub(r.At) <= journalAge
}

// Said returns the messages that the senders of a dataset got on this node for a code at a field within a day, the latest
// first.
func (s *Server) Said(datasetID string, code event.Code, field string) []Said {
	j := &s.journal
	j.mu.Lock()
	defer j.mu.Unlock()
	at := j.said[saidKey{datasetID, code, field}]
	if at == nil {
		return nil
	}
	now := s.Now()
	out := slices.DeleteFunc(slices.Clone(at.all), func(m Said) bool { return now.Sub(m.Last) > journalAge })
	slices.Reverse(out)
	return out
}

// remember notes a request that was rejected.
func (q *request) remember(r *rejection) {
	problems := r.problems
	if len(problems) == 0 {
		problems = []event.Error{{Code: r.code, Field: r.field, Message: r.message, Hint: r.hint}}
	}
	q.note(&RejectedRequest{Status: statusOf(r.code), Code: r.code, Rejected: q.rejected, More: r.truncated}, problems)
}

// rememberPart notes a request of which a part was accepted, under the id that its receipt has.
func (q *request) rememberPart(res *event.Result) {
	q.note(&RejectedRequest{
		Status: q.status, SubmissionID: submission.FormatID(q.sub.Kind, q.sub.ID), Accepted: q.accepted, Rejected: q.rejected, More: res.ErrorsTruncated,
	}, res.Errors)
}

func (q *request) note(r *RejectedRequest, problems []event.Error) {
	r.RequestID, r.At, r.Method, r.Path, r.KeyID = strings.Clone(q.id), q.start, routes[q.route].method, routes[q.route].path, q.keyID
	if q.dataset != nil {
		r.DatasetID = q.dataset.ID
	}
	for i := range problems {
		p := &problems[i]
		reason := RejectedReason{p.Code, knownField(p.Field), p.Message, hintOf(p)}
		if slices.Contains(r.Reasons, reason) {
			continue
		}
		if len(r.Reasons) == journalReasons {
			r.More = true
			break
		}
		r.Reasons = append(r.Reasons, reason)
	}
	q.server.journal.add(r, q.route == routeEvents || q.route == routeBatch)
}

// knownField is the longest beginning of a pointer that the table of fields has: the rest may be a name that the sender made.
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
