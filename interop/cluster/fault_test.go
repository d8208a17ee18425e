package cluster

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"sluice/internal/servicetest"
)

// fault is done to a cluster under load and ends with everything running again.
type fault struct {
	name string
	long bool // only in all rounds, not in the few that a commit needs
	do   func(w *world)
}

var faults = []fault{
	{"follower killed", false, func(w *world) { w.restart((w.leader(0) + 1) % 3) }},
	{"leader killed", false, func(w *world) { w.restart(w.leader(0)) }},
	{"node killed", false, func(w *world) {
		w.node(0).Stop(syscall.SIGKILL)
		w.startNode(0)
	}},
	{"loader killed", false, func(w *world) { // whichever nodes load: all but one
		w.node(1).Stop(syscall.SIGKILL)
		w.node(2).Stop(syscall.SIGKILL)
		w.startNode(1)
		w.startNode(2)
	}},
	{"leader paused", true, func(w *world) {
		s := w.servers[w.leader(0)]
		s.Pause()
		time.Sleep(15 * time.Second) // the fault itself
		s.Resume()
	}},
	{"two of three servers down", true, func(w *world) {
		w.servers[0].Kill()
		w.servers[1].Kill()
		time.Sleep(20 * time.Second) // the fault itself
		w.servers[0].Restart()
		w.servers[1].Restart()
	}},
	{"server replaced with an empty disk", false, func(w *world) { w.servers[w.leader(1)].Replace() }},
	{"rolling restart", true, func(w *world) {
		for i := range w.servers {
			w.restart(i)
			w.whole()
		}
		for i := range w.nodes {
			w.node(i).Stop(syscall.SIGTERM)
			w.startNode(i)
		}
	}},
}

// restart kills a server and runs it again.
func (w *world) restart(i int) {
	w.servers[i].Kill()
	w.servers[i].Restart()
}

// rounds is how often each fault is tried: ROUNDS, or once without the long ones.
func rounds(t *testing.T) (n int, all bool) {
	text := os.Getenv("ROUNDS")
	if text == "" {
		return 1, false
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("ROUNDS=%q is not a number of rounds", text)
	}
	return n, true
}

// Nothing acknowledged is lost or doubled, whichever process dies, and senders are served again by themselves.
func TestFaults(t *testing.T) {
	n, all := rounds(t)
	w := newWorld(t)
	ledger, stop := w.load(6)
	defer func() { stop() }()
	servicetest.Eventually(t, 60*time.Second, "the first acknowledged events", func() error {
		if ledger.count() < 100 {
			return fmt.Errorf("got %d", ledger.count())
		}
		return nil
	})
	if err := ledger.problem(); err != nil {
		t.Fatal(err)
	}
	for _, f := range faults {
		for round := range n {
			if f.long && !all {
				continue
			}
			begun := time.Now()
			f.do(w)
			healed := time.Now()
			before := ledger.count()
			servicetest.Eventually(t, 60*time.Second, f.name+": events after it", func() error {
				if got := ledger.count(); got < before+100 {
					return fmt.Errorf("got %d more", got-before)
				}
				return nil
			})
			served := time.Since(healed)
			w.whole()
			t.Logf("%s, round %d: the fault took %v, then 100 events took %v, and all replicas were in step after %v",
				f.name, round+1, healed.Sub(begun).Round(time.Millisecond), served.Round(time.Millisecond), time.Since(healed).Round(time.Millisecond))
		}
	}
	stop()
	w.replay(t)
	ledger.mu.Lock()
	ledger.sent["replayed"] = true
	ledger.mu.Unlock()
	w.check(t, ledger)
}
