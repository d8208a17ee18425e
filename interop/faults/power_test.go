//go:build faults

package faults

import (
	"math/rand/v2"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// cutPower runs one life of a server on a disk: under load, the power of the disk is cut, then the process killed and
// the disk mounted again.
func cutPower(t *testing.T, d *disk, l *ledger, env ...string) {
	t.Helper()
	s := start(t, d.dir+"/data", launch{env: env})
	var stop atomic.Bool
	senders := l.load(s, 6, &stop)
	pause(time.Duration(150+rand.IntN(500)) * time.Millisecond)
	d.cut()
	s.stop(syscall.SIGKILL)
	stop.Store(true)
	senders.Wait()
	if err := d.unmount(); err != nil {
		t.Fatal(err)
	}
	d.mount()
}

// A power cut under load, again and again on the same disk: everything acknowledged is stored once, and the server
// starts by itself.
func TestPowerCut(t *testing.T) {
	d := newDisk(t, 2048)
	dir := d.dir + "/data"
	l := newLedger("shop", provisioned(t, dir, "shop"))
	n := rounds(t, 20, 3)
	for round := range n {
		cutPower(t, d, l)
		if round%5 == 4 || round == n-1 {
			s := start(t, dir, launch{})
			l.settle(t, s, 60*time.Second)
			l.check(t, dir)
			if round == n-1 {
				l.replay(t, s)
				l.settle(t, s, 60*time.Second)
				l.check(t, dir)
			}
			s.stop(syscall.SIGTERM)
		}
	}
	requests, events := l.acked()
	t.Logf("%d power cuts: %d requests, %d events acknowledged, answers %v", n, requests, events, l.statuses())
}

// The control: with the syncs taken away the same cut must lose acknowledged events. If it did not, TestPowerCut would
// prove nothing.
func TestPowerCutControl(t *testing.T) {
	d := newDisk(t, 1024)
	dir := d.dir + "/data"
	l := newLedger("shop", provisioned(t, dir, "shop"))
	s := start(t, dir, launch{}) // so that the tables are there, and synced
	l.settle(t, s, 30*time.Second)
	s.stop(syscall.SIGTERM)
	d.sync()
	cutPower(t, d, l, "SLUICE_FAILPOINT_UNSYNCED=1")
	s = start(t, dir, launch{})
	l.settle(t, s, 60*time.Second)
	o := l.hold(t, dir)
	t.Log(o)
	if o.lost == 0 {
		t.Errorf("nothing was lost without syncs (%d acknowledged): the power cut cuts nothing", o.acked)
	}
}
