//go:build failpoint

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"sluice/internal/failpointtest"
	"sluice/internal/lake"
)

// The environment of a test build:
//
//	SLUICE_FAILPOINT=step:n        the process kills itself at the n-th time it comes to that step; see KillAt
//	SLUICE_FAILPOINT_CLOCK=file    the file holds by how many seconds the clock is off; read twice a second
//	SLUICE_FAILPOINT_UNSYNCED=1    nothing in the engine is synced
//	SLUICE_FAILPOINT_NOLOADER=1    what is accepted stays in the stream
//	SLUICE_FAILPOINT_SETTLE=1      rejections and hours are committed together with their events
//	SLUICE_FAILPOINT_UPKEEP=1      the lake is compacted, summed, expired and swept without pause
func init() {
	foreignVariables = append(foreignVariables, "SLUICE_FAILPOINT", "SLUICE_FAILPOINT_")
	hooks.Unsynced = os.Getenv("SLUICE_FAILPOINT_UNSYNCED") != ""
	hooks.NoLoader = os.Getenv("SLUICE_FAILPOINT_NOLOADER") != ""
	if os.Getenv("SLUICE_FAILPOINT_SETTLE") != "" {
		hooks.Settle = 1
	}
	if os.Getenv("SLUICE_FAILPOINT_UPKEEP") != "" {
		hooks.Maintain = hurried
	}
	if path := os.Getenv("SLUICE_FAILPOINT_CLOCK"); path != "" {
		hooks.now = (&failpointtest.Clock{Path: path}).Now
	}
	if at := os.Getenv("SLUICE_FAILPOINT"); at != "" {
		hooks.Step = failpointtest.KillAt(at)
	}
}

// hurried does the upkeep of a lake without its pauses, so that a test need not wait for minutes.
func hurried(ctx context.Context, l *lake.Lake) error {
	for {
		more, err := l.Compact(ctx)
		if err == nil && !more {
			more, err = l.SumDay(ctx)
		}
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
