//go:build failpoint

// Package failpointtest ends a process at a named step, and sets its clock, for the tests of faults. It is in no other
// build.
package failpointtest

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

// KillAt ends the process, as kill -9 would, at the n-th call for a step. Of several steps with commas between
// them, each counts from when the one before it was reached, and the last one kills.
func KillAt(at string) func(string) error {
	type point struct {
		name string
		left int
	}
	var points []point
	for one := range strings.SplitSeq(at, ",") {
		name, count, _ := strings.Cut(one, ":")
		left, err := strconv.Atoi(count)
		if err != nil || left < 1 {
			fmt.Fprintln(os.Stderr, "SLUICE_FAILPOINT is step:n, or several with commas between them")
			os.Exit(2)
		}
		points = append(points, point{name, left})
	}
	var mu sync.Mutex
	return func(step string) error {
		mu.Lock()
		defer mu.Unlock()
		if step != points[0].name {
			return nil
		}
		if points[0].left--; points[0].left > 0 {
			return nil
		}
		fmt.Fprintln(os.Stderr, "failpoint", step)
		if len(points) > 1 {
			points = points[1:]
			return nil
		}
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // the signal is on its way
	}
}

// Clock is a clock that somebody sets while the program runs.
type Clock struct {
	Path   string // of a file with the number of seconds by which it is off
	mu     sync.Mutex
	read   time.Time
	offset int64
}

// Now is the time, as it is off.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := time.Now()
	if t.Sub(c.read) > 500*time.Millisecond {
		c.read = t
		if b, err := os.ReadFile(c.Path); err == nil {
			if n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64); err == nil {
				c.offset = n
			}
		}
	}
	return shift(t, c.offset)
}

// shift moves the wall clock of t and leaves its monotonic clock alone, as setting the clock of a machine does.
// Time.Add moves both, so this goes to the representation: the upper bits of the first word are seconds while
// the time has a monotonic reading, which one from time.Now has.
func shift(t time.Time, seconds int64) time.Time {
	*(*uint64)(unsafe.Pointer(&t)) += uint64(seconds) << 30
	return t
}
