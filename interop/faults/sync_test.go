//go:build faults

package faults

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"sluice/internal/servicetest"
)

// blocks are the files that hold the stream.
func blocks(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "engine", "jetstream", "*", "streams", "SLUICE_0", "msgs", "*.blk"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no blocks of the stream: %v", err)
	}
	return files
}

// Writes or syncs fail under load: from the first failure on, while it lasts, nothing is answered 200. When the disk
// works again, so does the service, by itself. And then the power is cut: what was acknowledged before, after and
// in between is there, once.
func TestWriteErrors(t *testing.T) {
	for _, c := range []struct {
		name   string
		inject string
		stream bool // only calls on the stream's own files: a write may be to a socket
	}{
		{"sync", "fsync,fdatasync:error=EIO", false},
		{"sync of the stream", "fsync,fdatasync:error=EIO", true},
		{"write", "write,pwrite64:error=EIO", true},
		{"write without space", "write,pwrite64:error=ENOSPC", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDisk(t, 1024)
			dir := d.Dir + "/data"
			l := newLedger("shop", provisioned(t, dir, "shop"))
			s := start(t, dir, launch{args: []string{"--commit-every", "100ms"}})
			for range rounds(t, 2, 1) {
				var files []string
				if c.stream {
					files = blocks(t, dir)
				}
				l.failForAWhile(t, s, c.inject, files)
			}
			if most := s.memory(t); most > 512<<20 {
				t.Errorf("%d MiB of memory", most>>20)
			}
			d.Cut()
			s.Stop(syscall.SIGKILL)
			if err := d.Unmount(); err != nil {
				t.Fatal(err)
			}
			d.Mount()
			s = start(t, dir, launch{})
			l.Replay(t, s)
			l.Settle(t, s, 60*time.Second)
			l.check(t, dir)
		})
	}
}

// failForAWhile lets calls fail under load for a while, holds the answers against that, and waits for the recovery.
func (l *ledger) failForAWhile(t *testing.T, s *server, inject string, files []string) {
	t.Helper()
	var stop atomic.Bool
	senders := l.Load(s, servicetest.Kinds, &stop)
	defer senders.Wait()
	defer stop.Store(true)
	pause(200 * time.Millisecond)
	r := s.tamper(t, inject, files...)
	var failed time.Time
	eventually(t, 10*time.Second, "a failure", func() error {
		at, n := r.first()
		if failed = at; n == 0 {
			return fmt.Errorf("nothing was injected:\n%s", s.Said())
		}
		return nil
	})
	pause(2 * time.Second)
	healed := time.Now()
	_, count := r.first()
	r.stop()
	eventually(t, 30*time.Second, "recovery", s.Ready)
	recovered := time.Since(healed)
	eventually(t, 30*time.Second, "an event accepted", func() error {
		if e := l.Send(s, l.Request(servicetest.Single)); e.Status != http.StatusOK {
			return fmt.Errorf("status %d", e.Status)
		}
		return nil
	})
	answers, slowest := map[int]int{}, time.Duration(0)
	for _, e := range l.Entries() {
		if e.Sent.Before(failed) || e.Sent.Add(e.Took).After(healed) {
			continue
		}
		answers[e.Status]++
		slowest = max(slowest, e.Took)
	}
	t.Logf("%d calls failed; answers meanwhile %v, slowest %v; ready after %v", count, answers, slowest.Round(time.Millisecond), recovered.Round(time.Millisecond))
	if answers[http.StatusOK] > 0 {
		t.Errorf("%d requests were answered 200 after the disk had failed", answers[http.StatusOK])
	}
	if answers[http.StatusServiceUnavailable] == 0 {
		t.Error("nothing was rejected: the test shows nothing")
	}
	if slowest > 5*time.Second { // a second, and what tracing and a busy machine add
		t.Errorf("an answer took %v", slowest)
	}
}

// A disk that takes 200 ms for each sync: answers are late or 503, none takes seconds, memory stays bounded, and
// what is acknowledged is stored.
func TestSlowSyncs(t *testing.T) {
	dir := t.TempDir()
	l := newLedger("shop", provisioned(t, dir, "shop"))
	s := start(t, dir, launch{})
	l.Settle(t, s, 30*time.Second)
	r := s.tamper(t, "fsync,fdatasync:delay_enter=200000")
	var stop atomic.Bool
	senders := l.Load(s, 64, &stop)
	pause(10 * time.Second)
	stop.Store(true)
	senders.Wait()
	_, count := r.first()
	r.stop()
	slowest := time.Duration(0)
	for _, e := range l.Entries() {
		slowest = max(slowest, e.Took)
		if e.Status != http.StatusOK && e.Status != http.StatusServiceUnavailable {
			t.Errorf("answer %d, want 200 or 503", e.Status)
		}
	}
	most := s.memory(t)
	requests, events := l.Acked()
	t.Logf("%d slow syncs: %d requests with %d events acknowledged, answers %v, slowest %v, %d MiB at most", count, requests, events, l.Statuses(), slowest.Round(time.Millisecond), most>>20)
	if lines := strings.Count(s.Said(), "\n"); lines > 100 {
		t.Errorf("a slow disk made %d lines of log", lines)
	}
	if count == 0 || requests < 20 {
		t.Errorf("%d slow syncs, %d acknowledged: the test shows nothing", count, requests)
	}
	if slowest > 5*time.Second {
		t.Errorf("an answer took %v", slowest)
	}
	if most > 512<<20 {
		t.Errorf("%d MiB of memory", most>>20)
	}
	eventually(t, 30*time.Second, "ready", s.Ready)
	l.Replay(t, s)
	l.Settle(t, s, 60*time.Second)
	l.check(t, dir)
}
