package readers

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A data directory of 524a9ec is repaired by the program, which is killed with -9 at every step on the way: the readers
// find each event once, with the values that were sent, in files that all of them can read.
func TestRepairIsKilled(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "sluice")
	build := exec.Command("go", "build", "-tags", "failpoint", "-o", bin, "./cmd/sluice")
	build.Dir = filepath.Join("..", "..")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the program: %v\n%s", err, out)
	}
	dir := unpack(t, "data-524a9ec")
	lines, err := ReadSent(filepath.Join(archives, "data-524a9ec.sent.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	var want []Row
	for _, l := range lines {
		if l.Row != nil && l.In == "table" {
			want = append(want, l.Row)
		}
	}
	for i, at := range []string{
		"rejections.relocate:1", "events.relocate:1", "events.metadata:1", "events.committed:1", // the directory was moved by unpacking it
		"rejections.repair:1", "hours.metadata:1", "hours.committed:2", "hours.forget:1", "hours.expire:2",
		"events.repair:1", "events.manifest:2", "events.list:1", "events.metadata:1", "events.committed:1", "events.committed:2",
		"events.forget:1", "events.expire:1", "events.expire:2", "events.remove:3",
	} {
		repair := exec.Command(bin, "lake", "repair", "--data", dir)
		repair.Env = append(os.Environ(), "SLUICE_FAILPOINT="+at)
		out, err := repair.CombinedOutput()
		if err == nil || repair.ProcessState.ExitCode() != -1 {
			t.Fatalf("%s: got %v, want the program to be killed there\n%s", at, err, out)
		}
		if i >= 3 && (i%3 == 0 || strings.Contains(at, "committed")) { // a look any earlier would finish the move
			checkEvents(t, at, dir, want, false)
		}
	}
	if out, err := exec.Command(bin, "lake", "repair", "--data", dir).CombinedOutput(); err != nil {
		t.Fatalf("repair: %v\n%s", err, out)
	}
	if out, err := exec.Command(bin, "lake", "check", "--data", dir).CombinedOutput(); err != nil {
		t.Fatalf("check: %v\n%s", err, out)
	}
	checkEvents(t, "at the end", dir, want, true)
}

// checkEvents compares the table with what was sent. Before the repair is done only readers that go by position can: the
// values where there were none are not yet gone, but no event may be lost or doubled.
func checkEvents(t *testing.T, when, dir string, want []Row, repaired bool) {
	t.Helper()
	l, err := openLake(t.Context(), settings{dir: filepath.Join(dir, "lake"), now: time.Now})
	if err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	src := source(t, l, filepath.Join(dir, "lake"))
	src.Tables = []*Table{Events}
	check := CheckFiles
	if repaired {
		check = Check
	}
	report, err := check(t.Context(), src, map[string][]Row{"events": want})
	if err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	if repaired {
		if !report.Empty() {
			t.Errorf("%s: %s", when, report)
		}
		return
	}
	for _, what := range []string{"missing row", "row too many", "wrong value"} {
		if n := report.Count("arrow-go by position", what); n > 0 {
			t.Errorf("%s: got %d times %q, want never", when, n, what)
		}
	}
}
