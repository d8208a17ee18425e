// Package memory says how much memory the process may use, and keeps the garbage collector to it.
package memory

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
// So the heap may grow to five times what is alive as long as all memory together stays below a limit, and by a quarter
// above it: a limit kept at any price would stop the service. Only a control group's limit is kept at any price, for
// there the price of passing it is the service's life.
const (
	collectAt   = 400
	memoryLimit = 256 << 20
)

// Collector paces the garbage collector until its context ends.
type Collector struct {
	limit int64 // bytes the program stays below while it can
	most  int64 // bytes it stays below in any case; 0 for none
	now   int64 // the limit in force
}

// NewCollector returns nil where the operator has set GOGC or GOMEMLIMIT: then everything is as Go does it.
func NewCollector(said int64) *Collector {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return nil
	}
	planned := Planned(said)
	most := Own()
	return &Collector{limit: max(min(memoryLimit, planned/2), planned/8), most: most - most/4}
}

// Own is how much the process may have: what its control group allows, or GOMEMLIMIT where that is less; 0 when there
// is no limit.
func Own() int64 {
	group := cgroup("/proc/self/cgroup", "/sys/fs/cgroup")
	if os.Getenv("GOMEMLIMIT") == "" {
		return group
	}
	limit := debug.SetMemoryLimit(-1)
	if group > 0 {
		limit = min(limit, group)
	}
	return limit
}

// Planned is what the service plans with: what the operator has said, else what it may have, at most 2 GiB. More is
// of no use to most (arbitrary: 256 MiB in flight and some 10,000 connections).
func Planned(said int64) int64 {
	if said > 0 {
		return said
	}
	const most = 2 << 30
	if own := Own(); own > 0 {
		return min(own, most)
	}
	return most
}

// Machine is how much the machine has; 0 where the system does not say.
func Machine() int64 { return machine("/proc/meminfo") }

func machine(info string) int64 {
	b, err := os.ReadFile(info)
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(b), "MemTotal:")
	if fields := strings.Fields(rest); len(fields) > 1 && fields[1] == "kB" {
		if n, err := strconv.ParseInt(fields[0], 10, 64); err == nil {
			return n << 10
		}
	}
	return 0
}

// Run adjusts the limit to what is in use, five times a second: near the limit the collector runs some twenty times a
// second, and requests wait for it.
func (c *Collector) Run(ctx context.Context) error {
	debug.SetGCPercent(collectAt)
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		c.adjust(inUse())
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// adjust leaves a quarter as much memory again as is alive on the heap, beside what Go needs otherwise, which counts
// for the limit, too. Small changes are not worth stopping the world.
func (c *Collector) adjust(live, other int64) {
	want := max(c.limit, other+live+live/4+c.limit/8)
	if c.most > 0 {
		want = min(want, c.most)
	}
	if want > c.now || want < c.now-c.now/8 {
		c.now = want
		debug.SetMemoryLimit(want)
	}
}

// inUse is what the last collection left on the heap, and what there is beside the heap and cannot be freed: stacks,
// gaps between objects, what the runtime keeps.
func inUse() (live, other int64) {
	samples := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/released:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"},
	}
	metrics.Read(samples)
	var n [5]int64
	for i := range samples {
		if samples[i].Value.Kind() == metrics.KindUint64 {
			n[i] = int64(samples[i].Value.Uint64())
		}
	}
	return n[0], max(0, n[1]-n[2]-n[3]-n[4])
}

// cgroup is the least limit of the process's control group and those around it; 0 when there is none.
func cgroup(groups, root string) int64 {
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
