// Package journal remembers in memory which requests were rejected, and why, and a sample of those that were accepted.
package journal

import (
	"cmp"
	"container/heap"
	"container/list"
	"slices"
	"strings"
	"sync"
	"time"

	"sluice/event"
)

// The journal is in memory: after a restart it is empty. All bounds are arbitrary; together they keep it under 20 MB.
const (
	maxAge    = 24 * time.Hour
	most      = 16384 // requests
	share     = 2048  // of one dataset, and of all that came without a valid key
	foundMost = 16    // given out for one request id
	saidMost  = 4096  // places, each a code at a field of a dataset
	saidPlace = 4     // messages of a place: those that were given last
	accepted  = 2048  // requests of the sample
)

// Request is what is known of a request. It holds no value from an event, and no member name that is not in the table
// of fields.
type Request struct {
	RequestID    string
	At           time.Time
	Method, Path string
	Status       int
	DatasetID    string // "" when it came without a valid key
	KeyID        string
	Code         event.Code // of the answer; "" when only a part was rejected
	SubmissionID string     // of what was accepted
	Accepted     int        // events
	Rejected     int
	Reasons      []Reason // different ones, in the order of the answer
	More         bool     // there are more reasons than listed
}

// Reason is why events were rejected, as the answer said it.
type Reason struct {
	Code          event.Code
	Field         string // a member of event.Fields, or "" for anything else
	Message, Hint string
}

// Said is a message that senders of a dataset got for one code at one field.
type Said struct {
	Message, Hint string
	Requests      int64 // answers with it
	Last          time.Time
}

// Journal remembers rejected requests for a day. Senders choose request ids, so each dataset has its own: nobody hides
// or pushes out the requests of another. The zero value is empty. Only requests that are rejected pay for it.
type Journal struct {
	mu     sync.Mutex
	order  list.List // of *Request, oldest first
	owners map[string]*ownRequests
	most   byRequests // the same; the one with the most requests first
	said   map[saidKey]*list.Element
	places list.List // of *saidAt, the one without an answer for the longest time first
	sample []Request // that were accepted: a ring
	next   int       // place in the ring
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
	key saidKey
	all []Said // that of the latest answer last
}

// Add remembers a request and, if it was one with events, what its answer said.
func (j *Journal) Add(r *Request, events bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.owners == nil {
		j.owners, j.said = map[string]*ownRequests{}, map[saidKey]*list.Element{}
	}
	for e := j.order.Front(); e != nil && r.At.Sub(e.Value.(*Request).At) > maxAge; e = j.order.Front() {
		j.drop(e)
	}
	if own := j.owners[r.DatasetID]; own != nil && len(own.all) >= share {
		j.drop(own.all[0])
	} else if j.order.Len() >= most {
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

func (j *Journal) keep(r *Request) {
	own := j.owners[r.DatasetID]
	if own == nil {
		own = &ownRequests{dataset: r.DatasetID}
		j.owners[r.DatasetID] = own
		heap.Push(&j.most, own)
	}
	own.all = append(own.all, j.order.PushBack(r))
	heap.Fix(&j.most, own.index)
}

// drop forgets a request, which is the oldest of its dataset.
func (j *Journal) drop(e *list.Element) {
	r := j.order.Remove(e).(*Request)
	own := j.owners[r.DatasetID]
	own.all[0] = nil // the array stays, and would hold the request
	if own.all = own.all[1:]; len(own.all) > 0 {
		heap.Fix(&j.most, own.index)
		return
	}
	heap.Remove(&j.most, own.index)
	delete(j.owners, r.DatasetID)
}

// say counts a message. At a place that has as many as are kept, it takes the place of the one that was given longest
// ago. Places are kept alike.
func (j *Journal) say(dataset string, r *Reason, now time.Time) {
	key := saidKey{dataset, r.Code, r.Field}
	e := j.said[key]
	if e == nil {
		e = j.places.PushBack(&saidAt{key: key})
		j.said[key] = e
	}
	j.places.MoveToBack(e)
	at := e.Value.(*saidAt)
	said := Said{Message: r.Message, Hint: r.Hint}
	if i := slices.IndexFunc(at.all, func(s Said) bool { return s.Message == r.Message && s.Hint == r.Hint }); i >= 0 {
		said = at.all[i]
		at.all = slices.Delete(at.all, i, i+1)
	} else if len(at.all) >= saidPlace {
		at.all = slices.Delete(at.all, 0, 1)
	}
	said.Requests++
	said.Last = now
	at.all = append(at.all, said)
	for {
		oldest := j.places.Front().Value.(*saidAt)
		if j.places.Len() <= saidMost && now.Sub(oldest.all[len(oldest.all)-1].Last) <= maxAge {
			return
		}
		j.places.Remove(j.said[oldest.key])
		delete(j.said, oldest.key)
	}
}

// Find returns what is known of the last rejected request with an id, for each dataset that sent one, the latest first:
// those with a valid key before the one without. It is known for a day, on the node that answered, until that node
// restarts; while very many requests of the dataset are rejected, for less.
func (j *Journal) Find(requestID string, now time.Time) []Request {
	j.mu.Lock()
	defer j.mu.Unlock()
	var out []Request
	seen := map[string]bool{}
	for e := j.order.Back(); e != nil; e = e.Prev() {
		if r := e.Value.(*Request); r.RequestID == requestID && !seen[r.DatasetID] && now.Sub(r.At) <= maxAge {
			seen[r.DatasetID] = true
			out = append(out, *r)
		}
	}
	slices.SortFunc(out, func(a, b Request) int {
		if a.DatasetID == "" || b.DatasetID == "" {
			return strings.Compare(b.DatasetID, a.DatasetID)
		}
		return cmp.Or(b.At.Compare(a.At), strings.Compare(a.DatasetID, b.DatasetID))
	})
	return out[:min(len(out), foundMost)]
}

// AddAccepted remembers a request that was accepted whole, until so many others were that it is the oldest of the
// sample.
func (j *Journal) AddAccepted(r *Request) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.sample) < accepted {
		j.sample = append(j.sample, *r)
		return
	}
	j.sample[j.next] = *r
	j.next = (j.next + 1) % accepted
}

// Recent returns the requests of the last day that match, the latest first, at most so many.
func (j *Journal) Recent(now time.Time, limit int, match func(*Request) bool) []Request {
	j.mu.Lock()
	defer j.mu.Unlock()
	var out []Request
	for e := j.order.Back(); e != nil && len(out) < limit; e = e.Prev() {
		if r := e.Value.(*Request); now.Sub(r.At) <= maxAge && match(r) {
			out = append(out, *r)
		}
	}
	for i := range j.sample {
		if r := &j.sample[i]; now.Sub(r.At) <= maxAge && match(r) {
			out = append(out, *r)
		}
	}
	slices.SortStableFunc(out, func(a, b Request) int { return b.At.Compare(a.At) })
	return out[:min(len(out), limit)]
}

// Said returns the messages that the senders of a dataset got on this node for a code at a field within a day, the
// latest first.
func (j *Journal) Said(datasetID string, code event.Code, field string, now time.Time) []Said {
	j.mu.Lock()
	defer j.mu.Unlock()
	e := j.said[saidKey{datasetID, code, field}]
	if e == nil {
		return nil
	}
	out := slices.DeleteFunc(slices.Clone(e.Value.(*saidAt).all), func(m Said) bool { return now.Sub(m.Last) > maxAge })
	slices.Reverse(out)
	return out
}
