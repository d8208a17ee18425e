package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// ledger is what senders know: which marks were acknowledged, and which were sent without an answer.
type ledger struct {
	mu       sync.Mutex
	acked    map[string]bool
	unknown  map[string]bool
	receipts map[string]answer // by Idempotency-Key, with the body it was sent with
	bodies   map[string]string
}

func newLedger() *ledger {
	return &ledger{acked: map[string]bool{}, unknown: map[string]bool{}, receipts: map[string]answer{}, bodies: map[string]string{}}
}

func (l *ledger) note(marks []string, a answer, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, mark := range marks {
		if err == nil && a.status == http.StatusOK {
			l.acked[mark] = true
		} else {
			l.unknown[mark] = true
		}
	}
}

// load sends singles, batches and keyed batches until stop, and writes the answers down.
func (l *ledger) load(s *server, key, id string, worker int, round int, stop *atomic.Bool) {
	for n := 0; !stop.Load(); n++ {
		mark := fmt.Sprintf("r%d-w%d-n%d", round, worker, n)
		switch worker % 3 {
		case 0:
			a, err := s.post(key, "/v1/events", marked(id, mark))
			l.note([]string{mark}, a, err)
		case 1:
			body, marks := markedBatch(id, mark, 50)
			a, err := s.post(key, "/v1/events/batch", body)
			l.note(marks, a, err)
		case 2:
			body, marks := markedBatch(id, mark, 20)
			a, err := s.post(key, "/v1/events/batch", body, "Idempotency-Key", mark)
			l.note(marks, a, err)
			l.mu.Lock()
			l.bodies[mark] = body
			if err == nil && a.status == http.StatusOK {
				l.receipts[mark] = a
			}
			l.mu.Unlock()
		}
	}
}

func markedBatch(id, mark string, n int) (string, []string) {
	events, marks := make([]string, n), make([]string, n)
	for i := range n {
		marks[i] = fmt.Sprintf("%s-%d", mark, i)
		events[i] = marked(id, marks[i])
	}
	return "[" + strings.Join(events, ",") + "]", marks
}

// Kill −9 under load, ten rounds: what was acknowledged is stored exactly once, what was not at most once; the
// server is ready again within ten seconds; a key sent again returns its first receipt, byte for byte.
func TestKilledUnderLoad(t *testing.T) {
	dir := t.TempDir()
	s := start(t, dir)
	key, _ := provisioned(t, dir, "shop")
	l := newLedger()
	for round := range 10 {
		var stop atomic.Bool
		var senders sync.WaitGroup
		for worker := range 6 {
			senders.Go(func() { l.load(s, key, "shop", worker, round, &stop) })
		}
		timer := time.NewTimer(time.Duration(100+rand.IntN(500)) * time.Millisecond)
		<-timer.C
		s.stop(syscall.SIGKILL)
		stop.Store(true)
		senders.Wait()
		s = start(t, dir)
		if s.Started > 10*time.Second {
			t.Errorf("round %d: ready after %v, want 10 s at most", round, s.Started)
		}
	}
	if len(l.acked) == 0 || len(l.receipts) == 0 {
		t.Fatal("nothing was acknowledged: the test shows nothing")
	}
	l.checkReplays(t, s, key)
	s.settle(t, key)
	l.unknown["settle"] = true
	l.check(t, stored(t, dir, "shop"))
	if code := s.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("stopped by SIGTERM: exit code %d", code)
	}
}

// checkReplays sends every key again: those with a receipt return it, the others are stored now, once.
func (l *ledger) checkReplays(t *testing.T, s *server, key string) {
	t.Helper()
	for mark, body := range l.bodies {
		a, err := s.post(key, "/v1/events/batch", body, "Idempotency-Key", mark)
		if err != nil || a.status != http.StatusOK {
			t.Fatalf("key %s sent again: %d %v %s", mark, a.status, err, a.body)
		}
		if first, ok := l.receipts[mark]; ok {
			if string(a.body) != string(first.body) || a.header.Get("Idempotency-Replayed") != "true" {
				t.Errorf("key %s sent again: got %s (replayed %q), want %s", mark, a.body, a.header.Get("Idempotency-Replayed"), first.body)
			}
		}
		for i := range 20 {
			delete(l.unknown, fmt.Sprintf("%s-%d", mark, i))
			l.acked[fmt.Sprintf("%s-%d", mark, i)] = true
		}
	}
}

func (l *ledger) check(t *testing.T, found map[string]int) {
	t.Helper()
	wrong := 0
	for mark := range l.acked {
		if found[mark] != 1 {
			if wrong++; wrong < 10 {
				t.Errorf("%s was acknowledged and is stored %d times", mark, found[mark])
			}
		}
	}
	for mark, n := range found {
		if n > 1 || !l.acked[mark] && !l.unknown[mark] {
			if wrong++; wrong < 10 {
				t.Errorf("%s is stored %d times (sent without an answer: %v)", mark, n, l.unknown[mark])
			}
		}
	}
	t.Logf("%d acknowledged, %d without an answer, %d stored, %d wrong", len(l.acked), len(l.unknown), len(found), wrong)
}

// settle sends one more event and waits until it is in the table: then everything before it is, too.
func (s *server) settle(t *testing.T, key string) {
	t.Helper()
	var receipt struct {
		ID string `json:"submission_id"`
	}
	a, err := s.post(key, "/v1/events", marked("shop", "settle"))
	if err != nil || a.status != http.StatusOK || json.Unmarshal(a.body, &receipt) != nil {
		t.Fatalf("settle: %d %v %s", a.status, err, a.body)
	}
	eventually(t, 30*time.Second, "processed", func() error {
		a, err := s.call(http.MethodGet, key, "/v1/submissions/"+receipt.ID, "")
		if err != nil || !strings.Contains(string(a.body), `"status":"PROCESSED"`) {
			return fmt.Errorf("%d %s %v", a.status, a.body, err)
		}
		return nil
	})
}

// SIGTERM under load: every request gets an answer or a refused connection, none hangs, and no 200 is lost.
func TestStoppedUnderLoad(t *testing.T) {
	dir := t.TempDir()
	s := start(t, dir)
	key, _ := provisioned(t, dir, "shop")
	l := newLedger()
	var stop atomic.Bool
	var senders sync.WaitGroup
	for worker := range 6 {
		senders.Go(func() { l.load(s, key, "shop", worker, 0, &stop) })
	}
	eventually(t, 10*time.Second, "load", func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if len(l.acked) < 500 {
			return fmt.Errorf("%d acknowledged", len(l.acked))
		}
		return nil
	})
	begin := time.Now()
	code := s.stop(syscall.SIGTERM)
	stop.Store(true)
	senders.Wait()
	if took := time.Since(begin); code != 0 || took > 20*time.Second {
		t.Errorf("exit code %d after %v", code, took)
	}
	again := start(t, dir)
	again.settle(t, key)
	l.unknown["settle"] = true
	l.check(t, stored(t, dir, "shop"))
}
