//go:build faults

package cluster

import (
	"fmt"
	"testing"
	"time"

	"sluice/internal/servicetest"
	"sluice/interop/loopdisk"
)

// cutPower takes the power from some servers at once: each stops, its disk loses what was not synced, and it starts again. A
// server is paused first: what a disk says while it is cut off nobody hears on a real machine.
func cutPower(t *testing.T, w *world, disks []*loopdisk.Disk, which ...int) {
	t.Helper()
	for _, i := range which {
		w.servers[i].Pause()
	}
	for _, i := range which {
		disks[i].Cut()
	}
	for _, i := range which {
		w.servers[i].Kill()
		if err := disks[i].Unmount(); err != nil {
			t.Fatal(err)
		}
		disks[i].Mount()
	}
	for _, i := range which {
		w.servers[i].Restart()
	}
}

// newDisks makes a disk for each server.
func newDisks(t *testing.T) (disks []*loopdisk.Disk, dirs []string) {
	t.Helper()
	for range servers {
		d := loopdisk.New(t, 1024)
		disks, dirs = append(disks, d), append(dirs, d.Dir)
	}
	return disks, dirs
}

// The power of one server's disk, and of all three, is cut under load: nothing acknowledged is lost or doubled, and every
// receipt comes back.
func TestPowerCut(t *testing.T) {
	disks, dirs := newDisks(t)
	newWorld(t, dirs...).endure(t, []fault{
		{"power cut of the disk of a leader", false, func(t *testing.T, w *world, _ *ledger) { cutPower(t, w, disks, w.leader(0)) }},
		{"power cut of all three disks", false, func(t *testing.T, w *world, _ *ledger) { cutPower(t, w, disks, 0, 1, 2) }},
	})
}

// The control: servers with the default sync interval must lose messages when the power of all three is cut. If they did not,
// TestPowerCut would prove nothing.
func TestPowerCutControl(t *testing.T) {
	disks, dirs := newDisks(t)
	w := prepare(t, plan{login: byToken, unsynced: true, dirs: dirs})
	w.startNodes()
	l, stop := w.load(6)
	servicetest.Eventually(t, 60*time.Second, "acknowledged events", func() error {
		if l.count() < 500 {
			return fmt.Errorf("got %d", l.count())
		}
		return nil
	})
	stop()
	w.stopNodes() // else they would fill what is lost
	before := w.messages(t)
	cutPower(t, w, disks, 0, 1, 2)
	err := servicetest.Await(30*time.Second, "the partitions", func() error {
		leaders, err := w.leaders()
		for p := range partitions {
			if leaders[fmt.Sprint("SLUICE_", p)] == "" {
				err = fmt.Errorf("partition %d has no leader", p)
			}
		}
		return err
	})
	if err != nil {
		t.Logf("the partitions themselves are gone: %v", err)
	}
	after := w.messages(t)
	t.Logf("%d messages before the cut, %d after it; %d events were acknowledged", before, after, l.count())
	if after >= before {
		t.Errorf("got %d of %d messages after a power cut without syncs, want fewer: the power cut cuts nothing", after, before)
	}
}

// messages counts what the partitions hold.
func (w *world) messages(t *testing.T) (n uint64) {
	t.Helper()
	streams, err := w.streams()
	if err != nil {
		t.Fatal(err)
	}
	for p := range partitions {
		for _, s := range streams {
			if s.Name == fmt.Sprint("SLUICE_", p) {
				n += s.State.Last
			}
		}
	}
	return n
}
