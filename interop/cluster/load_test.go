package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// ledger is what senders know: which marks were acknowledged, with which answer, and which may or may not be stored.
type ledger struct {
	mu    sync.Mutex
	acked map[string]string // mark → body of the 200
	sent  map[string]bool   // every mark that left a sender
	keyed map[string]bool   // marks with an idempotency key
	odd   []string          // answers that must not be
}

func (l *ledger) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.acked)
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

func (l *ledger) note(mark, body string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acked[mark] = body
}

func event(mark string) string {
	return fmt.Sprintf(`{"data_set_id":"shop","event_type":"purchase","timestamp":%d,"identifiers":{"email_sha256":"%064x","partner_id":%q}}`,
		time.Now().Unix(), len(mark), mark)
}

// load sends until stop is called. Every second sender uses idempotency keys, and sends an event again through the other
// nodes until it is acknowledged; the others send each event once.
func (w *world) load(senders int) (l *ledger, stop func()) {
	l = &ledger{acked: map[string]string{}, sent: map[string]bool{}, keyed: map[string]bool{}}
	ctx, cancel := context.WithCancel(w.t.Context())
	var wg sync.WaitGroup
	for s := range senders {
		wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				w.send(ctx, l, fmt.Sprintf("m%d-%d", s, i), s/2+i, s%2 == 0)
				select {
				case <-ctx.Done():
				case <-time.After(10 * time.Millisecond):
				}
			}
		})
	}
	return l, func() { cancel(); wg.Wait() }
}

func (w *world) send(ctx context.Context, l *ledger, mark string, node int, keyed bool) {
	l.mu.Lock()
	l.sent[mark], l.keyed[mark] = true, keyed
	l.mu.Unlock()
	var headers []string
	if keyed {
		headers = []string{"Idempotency-Key", mark}
	}
	body := event(mark)
	for try := 0; ; try++ {
		a, err := w.node(node+try).Call("POST", w.key, "/v1/events", body, headers...)
		switch {
		case err == nil && a.Status == 200:
			l.note(mark, string(a.Body))
			return
		case err == nil && a.Status != 503 && a.Status != 409 && a.Status != 403: // 403 while a new node reads the registry
			l.mu.Lock()
			l.odd = append(l.odd, fmt.Sprintf("%s: %d %s", mark, a.Status, a.Body))
			l.mu.Unlock()
		}
		if !keyed {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// check compares the tables with the ledger, and looks acknowledged submissions up through every node.
func (w *world) check(t *testing.T, l *ledger) {
	t.Helper()
	out, err := w.program.Run(t.Context(), append([]string{"export", "--data", filepath.Join(w.dir, "operator"), "--dataset", "shop"}, w.flags...)...)
	if err != nil {
		t.Fatal(err)
	}
	stored := map[string]int{}
	for line := range strings.Lines(out) {
		var row struct {
			PartnerID string `json:"partner_id"`
		}
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatal(err)
		}
		stored[row.PartnerID]++
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	lost, doubled := 0, 0
	for mark := range l.acked {
		if stored[mark] == 0 {
			lost++
		}
	}
	for mark, n := range stored {
		if n > 1 {
			doubled++
		}
		if !l.sent[mark] {
			t.Errorf("%s is stored and was never sent", mark)
		}
	}
	t.Logf("%d sent, %d acknowledged, %d stored", len(l.sent), len(l.acked), len(stored))
	if lost > 0 || doubled > 0 || len(l.odd) > 0 || len(l.acked) == 0 {
		t.Errorf("got %d of %d lost, %d doubled, odd answers %q; want none", lost, len(l.acked), doubled, l.odd[:min(5, len(l.odd))])
	}
	marks := slices.Sorted(maps.Keys(l.acked))
	for i := 0; i < len(marks); i += max(1, len(marks)/40) {
		w.checkOne(t, l, marks[i], i)
	}
	for i := range w.nodes {
		if said := w.node(i).Said(); strings.Contains(said, "has lost its newest frames") {
			t.Errorf("node %d reports frames as lost, and none is", i)
		}
	}
}

// checkOne looks one submission up, and replays it if it had a key, through a node that did not take it first.
func (w *world) checkOne(t *testing.T, l *ledger, mark string, i int) {
	t.Helper()
	var receipt struct {
		ID string `json:"submission_id"`
	}
	if err := json.Unmarshal([]byte(l.acked[mark]), &receipt); err != nil {
		t.Fatal(err)
	}
	if a, err := w.node(i).Call("GET", w.key, "/v1/submissions/"+receipt.ID, ""); err != nil || a.Status != 200 {
		t.Errorf("look-up of %s: got %d %v, want 200", mark, a.Status, err)
	}
}

// replay sends a keyed event again through every node: the answer must be the first one, byte for byte.
func (w *world) replay(t *testing.T) {
	t.Helper()
	body := event("replayed")
	var first string
	for i := range 2 * len(w.nodes) {
		a, err := w.node(i).Call("POST", w.key, "/v1/events", body, "Idempotency-Key", "replay-"+t.Name())
		if err != nil || a.Status != 200 {
			t.Errorf("node %d: got %d %v, want 200", i, a.Status, err)
			continue
		}
		if first == "" {
			first = string(a.Body)
		}
		if string(a.Body) != first {
			t.Errorf("node %d: got %s, want the first answer %s", i, a.Body, first)
		}
	}
}
