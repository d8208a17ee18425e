//go:build failpoint

package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

// The environment of a test build:
//
//	SLUICE_FAILPOINT=step:n        the process kills itself at the n-th time it comes to that step
//	SLUICE_FAILPOINT_CLOCK=file    the file holds by how many seconds the clock is off; read twice a second
//	SLUICE_FAILPOINT_UNSYNCED=1    nothing in the engine is synced
//	SLUICE_FAILPOINT_NOLOADER=1    what is accepted stays in the stream
func init() {
	rig.unsynced = os.Getenv("SLUICE_FAILPOINT_UNSYNCED") != ""
	rig.noLoader = os.Getenv("SLUICE_FAILPOINT_NOLOADER") != ""
	if path := os.Getenv("SLUICE_FAILPOINT_CLOCK"); path != "" {
		rig.now = (&skewed{path: path}).now
	}
	if at := os.Getenv("SLUICE_FAILPOINT"); at != "" {
		rig.step = killAt(at)
	}
}

// killAt ends the process, as kill -9 would, at the n-th call for a step. Steps of other names pass.
func killAt(at string) func(string) error {
	name, count, _ := strings.Cut(at, ":")
	left, err := strconv.Atoi(count)
	if err != nil || left < 1 {
		fmt.Fprintln(os.Stderr, "SLUICE_FAILPOINT is step:n")
		os.Exit(exitUsage)
	}
	var mu sync.Mutex
	return func(step string) error {
		mu.Lock()
		defer mu.Unlock()
		if step != name {
			return nil
		}
		if left--; left > 0 {
			return nil
		}
		fmt.Fprintln(os.Stderr, "failpoint", step)
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // the signal is on its way
	}
}

// skewed is a clock that somebody sets while the program runs.
type skewed struct {
	path   string
	mu     sync.Mutex
	read   time.Time
	offset int64
}

func (c *skewed) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := time.Now()
	if t.Sub(c.read) > 500*time.Millisecond {
		c.read = t
		if b, err := os.ReadFile(c.path); err == nil {
			if n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64); err == nil {
				c.offset = n
			}
		}
	}
	return step(t, c.offset)
}

// step moves the wall clock of t and leaves its monotonic clock alone, as setting the clock of a machine does.
// Time.Add moves both, so this goes to the representation: the upper bits of the first word are seconds while
// the time has a monotonic reading, which one from time.Now has.
func step(t time.Time, seconds int64) time.Time {
	*(*uint64)(unsafe.Pointer(&t)) += uint64(seconds) << 30
	return t
}
