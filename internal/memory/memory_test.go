package memory

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"
)

func TestCgroupMemory(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	groups := write("groups", "1:name=systemd:/x\n0::/a/b\n")
	for _, c := range []struct {
		outer, inner string
		want         int64
	}{
		{"max\n", "max\n", 0},
		{"1000\n", "max\n", 1000},
		{"1000\n", "300\n", 300},
		{"200\n", "300\n", 200},
	} {
		write("fs/a/memory.max", c.outer)
		write("fs/a/b/memory.max", c.inner)
		if got := cgroup(groups, filepath.Join(dir, "fs")); got != c.want {
			t.Errorf("%q within %q: got %d, want %d", c.inner, c.outer, got, c.want)
		}
	}
	groups = write("groups", "5:devices:/\n4:memory:/a/b\n0::/\n")
	write("fs/memory/memory.limit_in_bytes", "9223372036854771712\n")
	write("fs/memory/a/memory.limit_in_bytes", "700\n")
	write("fs/memory/a/b/memory.limit_in_bytes", "800\n")
	if got := cgroup(groups, filepath.Join(dir, "fs")); got != 700 {
		t.Errorf("version 1: got %d, want 700", got)
	}
	if got := cgroup(filepath.Join(dir, "none"), dir); got != 0 {
		t.Errorf("without a group: got %d", got)
	}
}

// The limit holds while it can, and gives way when more is alive than fits.
func TestCollector(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	c := Collector{limit: 1 << 30}
	for _, step := range []struct{ live, other, want int64 }{
		{10 << 20, 0, 1 << 30},
		{1 << 30, 0, 1<<30 + (1<<30)/4 + 1<<27},
		{1<<30 - 1<<20, 0, 1<<30 + (1<<30)/4 + 1<<27}, // hardly less: not worth a change
		{10 << 20, 0, 1 << 30},
		{800 << 20, 200 << 20, (1000 + 200 + 128) << 20}, // stacks of many connections leave as much for the heap
	} {
		c.adjust(step.live, step.other)
		if got := debug.SetMemoryLimit(-1); got != step.want {
			t.Errorf("%d alive, %d beside: got %d, want %d", step.live, step.other, got, step.want)
		}
	}
	if live, other := inUse(); live < 0 || other < 1<<20 {
		t.Errorf("got %d alive and %d beside the heap, want what the runtime needs at least", live, other)
	}
	c.most, c.now = 1200<<20, 0
	if c.adjust(1<<30, 0); debug.SetMemoryLimit(-1) != c.most {
		t.Errorf("in a control group: got %d, want %d", debug.SetMemoryLimit(-1), c.most)
	}
	t.Setenv("GOGC", "50")
	if NewCollector(0) != nil {
		t.Error("what the operator set is overruled")
	}
}

// What the operator says decides, else what the process may have.
func TestPlannedMemory(t *testing.T) {
	t.Setenv("GOMEMLIMIT", "256MiB") // the control group may allow less
	limit := debug.SetMemoryLimit(256 << 20)
	defer debug.SetMemoryLimit(limit)
	if got := Planned(0); got > 256<<20 {
		t.Errorf("below GOMEMLIMIT: got %d", got)
	}
	if got := Planned(1 << 20); got != 1<<20 {
		t.Errorf("as said: got %d", got)
	}
}

func TestMachine(t *testing.T) {
	info := filepath.Join(t.TempDir(), "meminfo")
	for text, want := range map[string]int64{
		"MemTotal:       16384256 kB\nMemFree:         103 kB\n": 16384256 << 10,
		"MemFree: 1 kB\n": 0,
		"":                0,
	} {
		if err := os.WriteFile(info, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := machine(info); got != want {
			t.Errorf("%q: got %d, want %d", text, got, want)
		}
	}
	if got := machine(info + ".none"); got != 0 {
		t.Errorf("without the file: got %d", got)
	}
}
