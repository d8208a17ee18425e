package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// entry is an event as its sender knows it.
type entry struct {
	mark, body string
	keyed      bool
	during     string // the fault
	node       int    // to which it was sent first
	sent       time.Time
	acked      time.Time
	answer     string // body of the 200; "" while it may or may not be stored
	replayed   bool
}

// ledger is what senders know.
type ledger struct {
	gate    sync.RWMutex // who locks it stops all senders
	mu      sync.Mutex
	during  string
	entries []*entry
	acked   int
	odd     []string // answers that must not be

	last    time.Time // of a 200
	longest time.Duration
}

func (l *ledger) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.acked
}

// begin says which fault comes now, and begins to measure times without a 200.
func (l *ledger) begin(fault string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.during, l.last, l.longest = fault, time.Now(), 0
}

// gap is the longest time without a 200 since begin, and the longest that a keyed event of this time has taken.
func (l *ledger) gap(since time.Time) (any, keyed time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.entries {
		if e.keyed && e.answer != "" && e.acked.After(since) {
			keyed = max(keyed, e.acked.Sub(e.sent))
		}
	}
	return max(l.longest, time.Since(l.last)), keyed
}

// problem is the first answer that must not be, or nil.
func (l *ledger) problem() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.odd) == 0 {
		return nil
	}
	return fmt.Errorf("an answer that must not be: %s", l.odd[0])
}

func (l *ledger) wrong(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.odd = append(l.odd, l.during+": "+fmt.Sprintf(format, args...))
}

// add notes an event that is about to be sent.
func (l *ledger) add(mark string, node int, keyed bool) *entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := &entry{mark: mark, body: event(mark), keyed: keyed, during: l.during, node: node, sent: time.Now()}
	l.entries = append(l.entries, e)
	return e
}

// note notes a 200. Any later answer must be the same.
func (l *ledger) note(e *entry, body string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.longest, l.last = max(l.longest, now.Sub(l.last)), now
	if e.answer == "" {
		e.answer, e.acked = body, now
		l.acked++
	}
}

// event is twelve hours old: in the past by the clock of every node, also of one whose clock was set back by hours.
func event(mark string) string {
	return fmt.Sprintf(`{"data_set_id":"shop","event_type":"purchase","timestamp":%d,"identifiers":{"email_sha256":"%064x","partner_id":%q}}`,
		time.Now().Add(-12*time.Hour).Unix(), len(mark), mark)
}

// load sends until stop is called. Every second sender uses idempotency keys, and sends an event again through the other
// nodes until it is acknowledged; the others send each event once.
func (w *world) load(senders int) (l *ledger, stop func()) {
	l = &ledger{last: time.Now()}
	ctx, cancel := context.WithCancel(w.t.Context())
	var wg sync.WaitGroup
	for s := range senders {
		wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				w.send(ctx, l, l.add(fmt.Sprintf("m%d-%d", s, i), s/2+i, s%2 == 0))
				select {
				case <-ctx.Done():
				case <-time.After(10 * time.Millisecond):
				}
			}
		})
	}
	return l, func() { cancel(); wg.Wait() }
}

// send sends an event: once, or with a key until it is acknowledged.
func (w *world) send(ctx context.Context, l *ledger, e *entry) {
	for try := 0; ; try++ {
		if w.try(l, e, e.node+try) == http.StatusOK || !e.keyed {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// try sends an event to a node and notes the answer; 0 stands for none.
func (w *world) try(l *ledger, e *entry, node int) (status int) {
	var headers []string
	if e.keyed {
		headers = []string{"Idempotency-Key", e.mark}
	}
	l.gate.RLock()
	defer l.gate.RUnlock()
	a, err := w.node(node).Call("POST", w.key, "/v1/events", e.body, headers...)
	switch {
	case err != nil:
		return 0
	case a.Status == http.StatusOK:
		l.note(e, string(a.Body))
	case a.Status != http.StatusServiceUnavailable && a.Status != http.StatusConflict: // a key that another node is storing
		l.wrong("%s: %d %s", e.mark, a.Status, a.Body)
	}
	return a.Status
}

// replay looks every acknowledged event up through another node than the one that has it first, and sends every key again
// through that node: 200, the same body, never a 404. It does so for those that were not replayed before; of these for
// each so-manieth.
func (w *world) replay(t *testing.T, l *ledger, each int) (n int) {
	t.Helper()
	l.mu.Lock()
	var todo []*entry
	for i, e := range l.entries {
		if e.answer != "" && !e.replayed {
			if e.replayed = true; i%each == 0 {
				todo = append(todo, e)
			}
		}
	}
	l.mu.Unlock()
	work := make(chan *entry)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for e := range work {
				if err := w.replayOne(e); err != nil {
					l.wrong("%s sent to node %d %v ago: %v", e.mark, e.node%nodes, time.Since(e.acked), err)
				}
			}
		})
	}
	for _, e := range todo {
		work <- e
	}
	close(work)
	wg.Wait()
	return len(todo)
}

