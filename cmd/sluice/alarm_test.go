package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// posted is what a receiver of the webhook gets.
type posted struct {
	ID, Alarm, Dataset, State string
	Since                     time.Time
	Until                     *time.Time
}

// receiver is a receiver of the webhook.
type receiver struct {
	*httptest.Server
	mu  sync.Mutex
	all []posted
}

func newReceiver(t *testing.T) *receiver {
	r := new(receiver)
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		var p posted
		if err := json.NewDecoder(q.Body).Decode(&p); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.all = append(r.all, p)
	}))
	t.Cleanup(r.Close)
	return r
}

// wait waits for an alarm to be told in a state, and returns it.
func (r *receiver) wait(t *testing.T, alarm, state string) posted {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		r.mu.Lock()
		for _, p := range r.all {
			if p.Alarm == alarm && p.State == state {
				r.mu.Unlock()
				return p
			}
		}
		r.mu.Unlock()
	}
	t.Fatalf("%s was not told to be %s", alarm, state)
	return posted{}
}

// An alarm that lasts when a backup is made lasts in the restored service since the same moment, and ends there.
func TestAlarmOverARestore(t *testing.T) {
	t.Parallel()
	const failing = "SluiceRequestsFailing"
	before, after := newReceiver(t), newReceiver(t)
	dir, moved := t.TempDir(), filepath.Join(t.TempDir(), "moved")
	key, _ := provisioned(t, dir, "shop")
	s := start(t, dir, "--alarm-webhook", before.URL)
	for range 10 {
		if a, err := s.post(key, "/v1/events", `{"data_set_id":"shop",}`); err != nil || a.status != http.StatusBadRequest {
			t.Fatalf("got %d, %v", a.status, err)
		}
	}
	begun := before.wait(t, failing, "firing")
	backup := filepath.Join(t.TempDir(), "backup")
	sluice(t, "backup", backup, "--data", dir)
	s.stop(syscall.SIGTERM)

	sluice(t, "restore", backup, "--data", moved)
	s = start(t, moved, "--alarm-webhook", after.URL)
	if _, text := s.page("/metrics"); !strings.Contains(text, `sluice_alarm{alarm="`+failing+`",dataset="shop"} 1`) {
		t.Error("the first look at the metrics after the restore has no alarm")
	}
	if a, err := s.post(key, "/v1/events", marked("shop", "m")); err != nil || a.status != http.StatusOK {
		t.Fatalf("got %d %s, %v", a.status, a.body, err)
	}
	ended := after.wait(t, failing, "resolved")
	if !ended.Since.Equal(begun.Since) || ended.Until == nil || ended.Until.Before(ended.Since) || ended.Dataset != "shop" {
		t.Errorf("got %+v, want an end of what began as %+v", ended, begun)
	}
	after.mu.Lock()
	defer after.mu.Unlock()
	for _, p := range after.all {
		if p.State == "firing" && p.Alarm == failing && p.ID != begun.ID {
			t.Errorf("the alarm began again: %+v", p)
		}
	}
}
