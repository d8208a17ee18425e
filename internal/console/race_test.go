//go:build race

package console

// slower is how many times longer things may take under the race detector.
const slower = 10
