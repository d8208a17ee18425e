package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// uploadRows is how many rows the crash test sends. UPLOAD_ROWS=1000000 is the size of the promise; the usual one
// is small enough for every run.
func uploadRows(t *testing.T) int {
	t.Helper()
	text := os.Getenv("UPLOAD_ROWS")
	if text == "" {
		return 50_000
	}
	n, err := strconv.Atoi(text)
	must(t, err)
	return n
}

// maxMemory is the promise: under 200 MiB, whatever the file's size.
const maxMemory = 200 << 20

// An uploader that is killed three times and a server that is killed twice store every good row once.
func TestUploadSurvivesKills(t *testing.T) {
	n := uploadRows(t)
	s := startServer(t, "spring")
	path := filepath.Join(t.TempDir(), "orders.csv")
	bad := every(1000)
	orders(t, path, n, bad)
	u := &uploads{t: t, server: s, path: path, batch: max(50, n/2000)}

	// Shares of the file at which something dies; -1 is the uploader, 1 the server, which comes back at once.
	for _, death := range []struct {
		at  float64
		who int
	}{{0.10, -1}, {0.25, 1}, {0.40, -1}, {0.60, 1}, {0.75, -1}} {
		u.start()
		u.reach(int(float64(n) * death.at))
		if death.who < 0 {
			u.kill()
			continue
		}
		s.kill()
		s.start()
	}
	u.start()
	report := u.finish()

	if report.Rows != n || report.Rejected != n/1000 || report.Accepted != n-n/1000 {
		t.Fatalf("got %+v, want %d rows and %d rejected", report, n, n/1000)
	}
	t.Logf("%d rows, %d resumed, %d answered from the service's memory; %d MiB at most", report.Rows, report.Files[0].Resumed, report.Files[0].Replayed, u.memory.Load()>>20)
	if used := u.memory.Load(); used > maxMemory {
		t.Errorf("the uploader took %d MiB", used>>20)
	}
	checkRejected(t, path, n, bad)
	checkStored(t, s, path, n, bad)
}

// checkStored wants every good row stored once, as it was in the file, and no other.
func checkStored(t *testing.T, s *server, path string, n int, bad func(int) bool) {
	t.Helper()
	s.waitStored(n-n/1000, 5*time.Minute)
	data, err := os.ReadFile(path)
	must(t, err)
	lines := strings.Split(string(data), "\n")[1:]
	seen := make([]uint8, n)
	total, err := s.export(func(r *storedRow) {
		var custom struct{ Order string }
		must(t, json.Unmarshal(r.CustomData, &custom))
		i, err := strconv.Atoi(custom.Order)
		if err != nil || i < 0 || i >= n {
			t.Fatal("a stored row is none of the file's")
		}
		seen[i]++
		want := strings.Split(lines[i], ",")
		at, err := time.Parse(time.RFC3339, r.EventTime)
		must(t, err)
		value, err := r.Value.Float64()
		must(t, err)
		if wantValue, _ := strconv.ParseFloat(want[3], 64); fmt.Sprint(at.Unix()) != want[0] || r.EventType != want[1] || value != wantValue {
			t.Fatalf("row %d is stored otherwise than it was sent", i)
		}
	})
	must(t, err)
	if total != n-n/1000 {
		t.Errorf("%d rows are stored, want %d", total, n-n/1000)
	}
	for i, times := range seen {
		if want := uint8(1); times != want && !bad(i) || times != 0 && bad(i) {
			t.Fatalf("row %d is stored %d times", i, times)
		}
	}
}

func checkRejected(t *testing.T, path string, n int, bad func(int) bool) {
	t.Helper()
	lines := rejectedLines(t, path+".rejected.ndjson")
	for i := range n {
		if bad(i) && lines[int64(i+2)] != 1 {
			t.Fatalf("line %d is listed %d times", i+2, lines[int64(i+2)])
		}
	}
	if len(lines) != n/1000 {
		t.Errorf("%d lines are listed, want %d", len(lines), n/1000)
	}
}

// uploads runs one upload in as many processes as it takes.
type uploads struct {
	t      *testing.T
	server *server
	path   string
	batch  int
	cmd    *exec.Cmd // nil: none runs
	out    bytes.Buffer
	words  bytes.Buffer
	memory atomic.Int64 // the most that any of them took
	watch  sync.WaitGroup
}

func (u *uploads) start() {
	u.t.Helper()
	if u.cmd != nil {
		return // the one that runs goes on
	}
	u.out.Reset()
	u.words.Reset()
	u.cmd = exec.Command(filepath.Join(u.server.bin, "sluice-send"), "upload", u.path, "--hash", "email=email_sha256", "--json",
		"--batch", fmt.Sprint(u.batch), "--give-up-after", "2m")
	u.cmd.Env = append(os.Environ(), "SLUICE_API_KEY="+u.server.key, "SLUICE_URL="+u.server.url(), "SLUICE_DATASET=spring")
	u.cmd.Stdout, u.cmd.Stderr = &u.out, &u.words
	must(u.t, u.cmd.Start())
	pid := u.cmd.Process.Pid
	u.watch.Go(func() {
		for used := int64(1); used > 0; used = peakMemory(pid) {
			u.memory.Store(max(u.memory.Load(), used))
			<-time.After(20 * time.Millisecond)
		}
	})
}

// peakMemory is the most that a running process ever held, 0 once it has ended. What the kernel tells of an ended child
// will not do: that includes its parent's memory at the fork.
func peakMemory(pid int) int64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	var kib int64
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		return 0 // a zombie has none
	}
	return kib << 10
}

// reach waits until about so many rows are booked, and some more time that is different in every run, so that the kill
// does not always fall just behind a write of the checkpoint.
func (u *uploads) reach(rows int) {
	u.t.Helper()
	deadline := time.Now().Add(5 * time.Minute)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		data, err := os.ReadFile(u.path + ".checkpoint")
		if err == nil && (bytes.Count(data, []byte("\n"))-1)*u.batch >= rows {
			break
		}
		if time.Now().After(deadline) {
			u.t.Fatalf("%d rows are not reached\n%s", rows, u.words.String())
		}
	}
	<-time.After(rand.N(5 * time.Millisecond))
}

func (u *uploads) kill() {
	u.t.Helper()
	must(u.t, u.cmd.Process.Kill())
	err := u.cmd.Wait()
	if status, ok := u.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !status.Signaled() {
		u.t.Fatalf("the uploader had ended before it was killed (%v): the test shows nothing\n%s%s", err, u.out.String(), u.words.String())
	}
	u.ended()
}

func (u *uploads) ended() {
	u.watch.Wait()
	u.cmd = nil
}

// finish waits for the end and reads the summary.
func (u *uploads) finish() *summary {
	u.t.Helper()
	err := u.cmd.Wait()
	if code := u.cmd.ProcessState.ExitCode(); code != exitRejected {
		u.t.Fatalf("exit code %d (%v)\n%s%s", code, err, u.out.String(), u.words.String())
	}
	u.ended()
	sum := new(summary)
	must(u.t, json.Unmarshal(u.out.Bytes(), sum))
	return sum
}
