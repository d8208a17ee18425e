package main

import (
	"time"

	"sluice/cmd/sluice/internal/service"
)

// hooks are what a build with the tag failpoint changes in the program, so that the fault tests can crash it at a named
// step, shift its clock, stop its loader, settle at once, speed up its maintenance or turn its syncs off. No other
// build changes them.
var hooks = struct {
	now func() time.Time
	service.Hooks
}{now: time.Now}
