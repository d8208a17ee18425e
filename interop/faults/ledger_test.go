//go:build faults

package faults

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// ledger is what the senders of one dataset know: every request, and the answer if there was one.
type ledger struct {
	id  string
	key string
	age time.Duration // of the events it sends

	mu      sync.Mutex
	n       int // requests, for marks that differ
	entries []*entry
}

// entry is one request.
type entry struct {
	path    string
	body    string   // kept when it may be sent again
	once    string   // Idempotency-Key
	marks   []string // of the events in it that are valid
	invalid int      // events in it that are not
	sent    time.Time
	took    time.Duration
	status  int // 0 without an answer
	receipt string
	id      string // submission_id
}

func newLedger(id, key string) *ledger { return &ledger{id: id, key: key} }

// kinds of request that a load mixes.
const (
	single = iota
	batch
	keyedBatch
	keyedSingle
	mixedBatch // with events that are rejected
	kinds
)

// event is valid and can be found again by its mark.
func (l *ledger) event(mark string, age time.Duration) string {
	return fmt.Sprintf(`{"data_set_id":%q,"timestamp":%d,"event_type":"purchase","value":9.5,"currency_code":"EUR",`+
		`"page_url":"https://shop.example/checkout/done","identifiers":{"email_sha256":"%064x","partner_id":%q}}`,
		l.id, time.Now().Add(-age).Unix(), 1+len(mark), mark)
}

// request makes the next request of a kind.
func (l *ledger) request(kind int) *entry {
	l.mu.Lock()
	l.n++
	name := fmt.Sprintf("%s-%d", l.id, l.n)
	l.mu.Unlock()
	e := &entry{path: "/v1/events/batch"}
	count := map[int]int{single: 1, batch: 50, keyedBatch: 20, keyedSingle: 1, mixedBatch: 10}[kind]
	events := make([]string, 0, count+1)
	for i := range count {
		mark := fmt.Sprintf("%s-%d", name, i)
		e.marks = append(e.marks, mark)
		events = append(events, l.event(mark, l.age))
	}
	switch kind {
	case keyedBatch, keyedSingle:
		e.once = name
	case mixedBatch:
		e.invalid = 1
		events = append(events, fmt.Sprintf(`{"data_set_id":%q,"timestamp":%d,"event_type":"purchase","identifiers":{}}`, l.id, time.Now().Add(-l.age).Unix()))
	}
	e.body = "[" + strings.Join(events, ",") + "]"
	if kind == single || kind == keyedSingle {
		e.path, e.body = "/v1/events", events[0]
	}
	return e
}

// send makes the request and writes it down with its answer.
func (l *ledger) send(s *server, e *entry) *entry {
	var headers []string
	if e.once != "" {
		headers = []string{"Idempotency-Key", e.once}
	}
	e.sent = time.Now()
	a, err := s.post(l.key, e.path, e.body, headers...)
	e.took = time.Since(e.sent)
	if err == nil {
		e.status = a.Status
	}
	if e.status == http.StatusOK {
		e.receipt = string(a.Body)
		var receipt struct {
			ID string `json:"submission_id"`
		}
		_ = json.Unmarshal(a.Body, &receipt)
		e.id = receipt.ID
	}
	if e.once == "" {
		e.body = ""
	}
	l.mu.Lock()
	l.entries = append(l.entries, e)
	l.mu.Unlock()
	return e
}

// load lets senders send until stop is set.
func (l *ledger) load(s *server, senders int, stop *atomic.Bool) *sync.WaitGroup {
	var all sync.WaitGroup
	for w := range senders {
		all.Go(func() {
			for !stop.Load() {
				if e := l.send(s, l.request(w%kinds)); e.status != http.StatusOK {
					pause(5 * time.Millisecond) // a rejected sender does not hammer
				}
			}
		})
	}
	return &all
}

// forget makes answers that came after a moment unknown.
func (l *ledger) forget(since time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.entries {
		if e.sent.Add(e.took).After(since) {
			e.status, e.receipt, e.id = 0, "", ""
		}
	}
}

// acked counts the requests answered with 200.
func (l *ledger) acked() (requests, events int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.entries {
		if e.status == http.StatusOK {
			requests++
			events += len(e.marks)
		}
	}
	return requests, events
}

// statuses counts the answers by status; 0 stands for none.
func (l *ledger) statuses() map[int]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := map[int]int{}
	for _, e := range l.entries {
		out[e.status]++
	}
	return out
}

