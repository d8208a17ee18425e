package lake

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// sumProcess is the environment of a process that sums: the directory of the tables, and at which step it is killed.
const sumProcess, sumProcessStep = "SLUICE_TEST_SUM", "SLUICE_TEST_SUM_STEP"

var sumNow = time.Date(2026, 10, 25, 5, 0, 0, 0, time.UTC)

// TestSumProcess is such a process. It kills itself as kill -9 does.
func TestSumProcess(t *testing.T) {
	dir := os.Getenv(sumProcess)
	if dir == "" {
		return // TestKilledInSums starts it
	}
	left, err := strconv.Atoi(os.Getenv(sumProcessStep))
	if err != nil {
		t.Fatal(err)
	}
	l := openLake(t, Options{Store: at(t, dir), Now: func() time.Time { return sumNow }, Step: func(string) error {
		if left--; left == 0 {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // the signal is on its way
		}
		return nil
	}})
	compactAll(t, l)
	sumAll(t, l)
}

// Kill -9 of a process at each step of its sums, of days that are summed first and of those that are summed again: at any time each
// number is there once at the most, and at the end all are, and right.
func TestKilledInSums(t *testing.T) {
	t.Parallel()
	dir, r := t.TempDir(), rand.New(rand.NewPCG(1, 2))
	l := openLake(t, Options{Store: at(t, dir), Now: func() time.Time { return sumNow }})
	var rows []Hour
	kills, to := 0, uint64(0)
	for range 2 { // the second time hours come to days that are summed
		for range 3 {
			var some []Hour
			for range 40 {
				hour := sumNow.Add(-time.Duration(6+r.IntN(40)) * time.Hour).Truncate(time.Hour).Unix()
				some = append(some, Hour{Hour: hour, DatasetID: fmt.Sprint("shop-", r.IntN(5)), Kind: "events", Name: "purchase", Field: "accepted", Count: 1 + r.Int64N(9), Value: float64(r.IntN(8))})
			}
			from := Watermarks{Events: to, Rejections: to, Hours: to}
			to++
			if err := l.Commit(t.Context(), Batch{Spans: []Span{{From: from, To: to}}, Hours: some}, 0); err != nil {
				t.Fatal(err)
			}
			rows = append(rows, some...)
		}
		for step := 1; killedAt(t, dir, step); step++ {
			kills++
			storedSums(t, openLake(t, Options{Store: at(t, dir), Now: func() time.Time { return sumNow }}))
		}
		end := sumNow.Add(-summedAfter).Unix()
		seen := openLake(t, Options{Store: at(t, dir), Now: func() time.Time { return sumNow }})
		if got, want := storedSums(t, seen), plainSums(rows, end-end%secondsPerDay); len(want) == 0 || !maps.Equal(got, want) {
			t.Errorf("after %d kills: got %d sums, want %d others", kills, len(got), len(want))
		}
	}
	if kills < 8 {
		t.Errorf("got %d kills, want one at each step", kills)
	}
}

// killedAt runs a process that sums and is killed at a step. It says whether it came so far: each begins where the one before was
// killed.
func killedAt(t *testing.T, dir string, step int) bool {
	t.Helper()
	p := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestSumProcess$")
	p.Env = append(os.Environ(), sumProcess+"="+dir, fmt.Sprint(sumProcessStep, "=", step))
	out, err := p.CombinedOutput()
	if err == nil {
		return false
	}
	if failed, ok := errors.AsType[*exec.ExitError](err); !ok || failed.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("step %d: %v\n%s", step, err, out)
	}
	return true
}