func (w *world) replayOne(e *entry) error {
	var receipt struct {
		ID string `json:"submission_id"`
	}
	if err := json.Unmarshal([]byte(e.answer), &receipt); err != nil {
		return err
	}
	if a, err := w.insist(e.node+1, "GET", "/v1/submissions/"+receipt.ID, ""); err != nil || a != http.StatusOK {
		return fmt.Errorf("look-up: got %d %v, want 200", a, err)
	}
	if !e.keyed {
		return nil
	}
	var again string
	a, err := w.insistBody(e.node+2, &again, "POST", "/v1/events", e.body, "Idempotency-Key", e.mark)
	if err != nil || a != http.StatusOK || again != e.answer {
		return fmt.Errorf("sent again: got %d %s %v, want %s", a, again, err, e.answer)
	}
	return nil
}

func (w *world) insist(node int, method, path, body string, headers ...string) (int, error) {
	return w.insistBody(node, new(string), method, path, body, headers...)
}

// insistBody asks again for up to 20 s while a node says that it cannot answer now.
func (w *world) insistBody(node int, answer *string, method, path, body string, headers ...string) (int, error) {
	for deadline := time.Now().Add(20 * time.Second); ; {
		a, err := w.node(node).Call(method, w.key, path, body, headers...)
		*answer = string(a.Body)
		if err == nil && a.Status != http.StatusServiceUnavailable && a.Status != http.StatusConflict || time.Now().After(deadline) {
			return a.Status, err
		}
		<-time.After(100 * time.Millisecond)
	}
}

// tally is the outcome of a fault.
type tally struct{ acked, lost, doubled int }

// check compares the tables with the ledger.
func (w *world) check(t *testing.T, l *ledger) map[string]*tally {
	t.Helper()
	stored := w.stored(t)
	l.mu.Lock()
	defer l.mu.Unlock()
	known := map[string]bool{}
	by := map[string]*tally{}
	for _, e := range l.entries {
		known[e.mark] = true
		o := by[e.during]
		if o == nil {
			o = &tally{}
			by[e.during] = o
		}
		if n := stored[e.mark]; n > 1 {
			o.doubled++
		} else if e.answer != "" && n == 0 {
			o.lost++
		}
		if e.answer != "" {
			o.acked++
		}
	}
	for mark := range stored {
		if !known[mark] {
			t.Errorf("%s is stored and was never sent", mark)
		}
	}
	for fault, o := range by {
		if o.lost > 0 || o.doubled > 0 {
			t.Errorf("%s: got %d of %d lost, %d doubled, want none", fault, o.lost, o.acked, o.doubled)
		}
	}
	t.Logf("%d sent, %d acknowledged, %d stored", len(l.entries), l.acked, len(stored))
	if len(l.odd) > 0 || l.acked == 0 {
		t.Errorf("got %d acknowledged, %d odd answers, want some and none: %q", l.acked, len(l.odd), l.odd[:min(5, len(l.odd))])
	}
	for i := range w.nodes {
		if said := w.node(i).Said(); strings.Contains(said, "has lost its newest frames") {
			t.Errorf("node %d reports frames as lost, and none is", i)
		}
	}
	return by
}
