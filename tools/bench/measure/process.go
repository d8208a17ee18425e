package measure

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"
)

// Usage is what a process has used up to one moment, as the kernel counts it.
type Usage struct {
	User    time.Duration
	System  time.Duration
	Memory  int64 // resident bytes now
	Peak    int64 // the most resident bytes so far
	Written int64 // bytes sent to the disk
}

// CPU is the processor time of all its threads.
func (u Usage) CPU() time.Duration { return u.User + u.System }

// tick is the unit of times in /proc: USER_HZ, which is 100 on every architecture that Go runs on.
const tick = 10 * time.Millisecond

// ReadUsage reads what a process has used from /proc: Linux only, and one's own processes only.
func ReadUsage(pid int) (Usage, error) {
	dir := "/proc/" + strconv.Itoa(pid)
	var u Usage
	stat, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return u, err
	}
	// The name of the program stands in brackets and may hold anything: count fields from behind it.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 13 {
		return u, fmt.Errorf("read %s/stat: %d fields", dir, len(fields))
	}
	u.User = time.Duration(number(fields[11])) * tick
	u.System = time.Duration(number(fields[12])) * tick
	status, err := os.ReadFile(dir + "/status")
	if err != nil {
		return u, err
	}
	u.Memory = member(status, "VmRSS:") << 10
	u.Peak = member(status, "VmHWM:") << 10
	io, err := os.ReadFile(dir + "/io")
	if err != nil {
		return u, err
	}
	u.Written = member(io, "write_bytes:")
	return u, nil
}

// member is the number behind a name at the beginning of a line.
func member(text []byte, name string) int64 {
	for line := range bytes.Lines(text) {
		if rest, ok := bytes.CutPrefix(line, []byte(name)); ok {
			if f := bytes.Fields(rest); len(f) > 0 {
				return number(f[0])
			}
		}
	}
	return 0
}

func number(b []byte) int64 {
	n, _ := strconv.ParseInt(string(b), 10, 64)
	return n
}
