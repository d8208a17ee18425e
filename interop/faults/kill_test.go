//go:build faults

package faults

import (
	"math/rand/v2"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// Kill -9 at a random moment under mixed load: what was acknowledged is stored once, what was not at most once; the
// server is ready again within ten seconds; a key sent again returns its first receipt.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	s := start(t, dir, launch{})
	l := newLedger("shop", provisioned(t, dir, "shop"))
	n, slowest := rounds(t, 100, 5), time.Duration(0)
	for round := range n {
		var stop atomic.Bool
		senders := l.Load(s, 6, &stop)
		pause(time.Duration(50+rand.IntN(400)) * time.Millisecond)
		s.Stop(syscall.SIGKILL)
		stop.Store(true)
		senders.Wait()
		s = start(t, dir, launch{})
		slowest = max(slowest, s.Started)
		if round%25 == 24 {
			l.Settle(t, s, 30*time.Second)
			l.check(t, dir)
		}
	}
	if slowest > 10*time.Second {
		t.Errorf("ready after %v, want 10 s at most", slowest)
	}
	l.Replay(t, s)
	l.Settle(t, s, 30*time.Second)
	l.check(t, dir)
	t.Logf("%d kills, slowest start %v, answers %v", n, slowest, l.Statuses())
	if code := s.Stop(syscall.SIGTERM); code != 0 {
		t.Errorf("stopped by SIGTERM: exit code %d", code)
	}
}
