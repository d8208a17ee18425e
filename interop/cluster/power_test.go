//go:build faults

package cluster

import (
	"testing"

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

// The power of one server's disk, and of all three, is cut under load: nothing acknowledged is lost or doubled, and every
// receipt comes back.
func TestPowerCut(t *testing.T) {
	var disks []*loopdisk.Disk
	var dirs []string
	for range servers {
		d := loopdisk.New(t, 1024)
		disks, dirs = append(disks, d), append(dirs, d.Dir)
	}
	newWorld(t, dirs...).endure(t, []fault{
		{"power cut of the disk of a leader", false, func(t *testing.T, w *world, _ *ledger) { cutPower(t, w, disks, w.leader(0)) }},
		{"power cut of all three disks", false, func(t *testing.T, w *world, _ *ledger) { cutPower(t, w, disks, 0, 1, 2) }},
	})
}
