package servicetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Ledger is what the senders of one dataset know: every request, and the answer if there was one.
type Ledger struct {
	ID  string        // of the dataset
	Key string        // that opens it
	Age time.Duration // of the events it sends

	mu      sync.Mutex
	n       int // requests, for marks that differ
	entries []*Entry
}

// Caller is a Server, or what a test has around one.
type Caller interface {
	Call(method, key, path, body string, headers ...string) (Answer, error)
}

// Entry is one request.
type Entry struct {
	Path           string
	Body           string // kept when it may be sent again
	IdempotencyKey string
	Marks          []string // of the events in it that are valid: the partner_id under which they are found again
	Invalid        int      // events in it that are not
	Sent           time.Time
	Took           time.Duration
	Status         int // 0 without an answer
	Receipt        string
	ID             string // submission_id
}

// Kinds of request that a load mixes.
const (
	Single = iota
	Batch
	KeyedBatch
	KeyedSingle
	MixedBatch // with events that are rejected
	Kinds      // how many there are
)

// Event is valid and can be found again by its mark.
func (l *Ledger) Event(mark string, age time.Duration) string {
	return fmt.Sprintf(`{"data_set_id":%q,"timestamp":%d,"event_type":"purchase","value":9.5,"currency_code":"EUR",`+
		`"page_url":"https://shop.example/checkout/done","identifiers":{"email_sha256":"%064x","partner_id":%q}}`,
		l.ID, time.Now().Add(-age).Unix(), 1+len(mark), mark)
}

// Request makes the next request of a kind.
func (l *Ledger) Request(kind int) *Entry {
	l.mu.Lock()
	l.n++
	name := fmt.Sprintf("%s-%d", l.ID, l.n)
	l.mu.Unlock()
	e := &Entry{Path: "/v1/events/batch"}
	count := map[int]int{Single: 1, Batch: 50, KeyedBatch: 20, KeyedSingle: 1, MixedBatch: 10}[kind]
	events := make([]string, 0, count+1)
	for i := range count {
		mark := fmt.Sprintf("%s-%d", name, i)
		e.Marks = append(e.Marks, mark)
		events = append(events, l.Event(mark, l.Age))
	}
	switch kind {
	case KeyedBatch, KeyedSingle:
		e.IdempotencyKey = name
	case MixedBatch:
		e.Invalid = 1
		events = append(events, fmt.Sprintf(`{"data_set_id":%q,"timestamp":%d,"event_type":"purchase","identifiers":{}}`,
			l.ID, time.Now().Add(-l.Age).Unix()))
	}
	e.Body = "[" + strings.Join(events, ",") + "]"
	if kind == Single || kind == KeyedSingle {
		e.Path, e.Body = "/v1/events", events[0]
	}
	return e
}

// Send makes the request and writes it down with its answer.
func (l *Ledger) Send(s Caller, e *Entry) *Entry {
	var headers []string
	if e.IdempotencyKey != "" {
		headers = []string{"Idempotency-Key", e.IdempotencyKey}
	}
	e.Sent = time.Now()
	a, err := s.Call(http.MethodPost, l.Key, e.Path, e.Body, headers...)
	e.Took = time.Since(e.Sent)
	if err == nil {
		e.Status = a.Status
	}
	if e.Status == http.StatusOK {
		e.Receipt = string(a.Body)
		var receipt struct {
			ID string `json:"submission_id"`
		}
		_ = json.Unmarshal(a.Body, &receipt)
		e.ID = receipt.ID
	}
	if e.IdempotencyKey == "" {
		e.Body = ""
	}
	l.mu.Lock()
	l.entries = append(l.entries, e)
	l.mu.Unlock()
	return e
}

// Load lets senders send until stop is set.
func (l *Ledger) Load(s Caller, senders int, stop *atomic.Bool) *sync.WaitGroup {
	var all sync.WaitGroup
	for w := range senders {
		all.Go(func() {
			for !stop.Load() {
				if e := l.Send(s, l.Request(w%Kinds)); e.Status != http.StatusOK {
					<-time.After(5 * time.Millisecond) // a rejected sender does not hammer
				}
			}
		})
	}
	return &all
}

// Forget makes answers that came after a moment unknown.
func (l *Ledger) Forget(since time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.entries {
		if e.Sent.Add(e.Took).After(since) {
			e.Status, e.Receipt, e.ID = 0, "", ""
		}
	}
}

// Acked counts the requests answered with 200.
func (l *Ledger) Acked() (requests, events int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.entries {
		if e.Status == http.StatusOK {
			requests++
			events += len(e.Marks)
		}
	}
	return requests, events
}

// Statuses counts the answers by status; 0 stands for none.
func (l *Ledger) Statuses() map[int]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := map[int]int{}
	for _, e := range l.entries {
		out[e.Status]++
	}
	return out
}

