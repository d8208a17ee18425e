package main

import "time"

// rig is what a build with the tag failpoint may do to the program, so that the fault harness can crash it at a named
// step, shift its clock, hold its loader or take its syncs away. Any other build has no code that changes it.
var rig = struct {
	now      func() time.Time
	step     func(name string) error // of stream and lake
	unsynced bool
	noLoader bool
}{now: time.Now}
