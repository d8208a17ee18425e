//go:build faults

package cluster

import (
	"fmt"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"sluice/internal/servicetest"
)

// Nodes of that version cannot run beside nodes of this one: they do not know the submission ids that these give. So an
// operator stops all of them, and starts the new ones; nothing is lost or doubled, and receipts come back.
func TestUpgradeFromFirst(t *testing.T) {
	n, _ := rounds(t)
	old, err := earlier(first)
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		t.Run("round", func(t *testing.T) { upgradeFrom(t, old) })
	}
}

func upgradeFrom(t *testing.T, old servicetest.Program) {
	w := newServers(t, nil)
	shared := filepath.Join(w.dir, "shared")
	for _, at := range w.sites {
		at.program, at.data, at.tables = old, shared, []string{}
	}
	flags := w.flags
	w.flags = flags[:2] // it knows no other tables than those in its data directory
	w.startNodes()
	l, stop := w.load(6)
	l.begin("version " + first[:7])
	servicetest.Eventually(t, 60*time.Second, "acknowledged events", func() error {
		if l.count() < 500 {
			return fmt.Errorf("got %d", l.count())
		}
		return nil
	})
	down := time.Now()
	for i := range w.nodes {
		w.node(i).Stop(syscall.SIGTERM)
	}
	l.begin("this version")
	tables := []string{"--lake", "file://" + filepath.Join(shared, "lake")}
	w.flags = append(slices.Clone(flags[:2]), tables...)
	for i, at := range w.sites {
		at.program, at.data, at.tables = w.program, "", tables
		if i == 0 {
			at.data = shared // its audit log and the password of its console move into the engine
		}
		w.startNode(i)
	}
	t.Logf("no node ran for %v", time.Since(down).Round(time.Millisecond))
	before := l.count()
	servicetest.Eventually(t, 60*time.Second, "events after it", func() error {
		if got := l.count(); got < before+500 {
			return fmt.Errorf("got %d more", got-before)
		}
		return nil
	})
	w.whole()
	w.processed(t, l, 1)
	stop()
	t.Logf("%d looked up and sent again", w.replay(t, l, 1))
	for version, o := range w.check(t, l) {
		t.Logf("%s: %d acknowledged, %d lost, %d doubled", version, o.acked, o.lost, o.doubled)
	}
}
