package main

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"sluice/internal/servicetest"
)

// Kill −9 under load, ten rounds: what was acknowledged is stored exactly once, what was not at most once; the
// server is ready again within ten seconds; a key sent again returns its first receipt, byte for byte.
func TestKilledUnderLoad(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir)
	key, _ := provisioned(t, dir, "shop")
	l := servicetest.Ledger{ID: "shop", Key: key}
	for round := range 10 {
		var stop atomic.Bool
		senders := l.Load(s, 6, &stop)
		<-time.After(time.Duration(100+rand.IntN(500)) * time.Millisecond)
		s.stop(syscall.SIGKILL)
		stop.Store(true)
		senders.Wait()
		s = start(t, dir)
		if s.Started > 10*time.Second {
			t.Errorf("round %d: ready after %v, want 10 s at most", round, s.Started)
		}
	}
	l.Replay(t, s)
	l.Settle(t, s, 30*time.Second)
	l.Check(t, stored(t, dir, "shop"))
	if code := s.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("stopped by SIGTERM: exit code %d", code)
	}
}

// SIGTERM under load: every request gets an answer or a refused connection, none hangs, and no 200 is lost.
func TestStoppedUnderLoad(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir)
	key, _ := provisioned(t, dir, "shop")
	l := servicetest.Ledger{ID: "shop", Key: key}
	var stop atomic.Bool
	senders := l.Load(s, 6, &stop)
	eventually(t, 10*time.Second, "load", func() error {
		if _, events := l.Acked(); events < 500 {
			return fmt.Errorf("%d acknowledged", events)
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
	l.Settle(t, again, 30*time.Second)
	l.Check(t, stored(t, dir, "shop"))
}
