package main

import (
	"context"
	"os"
	"path/filepath"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"time"
)

// By default Go collects garbage whenever the heap has doubled. Ours is small most of the time and filled fast, so
// that rule has the collector at work all the time: a tenth to a fifth of all processor time (docs/performance.md).
// So the heap may grow to five times what is alive as long as all memory together stays below a limit, and by half
// above it: a limit kept at any price would stop the service.
const (
	collectAt   = 400
	memoryLimit = 256 << 20
)

// collector paces the garbage collector until its context ends.
type collector struct {
	limit int64 // bytes the program stays below while it can
	now   int64 // the limit in force
}

// newCollector returns nil where the operator has set GOGC or GOMEMLIMIT: then everything is as Go does it.
func newCollector(limit int64) *collector {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return nil
	}
	if limit == 0 {
		limit = memoryLimit
		if most := cgroupMemory("/proc/self/cgroup", "/sys/fs/cgroup"); most > 0 {
			limit = min(limit, most/2)
		}
	}
	return &collector{limit: limit}
}

// run adjusts the limit every second to what is alive.
func (c *collector) run(ctx context.Context) error {
	debug.SetGCPercent(collectAt)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		c.adjust(liveHeap())
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// adjust leaves half as much room again as is alive. Small changes are not worth stopping the world.
func (c *collector) adjust(live int64) {
	want := max(c.limit, live+live/2+c.limit/8)
	if want > c.now || want < c.now-c.now/8 {
		c.now = want
		debug.SetMemoryLimit(want)
	}
}

// liveHeap is what the last collection left.
func liveHeap() int64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return int64(sample[0].Value.Uint64())
}

// cgroupMemory is the limit of the process's control group (version 2); 0 when there is none.
func cgroupMemory(groups, root string) int64 {
	b, err := os.ReadFile(groups)
	if err != nil {
		return 0
	}
	_, group, ok := strings.Cut("\n"+string(b), "\n0::")
	if !ok {
		return 0
	}
	group, _, _ = strings.Cut(group, "\n")
	least := int64(0)
	for dir := filepath.Clean("/" + group); ; dir = filepath.Dir(dir) {
		b, err := os.ReadFile(filepath.Join(root, dir, "memory.max"))
		if n, perr := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64); err == nil && perr == nil && (least == 0 || n < least) {
			least = n
		}
		if dir == "/" {
			return least
		}
	}
}
