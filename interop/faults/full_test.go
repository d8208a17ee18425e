//go:build faults

package faults

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// fill takes the disk's bytes but for so many, in one file. The server takes some, too, meanwhile: full is full.
func (d *disk) fill(leave uint64) {
	d.t.Helper()
	f, err := os.OpenFile(filepath.Join(d.Dir, "ballast"), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		d.t.Fatal(err)
	}
	defer f.Close()
	size := int64(0)
	for step := int64(16 << 20); step >= 4<<10; {
		bytes, _ := d.Space()
		if bytes < leave+uint64(step) || errors.Is(syscall.Fallocate(int(f.Fd()), 0, size, step), syscall.ENOSPC) {
			step /= 2
			continue
		}
		size += step
	}
}

// fillFiles takes all of the disk's places for files.
func (d *disk) fillFiles() {
	d.t.Helper()
	dir := filepath.Join(d.Dir, "ballast-files")
	err := os.MkdirAll(dir, 0o700)
	for i := 0; err == nil; i++ {
		err = os.WriteFile(filepath.Join(dir, strconv.Itoa(i)), nil, 0o600)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		d.t.Fatal(err)
	}
}

// relieve gives back what fill and fillFiles took.
func (d *disk) relieve() {
	d.t.Helper()
	for _, name := range []string{"ballast", "ballast-files"} {
		if err := os.RemoveAll(filepath.Join(d.Dir, name)); err != nil {
			d.t.Fatal(err)
		}
	}
}

// Somebody else fills the disk of a running server, down to the last byte or place for a file. It rejects events
// before the disk is full, loses nothing acknowledged whichever write fails, and accepts again when there is space.
func TestDiskFull(t *testing.T) {
	for _, c := range []struct {
		name string
		fill func(d *disk)
	}{
		{"little left", func(d *disk) { d.fill(8 << 20) }},
		{"nothing left", func(d *disk) { d.fill(0) }},
		{"no place for files", func(d *disk) { d.fillFiles() }},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDisk(t, 64, "-N", "2048")
			dir := d.Dir + "/data"
			l := newLedger("shop", provisioned(t, dir, "shop"))
			s := start(t, dir, launch{args: []string{"--commit-every", "100ms"}})
			l.Settle(t, s, 30*time.Second)
			for range rounds(t, 3, 1) {
				d.fillAndFree(s, l, c.fill)
			}
			l.Replay(t, s)
			l.Settle(t, s, 60*time.Second)
			l.check(t, dir)
			if lines := strings.Count(s.Said(), "\n"); lines > 400 {
				t.Errorf("a full disk made %d lines of log", lines)
			}
		})
	}
}

// fillAndFree fills the disk under load, looks at the answers, and frees the space.
func (d *disk) fillAndFree(s *server, l *ledger, fill func(*disk)) {
	t := d.t
	var stop atomic.Bool
	senders := l.Load(s, 5, &stop)
	defer senders.Wait()
	defer stop.Store(true)
	pause(200 * time.Millisecond)
	fill(d)
	eventually(t, 10*time.Second, "rejection", func() error {
		if s.Ready() == nil {
			return fmt.Errorf("still ready")
		}
		return nil
	})
	rejected := time.Now()
	pause(2 * time.Second)
	slowest := time.Duration(0)
	for _, e := range l.Entries() {
		if e.Sent.Before(rejected) {
			continue
		}
		slowest = max(slowest, e.Took)
		if e.Status != http.StatusServiceUnavailable {
			t.Errorf("answer %d while the disk is full, want 503", e.Status)
		}
	}
	if slowest > 3*time.Second {
		t.Errorf("a rejection took %v", slowest)
	}
	d.relieve()
	begun := time.Now()
	eventually(t, 30*time.Second, "recovery", s.Ready)
	t.Logf("slowest rejection %v; ready %v after there was space", slowest.Round(time.Millisecond), time.Since(begun).Round(time.Millisecond))
}

// The events themselves fill the disk: a small one takes them until the headroom is reached, then rejects; no write of
// the engine ever fails. With more space it goes on.
func TestDiskFilledByEvents(t *testing.T) {
	d := newDisk(t, 64)
	dir := d.Dir + "/data"
	l := newLedger("shop", provisioned(t, dir, "shop"))
	s := start(t, dir, launch{args: []string{"--commit-every", "500ms"}})
	d.fill(28 << 20)
	var stop atomic.Bool
	senders := l.Load(s, 5, &stop)
	eventually(t, 120*time.Second, "rejection", func() error {
		if err := s.Ready(); err == nil || !strings.Contains(err.Error(), "disk") {
			return fmt.Errorf("readyz: %v", err)
		}
		return nil
	})
	least := uint64(math.MaxUint64)
	for range 20 {
		pause(100 * time.Millisecond)
		bytes, _ := d.Space()
		least = min(least, bytes)
	}
	stop.Store(true)
	senders.Wait()
	if least < 4<<20 {
		t.Errorf("%d bytes were left in the end: the headroom does not hold", least)
	}
	if strings.Contains(s.Said(), "no space left") || strings.Contains(s.Said(), "restarting it") {
		t.Errorf("the disk was full before anything was rejected:\n%s", s.Said())
	}
	for _, e := range l.Entries() {
		if e.Status != http.StatusOK && e.Status != http.StatusServiceUnavailable {
			t.Errorf("answer %d, want 200 or 503", e.Status)
		}
	}
	d.relieve()
	eventually(t, 30*time.Second, "recovery", s.Ready)
	l.Settle(t, s, 60*time.Second)
	l.check(t, dir)
	_, events := l.Acked()
	t.Logf("%d events until the disk was nearly full, %d KiB left, answers %v", events, least>>10, l.Statuses())
}
