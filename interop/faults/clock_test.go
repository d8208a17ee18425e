//go:build faults

package faults

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/servicetest"
)

// The clock of the service is set an hour forward, an hour back, and to and fro, under load: nothing acknowledged is lost,
// ids stay unique, and whether an event is late or too old is decided by the received_at in its receipt.
func TestClockSteps(t *testing.T) {
	dir := t.TempDir()
	clock := filepath.Join(t.TempDir(), "clock")
	set := func(seconds int) {
		t.Helper()
		tmp := clock + ".new"
		if err := os.WriteFile(tmp, []byte(strconv.Itoa(seconds)), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(tmp, clock); err != nil {
			t.Fatal(err)
		}
		pause(600 * time.Millisecond) // the file is read twice a second
	}
	set(0)
	l := newLedger("shop", provisioned(t, dir, "shop"))
	s := start(t, dir, launch{env: []string{"SLUICE_FAILPOINT_CLOCK=" + clock}, args: []string{"--commit-every", "200ms"}})
	var stop atomic.Bool
	l.Age = 2 * time.Hour // in the past by every clock
	senders := l.Load(s, servicetest.Kinds, &stop)
	const hour = 3600
	for _, offset := range []int{hour, 0, -hour, hour, -hour, 0} {
		set(offset)
		l.ages(t, s, time.Duration(offset)*time.Second)
		if err := s.Ready(); err != nil {
			t.Errorf("clock %+d s: %v", offset, err)
		}
	}
	stop.Store(true)
	senders.Wait()
	bad := 0
	for _, e := range l.Entries() {
		if e.Status != http.StatusOK {
			bad++
			e.Invalid = len(e.Marks)
		}
	}
	if want := 6 * 2; bad != want { // the two of each round that are out of bounds
		t.Errorf("%d requests were not taken, want %d: %v", bad, want, l.Statuses())
	}
	l.Settle(t, s, 60*time.Second)
	l.check(t, dir)
	query(t, dir, "events", "select 'late', count(*) from t where late != (received_at - event_time >= interval 7 day)", func(_ string, n int64) {
		if n != 0 {
			t.Errorf("%d events are late by another clock than that of received_at", n)
		}
	})
	t.Logf("answers %v", l.Statuses())
}

// ages sends events around the edges of the age rules, as the service's clock has them.
func (l *ledger) ages(t *testing.T, s *server, offset time.Duration) {
	t.Helper()
	const day = 24 * time.Hour
	for _, c := range []struct {
		age    time.Duration
		status int
		late   bool
	}{
		{0, 200, false},
		{7*day - time.Minute, 200, false},
		{7*day + time.Minute, 200, true},
		{30*day - time.Minute, 200, true},
		{30*day + time.Minute, 400, false},
		{-4 * time.Minute, 200, false},
		{-6 * time.Minute, 400, false},
	} {
		e := l.Request(servicetest.Single)
		e.Body = l.Event(e.Marks[0], c.age-offset)
		l.Send(s, e)
		if e.Status != c.status {
			t.Errorf("clock %v: an event %v old: %d, want %d", offset, c.age, e.Status, c.status)
			continue
		}
		if e.Status != http.StatusOK {
			continue
		}
		var receipt struct {
			ReceivedAt time.Time `json:"received_at"`
		}
		if err := json.Unmarshal([]byte(e.Receipt), &receipt); err != nil {
			t.Fatal(err)
		}
		if off := time.Until(receipt.ReceivedAt) - offset; off.Abs() > 10*time.Second {
			t.Errorf("clock %v: received_at is %v off it", offset, off)
		}
		if late := strings.Contains(e.Receipt, `"LATE_EVENT"`); late != c.late {
			t.Errorf("clock %v: an event %v old: late %v, want %v", offset, c.age, late, c.late)
		}
		a, err := s.Call(http.MethodGet, l.Key, "/v1/submissions/"+e.ID, "")
		if err != nil || a.Status != http.StatusOK {
			t.Errorf("look-up of %s: %d %v", e.ID, a.Status, fmt.Sprint(err))
		}
	}
}
