//go:build faults

package faults

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// cutPower runs one life of a server on a disk: under load, the power of the disk is cut, then the process killed and
// the disk mounted again.
func cutPower(t *testing.T, d *disk, l *ledger, env ...string) {
	t.Helper()
	s := start(t, d.Dir+"/data", launch{env: env})
	var stop atomic.Bool
	senders := l.Load(s, 6, &stop)
	pause(time.Duration(150+rand.IntN(500)) * time.Millisecond)
	began := d.Cut()
	s.Stop(syscall.SIGKILL)
	stop.Store(true)
	senders.Wait()
	l.Forget(began)
	if err := d.Unmount(); err != nil {
		t.Fatal(err)
	}
	d.Mount()
}

// A power cut under load, again and again on the same disk: everything acknowledged is stored once, and the server
// starts by itself.
func TestPowerCut(t *testing.T) {
	d := newDisk(t, 2048)
	dir := d.Dir + "/data"
	l := newLedger("shop", provisioned(t, dir, "shop"))
	n := rounds(t, 20, 3)
	for round := range n {
		cutPower(t, d, l)
		if round%5 == 4 || round == n-1 {
			s := start(t, dir, launch{})
			l.Settle(t, s, 60*time.Second)
			l.check(t, dir)
			if round == n-1 {
				l.Replay(t, s)
				l.Settle(t, s, 60*time.Second)
				l.check(t, dir)
			}
			s.Stop(syscall.SIGTERM)
		}
	}
	requests, events := l.Acked()
	t.Logf("%d power cuts: %d requests, %d events acknowledged, answers %v", n, requests, events, l.Statuses())
}

// What the cut itself does to plain files: a record whose sync returned before the cut began is there afterwards. Some
// are not whose sync returned while it lasted, which is why the other tests do not count answers from then on.
func TestSyncsDuringTheCut(t *testing.T) {
	const writers, size = 8, 700
	d := newDisk(t, 256)
	lost := 0
	n := rounds(t, 60, 10)
	for round := range n {
		var stop atomic.Bool
		var all sync.WaitGroup
		var synced [writers][]time.Time // when the sync of each record returned
		name := func(w int) string { return fmt.Sprintf("%s/%d-%d", d.Dir, round, w) }
		for w := range writers {
			all.Go(func() {
				f, err := os.Create(name(w))
				if err != nil {
					return // the power is gone already
				}
				defer f.Close()
				record := make([]byte, size)
				for !stop.Load() {
					binary.LittleEndian.PutUint64(record, uint64(len(synced[w])+1))
					if _, err := f.Write(record); err != nil || f.Sync() != nil {
						return
					}
					synced[w] = append(synced[w], time.Now())
				}
			})
		}
		pause(time.Duration(50+rand.IntN(100)) * time.Millisecond)
		began := d.Cut()
		pause(20 * time.Millisecond)
		stop.Store(true)
		all.Wait()
		if err := d.Unmount(); err != nil {
			t.Fatal(err)
		}
		d.Mount()
		for w := range writers {
			content, _ := os.ReadFile(name(w)) // a file that is not there has no record
			there := 0
			for ; len(content) >= size && binary.LittleEndian.Uint64(content) == uint64(there+1); content = content[size:] {
				there++
			}
			for i := there; i < len(synced[w]); i++ {
				if lost++; synced[w][i].Before(began) {
					t.Errorf("record %d of file %d is lost, and its sync returned before the cut", i+1, w)
				}
			}
			_ = os.Remove(name(w))
		}
	}
	t.Logf("%d cuts: %d records lost whose sync returned while the cut lasted, none from before", n, lost)
}

// The control: with the syncs taken away the same cut must lose acknowledged events. If it did not, TestPowerCut would
// prove nothing.
func TestPowerCutControl(t *testing.T) {
	d := newDisk(t, 1024)
	dir := d.Dir + "/data"
	l := newLedger("shop", provisioned(t, dir, "shop"))
	s := start(t, dir, launch{}) // so that the tables are there, and synced
	l.Settle(t, s, 30*time.Second)
	s.Stop(syscall.SIGTERM)
	d.Sync()
	cutPower(t, d, l, "SLUICE_FAILPOINT_UNSYNCED=1")
	s = start(t, dir, launch{})
	l.Settle(t, s, 60*time.Second)
	o := l.compare(t, dir)
	t.Log(o)
	if o.Lost == 0 {
		t.Errorf("nothing was lost without syncs (%d acknowledged): the power cut cuts nothing", o.Acked)
	}
}
