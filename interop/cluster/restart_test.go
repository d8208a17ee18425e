package cluster

import (
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"sluice/internal/servicetest"
)

var restarts = []fault{
	{"rolling restart", true, func(_ *testing.T, w *world, _ *ledger) {
		for _, s := range w.servers {
			s.Stop(syscall.SIGTERM)
			s.Restart()
			w.whole()
		}
		w.roll()
	}},
	{"every server killed, one after the other", true, func(_ *testing.T, w *world, _ *ledger) {
		for i := range w.servers {
			w.restart(i)
			w.whole()
		}
	}},
	{"clock of a node steps", true, stepClock},
	{"clocks of the nodes differ by hours, and the bucket is away", true, differentClocks},
}

// roll restarts the nodes one by one, as an operator does.
func (w *world) roll() {
	for i := range w.nodes {
		w.node(i).Stop(syscall.SIGTERM)
		w.startNode(i)
	}
}

// stepClock sets the clock of one node by an hour, and by six, forward and back under load.
func stepClock(t *testing.T, w *world, l *ledger) {
	program, err := w.failpoint()
	if err != nil {
		t.Fatal(err)
	}
	env, set := newClock(t)
	node, _ := w.holder("committer") // its clock is that of the rows
	at := w.sites[node]
	restart := func() {
		w.node(node).Stop(syscall.SIGTERM)
		w.startNode(node)
	}
	at.program, at.env = program, []string{env}
	defer func() {
		at.program, at.env = w.program, nil
		restart()
	}()
	restart()
	const hour = 3600
	for _, offset := range []int{hour, -hour, 6 * hour, -6 * hour, 0} {
		set(offset)
		time.Sleep(2 * time.Second) // the fault itself; the node reads the file twice a second
		w.served(t, l, moveWithin)
		w.processed(t, l, node)
	}
}

// newClock is a clock that runs right until it is set. A node whose environment has env goes by it.
func newClock(t *testing.T) (env string, set func(seconds int)) {
	t.Helper()
	clock := filepath.Join(t.TempDir(), "clock")
	set = func(seconds int) {
		t.Helper()
		if err := os.WriteFile(clock+".new", []byte(strconv.Itoa(seconds)), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(clock+".new", clock); err != nil {
			t.Fatal(err)
		}
	}
	set(0)
	return "SLUICE_FAILPOINT_CLOCK=" + clock, set
}

// differentClocks sets the clocks of two nodes, six hours ahead and six hours back. Each node commits once. Then all of
// them lose the bucket for longer than the alarm waits, are restarted, and are without it for that long again.
func differentClocks(t *testing.T, w *world, l *ledger) {
	program, err := w.failpoint()
	if err != nil {
		t.Fatal(err)
	}
	clocks := make([]func(seconds int), nodes)
	for i, hours := range []int{6, 0, -6} {
		var env string
		env, clocks[i] = newClock(t)
		clocks[i](hours * 3600)
		w.sites[i].program, w.sites[i].env = program, []string{env}
	}
	defer func() {
		for _, at := range w.sites {
			at.program, at.env = w.program, nil
		}
		w.roll()
	}()
	w.roll()
	for range nodes {
		committer, _ := w.holder("committer")
		w.served(t, l, moveWithin)
		w.processed(t, l, committer)
		w.node(committer).Stop(syscall.SIGTERM)
		w.startNode(committer)
	}
	w.spoiler.Set(func(*http.Request) string { return "reset" })
	time.Sleep(45 * time.Second) // the fault itself
	w.roll()
	time.Sleep(45 * time.Second)
	w.spoiler.Set(nil)
	w.processed(t, l, 0)
}

// failpoint builds the program with a clock that can be set, once.
func (w *world) failpoint() (servicetest.Program, error) {
	dir := filepath.Join(w.dir, "failpoint")
	p := servicetest.Program{Path: filepath.Join(dir, "sluice"), Env: w.program.Env}
	if _, err := os.Stat(p.Path); err == nil {
		return p, nil
	}
	built, err := servicetest.Build("../..", dir, "-tags", "failpoint")
	built.Env = p.Env
	return built, err
}
