package main

import (
	"context"
	"time"

	"sluice/internal/lake"
)

// rig is what a build with the tag failpoint may do to the program, so that the fault harness can crash it at a named
// step, shift its clock, hold its loader, hurry its upkeep or take its syncs away. Any other build has no code that
// changes it.
var rig = struct {
	now      func() time.Time
	step     func(name string) error // of stream and lake
	upkeep   func(context.Context, *lake.Lake) error
	unsynced bool
	noLoader bool
}{
	now:    time.Now,
	upkeep: func(ctx context.Context, l *lake.Lake) error { return l.Run(ctx) },
}
