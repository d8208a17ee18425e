package api

import "runtime"

// fairSize is from how many bytes on a body waits for a place: with less the work is shorter than the waiting
// (arbitrary: some twenty events).
const fairSize = 16 << 10

// As many large bodies are decoded at one time as there are processors.
func processors() int64 { return int64(runtime.GOMAXPROCS(0)) }

// queueLimit is how many bytes of large records the stream is given to write at one time: enough for it to write
// while it syncs, and little enough that a record which comes now is soon written (measured: three times as much
// is no faster and makes a single event of another dataset wait half as long again).
const queueLimit = 768 << 10