// replay sends again every request that had a key. One that was acknowledged must return its receipt, byte for byte;
// any other is stored now, if it was not stored before.
func (l *ledger) replay(t *testing.T, s *server) {
	t.Helper()
	again, same := 0, 0
	for _, e := range l.entries {
		if e.once == "" {
			continue
		}
		a, err := s.post(l.key, e.path, e.body, "Idempotency-Key", e.once)
		if err != nil || a.Status != http.StatusOK {
			t.Fatalf("key %s sent again: %d %v %s", e.once, a.Status, err, a.Body)
		}
		again++
		if e.status == http.StatusOK {
			same++
			if string(a.Body) != e.receipt || a.Header.Get("Idempotency-Replayed") != "true" {
				t.Errorf("key %s sent again: got %s (replayed %q), want %s", e.once, a.Body, a.Header.Get("Idempotency-Replayed"), e.receipt)
			}
		}
		e.status, e.receipt = http.StatusOK, string(a.Body)
	}
	t.Logf("%d keys sent again, %d of them had their receipt", again, same)
}

// settle sends one more event and waits until it is in the table: then everything before it is, too.
func (l *ledger) settle(t *testing.T, s *server, within time.Duration) {
	t.Helper()
	id := ""
	eventually(t, within, "an event accepted", func() error {
		e := l.send(s, l.request(single))
		if e.status != http.StatusOK {
			return fmt.Errorf("status %d", e.status)
		}
		id = e.id
		return nil
	})
	eventually(t, within, "processed", func() error {
		a, err := s.Call(http.MethodGet, l.key, "/v1/submissions/"+id, "")
		if err != nil || !strings.Contains(string(a.Body), `"status":"PROCESSED"`) {
			return fmt.Errorf("%d %s %v", a.Status, a.Body, err)
		}
		return nil
	})
}

// toll is what a ledger finds wrong with a table.
type toll struct {
	acked, unknown, stored int // events
	lost, doubled, foreign int // events
	requests               int // acknowledged, of which something is lost
}

func (o toll) String() string {
	return fmt.Sprintf("%d events acknowledged, %d without a 200, %d stored; %d lost, %d doubled, %d never sent or rejected",
		o.acked, o.unknown, o.stored, o.lost, o.doubled, o.foreign)
}

// hold holds the table against the ledger: what was acknowledged must be there once, what was not at most once, and
// nothing else.
func (l *ledger) hold(t *testing.T, dir string) toll {
	t.Helper()
	return l.compare(t, stored(t, dir, l.id))
}

// compare is hold for rows that were counted by their marks.
func (l *ledger) compare(t *testing.T, found map[string]int) toll {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	var o toll
	o.stored = len(found)
	known := map[string]bool{}
	for _, e := range l.entries {
		before := o.lost
		for _, mark := range e.marks {
			switch known[mark] = true; {
			case e.status == http.StatusOK:
				o.acked++
				if found[mark] == 0 {
					if o.lost++; o.lost <= 5 {
						t.Logf("%s: acknowledged after %v at %s by %s, not stored", mark, e.took, e.sent.Format("15:04:05.000"), e.id)
					}
				}
			default:
				o.unknown++
			}
		}
		if o.lost > before {
			o.requests++
		}
	}
	for mark, n := range found {
		if n > 1 {
			if o.doubled++; o.doubled <= 5 {
				t.Logf("%s is stored %d times", mark, n)
			}
		}
		if !known[mark] {
			if o.foreign++; o.foreign <= 5 {
				t.Logf("%q is stored and was not sent", mark)
			}
		}
	}
	return o
}

// check is hold for a fault that may cost nothing.
func (l *ledger) check(t *testing.T, dir string) {
	t.Helper()
	l.judge(t, l.hold(t, dir), rejected(t, dir, l.id))
}

// judge is check for what hold found and how many rejected events are counted.
func (l *ledger) judge(t *testing.T, o toll, counted int) {
	t.Helper()
	t.Log(o)
	if o.acked == 0 {
		t.Error("nothing was acknowledged: the test shows nothing")
	}
	if o.lost+o.doubled+o.foreign > 0 {
		t.Errorf("%d acknowledged events are lost, %d are stored twice, %d should not be there", o.lost, o.doubled, o.foreign)
	}
	least, most := 0, 0
	for _, e := range l.entries {
		most += e.invalid
		if e.status == http.StatusOK {
			least += e.invalid
		}
	}
	if counted < least || counted > most {
		t.Errorf("%d rejected events are counted, want %d to %d", counted, least, most)
	}
}
