//go:build failpoint

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"sluice/internal/lake"
)

// The environment of a test build:
//
//	SLUICE_FAILPOINT=step:n        the process kills itself at the n-th time it comes to that step; see killAt
//	SLUICE_FAILPOINT_CLOCK=file    the file holds by how many seconds the clock is off; read twice a second
//	SLUICE_FAILPOINT_UNSYNCED=1    nothing in the engine is synced
//	SLUICE_FAILPOINT_NOLOADER=1    what is accepted stays in the stream
//	SLUICE_FAILPOINT_SETTLE=1      rejections and hours are committed together with their events
//	SLUICE_FAILPOINT_UPKEEP=1      the lake is compacted, expired and swept without pause
func init() {
	foreignVariables = append(foreignVariables, "SLUICE_FAILPOINT", "SLUICE_FAILPOINT_")
	hooks.unsynced = os.Getenv("SLUICE_FAILPOINT_UNSYNCED") != ""
	hooks.noLoader = os.Getenv("SLUICE_FAILPOINT_NOLOADER") != ""
	if os.Getenv("SLUICE_FAILPOINT_SETTLE") != "" {
		hooks.settle = 1
	}
	if os.Getenv("SLUICE_FAILPOINT_UPKEEP") != "" {
		hooks.maintain = hurried
	}
	if path := os.Getenv("SLUICE_FAILPOINT_CLOCK"); path != "" {
		hooks.now = (&skewed{path: path}).now
	}
	if at := os.Getenv("SLUICE_FAILPOINT"); at != "" {
		hooks.step = killAt(at)
	}
}

// killAt ends the process, as kill -9 would, at the n-th call for a step. Of several steps with commas between
// them, each counts from when the one before it was reached, and the last one kills.
func killAt(at string) func(string) error {
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
			os.Exit(exitUsage)
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

// hurried does the upkeep of a lake without its pauses, so that a test need not wait for minutes.
func hurried(ctx context.Context, l *lake.Lake) error {
	for {
		more, err := l.Compact(ctx)
		if err == nil && !more {
			_, retain := l.Retain(ctx)
			expire := l.Expire(ctx)
			_, sweep := l.Sweep(ctx)
			err = errors.Join(retain, expire, sweep)
		}
		if err != nil && ctx.Err() == nil {
			fmt.Fprintln(os.Stderr, "upkeep:", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(100 * time.Millisecond):
		}
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
	return shift(t, c.offset)
}

// shift moves the wall clock of t and leaves its monotonic clock alone, as setting the clock of a machine does.
// Time.Add moves both, so this goes to the representation: the upper bits of the first word are seconds while
// the time has a monotonic reading, which one from time.Now has.
func shift(t time.Time, seconds int64) time.Time {
	*(*uint64)(unsafe.Pointer(&t)) += uint64(seconds) << 30
	return t
}
