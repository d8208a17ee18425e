package cluster

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"sluice/internal/servicetest"
)

// before is the commit of the version that is upgraded from: the first one after which nothing changed that nodes of two
// versions would have to agree on.
const before = "68fb61d384c887f6820ee3875527c28ef325f6c0"

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
	{"rolling upgrade from the version before", true, upgrade},
	{"clock of a node steps", true, stepClock},
}

// roll restarts the nodes one by one, as an operator does.
func (w *world) roll() {
	for i := range w.nodes {
		w.node(i).Stop(syscall.SIGTERM)
		w.startNode(i)
	}
}

// upgrade runs the cluster with the version before, and replaces its nodes one by one under load.
func upgrade(t *testing.T, w *world, l *ledger) {
	old, err := earlier(before)
	if err != nil {
		t.Fatal(err)
	}
	old.Env = w.program.Env
	for i, at := range w.sites {
		w.node(i).Stop(syscall.SIGTERM)
		at.program = old
	}
	for i := range w.nodes {
		w.startNode(i)
	}
	t.Logf("the version before served after %v", w.served(t, l, time.Minute).Round(time.Millisecond))
	w.processed(t, l, 0)
	for i, at := range w.sites {
		at.program = w.program
		w.node(i).Stop(syscall.SIGTERM)
		w.startNode(i)
		w.served(t, l, moveWithin) // both versions
		w.processed(t, l, i)
	}
}

var builds struct {
	sync.Mutex
	program map[string]servicetest.Program
}

// earlier builds the program of a commit, once. The history must be there: a shallow clone does not have it.
func earlier(commit string) (servicetest.Program, error) {
	builds.Lock()
	defer builds.Unlock()
	if p, found := builds.program[commit]; found {
		return p, nil
	}
	dir, err := os.MkdirTemp("", "sluice-earlier")
	if err != nil {
		return servicetest.Program{}, err
	}
	unpack := exec.Command("sh", "-c", `git archive "$0" | tar -x -C "$1"`, commit, dir)
	unpack.Dir = "../.."
	if out, err := unpack.CombinedOutput(); err != nil || len(out) > 0 {
		return servicetest.Program{}, fmt.Errorf("the files of commit %s: %w %s", commit, err, out)
	}
	p, err := servicetest.Build(dir, filepath.Join(dir, "bin"))
	if builds.program == nil {
		builds.program = map[string]servicetest.Program{}
	}
	builds.program[commit] = p
	return p, err
}

// removeEarlier removes what earlier has built.
func removeEarlier() {
	for _, p := range builds.program {
		_ = os.RemoveAll(filepath.Dir(filepath.Dir(p.Path)))
	}
}

// stepClock sets the clock of one node an hour forward and back under load.
func stepClock(t *testing.T, w *world, l *ledger) {
	program, err := w.failpoint()
	if err != nil {
		t.Fatal(err)
	}
	clock := filepath.Join(t.TempDir(), "clock")
	set := func(seconds int) {
		t.Helper()
		if err := os.WriteFile(clock+".new", []byte(strconv.Itoa(seconds)), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(clock+".new", clock); err != nil {
			t.Fatal(err)
		}
	}
	set(0)
	node, _ := w.holder("committer") // its clock is that of the rows
	at := w.sites[node]
	restart := func() {
		w.node(node).Stop(syscall.SIGTERM)
		w.startNode(node)
	}
	at.program, at.env = program, []string{"SLUICE_FAILPOINT_CLOCK=" + clock}
	defer func() {
		at.program, at.env = w.program, nil
		restart()
	}()
	restart()
	const hour = 3600
	for _, offset := range []int{hour, -hour, hour, 0} {
		set(offset)
		time.Sleep(2 * time.Second) // the fault itself; the node reads the file twice a second
		w.served(t, l, moveWithin)
		w.processed(t, l, node)
	}
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
