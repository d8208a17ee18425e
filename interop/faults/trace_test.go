//go:build faults

package faults

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/interop/loopdisk"
)

// tracer is a strace that makes a server's system calls fail or wait.
type tracer struct {
	t   *testing.T
	cmd *exec.Cmd
	log string
}

// tamper attaches to the server and injects into its system calls, until stop. Only calls on the given files are
// touched, on any file if there are none.
func (s *server) tamper(t *testing.T, inject string, files ...string) *tracer {
	t.Helper()
	loopdisk.Need(t, "strace")
	r := &tracer{t: t, log: filepath.Join(t.TempDir(), "trace")}
	calls, _, _ := strings.Cut(inject, ":")
	args := []string{"-f", "-ttt", "-o", r.log, "-p", strconv.Itoa(s.PID()), "-e", "trace=" + calls, "-e", "inject=" + inject}
	for _, f := range files {
		args = append(args, "-P", f)
	}
	r.cmd = exec.Command("strace", args...)
	var words bytes.Buffer
	r.cmd.Stderr = &words
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.stop)
	return r
}

// stop lets the server go, which then runs as before.
func (r *tracer) stop() {
	if r.cmd.ProcessState == nil {
		_ = r.cmd.Process.Signal(syscall.SIGINT)
		_ = r.cmd.Wait()
	}
}

var injected = regexp.MustCompile(`(?m)^\d+ +(\d+\.\d+) .*\((?:INJECTED|DELAYED)\)`)

// first is when a call was first tampered with; zero when none was.
func (r *tracer) first() (at time.Time, count int) {
	raw, err := os.ReadFile(r.log)
	if err != nil {
		return at, 0
	}
	all := injected.FindAllSubmatch(raw, -1)
	if len(all) == 0 {
		return at, 0
	}
	seconds, err := strconv.ParseFloat(string(all[0][1]), 64)
	if err != nil {
		r.t.Fatal(err)
	}
	return time.UnixMicro(int64(seconds * 1e6)), len(all)
}

// memory is the most memory the process ever had resident, in bytes.
func (s *server) memory(t *testing.T) int64 {
	t.Helper()
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(s.PID()) + "/status")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(raw)
	if found == nil {
		t.Fatal("no VmHWM")
	}
	kib, err := strconv.ParseInt(string(found[1]), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kib << 10
}

// cpu is the processor time the process has used.
func (s *server) cpu(t *testing.T) time.Duration {
	t.Helper()
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(s.PID()) + "/stat")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := bytes.Cut(raw, []byte(") ")) // the name may hold spaces
	fields := bytes.Fields(rest)
	ticks := 0
	for _, f := range fields[11:13] { // utime and stime, in hundredths of a second
		n, err := strconv.Atoi(string(f))
		if err != nil {
			t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}
