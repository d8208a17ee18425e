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

	"sluice/internal/api"
)

// By default Go collects garbage whenever the heap has doubled. Ours is small most of the time and filled fast, so
// that rule has the collector at work all the time: a tenth to a fifth of all processor time (docs/performance.md).
// So the heap may grow to five times what is alive as long as all memory together stays below a limit, and by a quarter
// above it: a limit kept at any price would stop the service. Only a control group's limit is kept at any price, for
// there the price of passing it is the service's life.
const (
	collectAt   = 400
	memoryLimit = 256 << 20
)

// collector paces the garbage collector until its context ends.
type collector struct {
	limit int64 // bytes the program stays below while it can
	most  int64 // bytes it stays below in any case; 0 for none
	now   int64 // the limit in force
}

// newCollector returns nil where the operator has set GOGC or GOMEMLIMIT: then everything is as Go does it.
func newCollector(limit int64) *collector {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return nil
	}
	most := ownMemory()
	if limit == 0 {
		limit = memoryLimit
		if most > 0 {
			limit = min(limit, most/2)
		}
	}
	return &collector{limit: limit, most: most - most/4}
}

// ownMemory is how much the process's control group lets it have; 0 when there is no limit.
func ownMemory() int64 { return cgroupMemory("/proc/self/cgroup", "/sys/fs/cgroup") }

// bytesInFlight is how much requests may hold together when the operator has not said: an eighth of a control group's
// memory, for a request costs several times its bytes until it is stored. 0 leaves it to the api.
func bytesInFlight(most int64) int64 {
	if most == 0 {
		return 0
	}
	return max(api.LeastInFlight, min(most/8, 256<<20))
}

// connections is how many connections senders may have open when the operator has not said: as many as an eighth of a
// control group's memory holds, or 10,000 (arbitrary: 240 MB).
func connections(most int64) int64 {
	if most == 0 {
		return 10_000
	}
	return max(256, min(most/8/api.ConnectionCost, 10_000))
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

// adjust leaves a quarter as much memory again as is in use. Small changes are not worth stopping the world.
func (c *collector) adjust(live int64) {
	want := max(c.limit, live+live/4+c.limit/8)
	if c.most > 0 {
		want = min(want, c.most)
	}
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

// cgroupMemory is the least limit of the process's control group and those around it; 0 when there is none.
func cgroupMemory(groups, root string) int64 {
	b, err := os.ReadFile(groups)
	if err != nil {
		return 0
	}
	least := int64(0)
	for line := range strings.Lines(string(b)) {
		_, line, _ = strings.Cut(strings.TrimSpace(line), ":")
		controllers, group, _ := strings.Cut(line, ":")
		top, file := root, "memory.max"
		switch controllers {
		case "": // version 2
		case "memory": // version 1
			top, file = filepath.Join(root, "memory"), "memory.limit_in_bytes"
		default:
			continue
		}
		for dir := filepath.Clean("/" + group); ; dir = filepath.Dir(dir) {
			b, err := os.ReadFile(filepath.Join(top, dir, file))
			n, perr := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
			if err == nil && perr == nil && n < unlimited && (least == 0 || n < least) {
				least = n
			}
			if dir == "/" {
				break
			}
		}
	}
	return least
}

// unlimited is from where on a limit of version 1 is none: its way to say so is a number near the largest.
const unlimited = 1 << 60
