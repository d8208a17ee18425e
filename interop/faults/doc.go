// Package faults breaks the running service and holds what it stored against what it promised.
//
// The tests need root, loop devices, ext4 and strace, and minutes of time; so they are built with the tag faults, and run
// by `make faults` and, a part of them, by `make faults-ci`. Where something they need is missing they fail.
//
// Every test drives the real program, built with the tag failpoint, over HTTP; keeps a ledger of each request and its
// answer; and in the end reads the table with DuckDB, from the files that the newest snapshot lists. FAULTS=ci takes
// fewer rounds, FAULT_ROUNDS=n sets their number.
package faults
