package api

import (
	"cmp"
	"container/heap"
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
	journalFound   = 16    // given out for one request id
	journalReasons = 8     // listed for one request
	saidMost       = 4096  // places, each a code at a field of a dataset
	saidPlace      = 4     // messages of a place: those that were given last
)

// RejectedRequest is what is known of a request that was rejected, whole or in part. It holds no value from an event,
// and no member name that is not in the table of fields.
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

// journal remembers rejected requests for a day. Senders choose request ids, so each dataset has its own: nobody hides
// or pushes out the requests of another. The zero value is empty. Only requests that are rejected pay for it.
type journal struct {
	mu     sync.Mutex
	order  list.List                                 // of *RejectedRequest, oldest first
	byID   map[string]map[*ownRequests]*list.Element // for each dataset the last one with this request id
	owners map[string]*ownRequests
	most   byRequests // the same; the one with the most requests first
	said   map[saidKey]*saidAt
}

// ownRequests are those of one dataset, or of all that came without a valid key.
type ownRequests struct {
	dataset string
	all     []*list.Element // oldest first
	index   int             // in byRequests
}

// byRequests is a heap.
type byRequests []*ownRequests

func (h byRequests) Len() int           { return len(h) }
func (h byRequests) Less(i, j int) bool { return len(h[i].all) > len(h[j].all) }
func (h byRequests) Swap(i, j int)      { h[i], h[j] = h[j], h[i]; h[i].index, h[j].index = i, j }

// Push is for container/heap.
func (h *byRequests) Push(x any) {
	o := x.(*ownRequests)
	o.index = len(*h)
	*h = append(*h, o)
}

// Pop is for container/heap.
func (h *byRequests) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
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
		j.byID, j.owners, j.said = map[string]map[*ownRequests]*list.Element{}, map[string]*ownRequests{}, map[saidKey]*saidAt{}
	}
	for e := j.order.Front(); e != nil && r.At.Sub(e.Value.(*RejectedRequest).At) > journalAge; e = j.order.Front() {
		j.drop(e)
	}
	if own := j.owners[r.DatasetID]; own != nil && len(own.all) >= journalShare {
		j.drop(own.all[0])
	} else if j.order.Len() >= journalMost {
		j.drop(j.most[0].all[0])
	}
	j.keep(r)
	if r.DatasetID == "" || !events {
		return
	}
	for i := range r.Reasons {
		j.say(r.DatasetID, &r.Reasons[i], r.At)
	}
}

func (j *journal) keep(r *RejectedRequest) {
	own := j.owners[r.DatasetID]
	if own == nil {
		own = &ownRequests{dataset: r.DatasetID}
		j.owners[r.DatasetID] = own
		heap.Push(&j.most, own)
	}
	e := j.order.PushBack(r)
	own.all = append(own.all, e)
	heap.Fix(&j.most, own.index)
	if j.byID[r.RequestID] == nil {
		j.byID[r.RequestID] = map[*ownRequests]*list.Element{}
	}
	j.byID[r.RequestID][own] = e
}

// drop forgets a request, which is the oldest of its dataset.
func (j *journal) drop(e *list.Element) {
	r := j.order.Remove(e).(*RejectedRequest)
	own := j.owners[r.DatasetID]
	if same := j.byID[r.RequestID]; same[own] == e {
		if delete(same, own); len(same) == 0 {
			delete(j.byID, r.RequestID)
		}
	}
	own.all[0] = nil // the array stays, and would hold the request
	if own.all = own.all[1:]; len(own.all) > 0 {
		heap.Fix(&j.most, own.index)
		return
	}
	heap.Remove(&j.most, own.index)
	delete(j.owners, r.DatasetID)
}

// say counts a message. At a place that has as many as are kept, it takes the place of the one that was given longest
// ago.
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

// Rejected returns what is known of the last rejected request with an id, for each dataset that sent one, the latest
// first: those with a valid key before the one without. It is known for a day, on the node that answered, until that
// node restarts; while very many requests of the dataset are rejected, for less.
func (s *Server) Rejected(requestID string) []RejectedRequest {
	j := &s.journal
	j.mu.Lock()
	defer j.mu.Unlock()
	var out []RejectedRequest
	for _, e := range j.byID[requestID] {
		if r := e.Value.(*RejectedRequest); s.Now().Sub(r.At) <= journalAge {
			out = append(out, *r)
		}
	}
	slices.SortFunc(out, func(a, b RejectedRequest) int {
		if a.DatasetID == "" || b.DatasetID == "" {
			return strings.Compare(b.DatasetID, a.DatasetID)
		}
		return cmp.Or(b.At.Compare(a.At), strings.Compare(a.DatasetID, b.DatasetID))
	})
	return out[:min(len(out), journalFound)]
}

// Said returns the messages that the senders of a dataset got on this node for a code at a field within a day, the
// latest first.
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
	q.note(&RejectedRequest{Status: r.status(), Code: r.code, Rejected: q.rejected, More: r.truncated}, problems)
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