// Replay sends again every request that had a key. One that was acknowledged must return its receipt, byte for byte;
// any other is stored now, if it was not stored before.
func (l *Ledger) Replay(t *testing.T, s Caller) {
	t.Helper()
	again, same := 0, 0
	for _, e := range l.entries {
		if e.IdempotencyKey == "" {
			continue
		}
		var a Answer
		err := Await(10*time.Second, "an answer other than 503", func() (err error) { // which a sender repeats
			a, err = s.Call(http.MethodPost, l.Key, e.Path, e.Body, "Idempotency-Key", e.IdempotencyKey)
			if err == nil && a.Status == http.StatusServiceUnavailable {
				err = errors.New("got 503")
			}
			return err
		})
		if err != nil || a.Status != http.StatusOK {
			t.Fatalf("key %s sent again: %d %v %s", e.IdempotencyKey, a.Status, err, a.Body)
		}
		again++
		if e.Status == http.StatusOK {
			same++
			if string(a.Body) != e.Receipt || a.Header.Get("Idempotency-Replayed") != "true" {
				t.Errorf("key %s sent again: got %s (replayed %q), want %s", e.IdempotencyKey, a.Body,
					a.Header.Get("Idempotency-Replayed"), e.Receipt)
			}
		}
		e.Status, e.Receipt = http.StatusOK, string(a.Body)
	}
	t.Logf("%d keys sent again, %d of them had their receipt", again, same)
}

// ReplayMoved sends again every request that had a key, to a service that was moved into a cluster since. One that was
// acknowledged must be a conflict, and stores nothing; any other is one, or is stored now.
func (l *Ledger) ReplayMoved(t *testing.T, s Caller) {
	t.Helper()
	conflicts := 0
	for _, e := range l.entries {
		if e.IdempotencyKey == "" {
			continue
		}
		a, err := s.Call(http.MethodPost, l.Key, e.Path, e.Body, "Idempotency-Key", e.IdempotencyKey)
		switch {
		case err == nil && a.Status == http.StatusConflict &&
			strings.Contains(string(a.Body), "before the service was moved on 20"):
			conflicts++
		case err != nil || a.Status != http.StatusOK || e.Status == http.StatusOK:
			t.Fatalf("key %s sent again: got %d %v %s, first %d", e.IdempotencyKey, a.Status, err, a.Body, e.Status)
		default:
			e.Status, e.Receipt = http.StatusOK, string(a.Body)
		}
	}
	if conflicts == 0 {
		t.Error("no request with a key was acknowledged: the test shows nothing")
	}
}

// Settle sends one more event and waits until it is in the table: then everything before it is, too.
func (l *Ledger) Settle(t *testing.T, s Caller, within time.Duration) {
	t.Helper()
	id := ""
	Eventually(t, within, "an event accepted", func() error {
		e := l.Send(s, l.Request(Single))
		if e.Status != http.StatusOK {
			return fmt.Errorf("status %d", e.Status)
		}
		id = e.ID
		return nil
	})
	Eventually(t, within, "processed", func() error {
		a, err := s.Call(http.MethodGet, l.Key, "/v1/submissions/"+id, "")
		if err != nil || !strings.Contains(string(a.Body), `"status":"PROCESSED"`) {
			return fmt.Errorf("%d %s %v", a.Status, a.Body, err)
		}
		return nil
	})
}

// Entries are all requests so far.
func (l *Ledger) Entries() []*Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.entries)
}

// Toll is what a ledger finds wrong with a table.
type Toll struct {
	Acked, Unknown, Stored int // events
	Lost, Doubled, Foreign int // events
	Requests               int // acknowledged, of which something is lost
}

func (o Toll) String() string {
	return fmt.Sprintf("%d events acknowledged, %d without a 200, %d stored; %d lost, %d doubled, %d never sent or "+
		"rejected",
		o.Acked, o.Unknown, o.Stored, o.Lost, o.Doubled, o.Foreign)
}

// Compare holds the rows of a table, counted by mark, against the ledger: what was acknowledged must be there once,
// what was not at most once, and nothing else.
func (l *Ledger) Compare(t *testing.T, found map[string]int) Toll {
	t.Helper()
	o := Toll{Stored: len(found)}
	known := map[string]bool{}
	for _, e := range l.Entries() {
		before := o.Lost
		for _, mark := range e.Marks {
			switch known[mark] = true; {
			case e.Status != http.StatusOK:
				o.Unknown++
			case found[mark] == 0:
				o.Acked++
				if o.Lost++; o.Lost <= 5 {
					t.Logf("%s: acknowledged after %v at %s by %s, not stored", mark, e.Took, e.Sent.Format("15:04:05.000"), e.ID)
				}
			default:
				o.Acked++
			}
		}
		if o.Lost > before {
			o.Requests++
		}
	}
	for mark, n := range found {
		if n > 1 {
			if o.Doubled++; o.Doubled <= 5 {
				t.Logf("%s is stored %d times", mark, n)
			}
		}
		if !known[mark] {
			if o.Foreign++; o.Foreign <= 5 {
				t.Logf("%q is stored and was not sent", mark)
			}
		}
	}
	return o
}

// Check is Compare for a fault that may cost nothing.
func (l *Ledger) Check(t *testing.T, found map[string]int) {
	t.Helper()
	o := l.Compare(t, found)
	t.Log(o)
	if o.Acked == 0 {
		t.Error("nothing was acknowledged: the test shows nothing")
	}
	if o.Lost+o.Doubled+o.Foreign > 0 {
		t.Errorf("%d acknowledged events are lost, %d are stored twice, %d should not be there", o.Lost, o.Doubled, o.Foreign)
	}
}
