package main

import (
	"context"
	"time"

	"sluice/internal/lake"
)

// hooks are what a build with the tag failpoint changes in the program, so that the fault tests can crash it at a named
// step, shift its clock, stop its loader, settle at once, speed up its maintenance or turn its syncs off. No other
// build changes them.
var hooks = struct {
	now      func() time.Time
	step     func(name string) error // of stream and lake
	maintain func(context.Context, *lake.Lake) error
	unsynced bool
	noLoader bool
	settle   time.Duration // of loader.Options; 0 is its default
}{
	now:      time.Now,
	maintain: func(ctx context.Context, l *lake.Lake) error { return l.Run(ctx) },
}
