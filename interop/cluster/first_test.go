//go:build faults || throughput

package cluster

// first is the last commit before a cluster had a record of its configuration and tables in a bucket: its nodes share one data
// directory, and have leases of another name.
const first = "524a9ec95399f3b79600b633bbabcbc01ae1e43d"
