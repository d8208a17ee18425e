package readers

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

const archives = "../../internal/lake/testdata"

// unpack unpacks a data directory of an earlier version.
func unpack(t *testing.T, name string) string {
	t.Helper()
	dir := t.TempDir()
	out, err := exec.Command("tar", "-xzf", filepath.Join(archives, name+".tar.gz"), "-C", dir).CombinedOutput()
	if err != nil {
		t.Fatalf("tar: %v\n%s", err, out)
	}
	return dir
}

// The archive of 524a9ec holds what it is kept for: every event that was loaded, in files with both defects.
func TestFixtureShowsBothDefects(t *testing.T) {
	dir := unpack(t, "data-524a9ec")
	lines, err := ReadSent(filepath.Join(archives, "data-524a9ec.sent.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]Row{}
	waiting := 0
	for _, l := range lines {
		if l.Row != nil && l.In == "table" {
			want["events"] = append(want["events"], l.Row)
		}
		if l.Row != nil && l.In == "stream" {
			waiting++
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "lake", "events", "data", "*", "*.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	if len(want["events"]) < 500 || waiting == 0 || len(files) == 0 {
		t.Fatalf("got %d events in the table, %d in the stream, %d files, want many", len(want["events"]), waiting, len(files))
	}
	src := Source{Files: map[string][]string{"events": files}, Tables: []*Table{Events}}
	report, err := CheckFiles(t.Context(), src, want)
	if err != nil {
		t.Fatal(err)
	}
	caught(t, report, "footers", "column path")
	caught(t, report, "hyparquet", "unreadable")
	caught(t, report, "arrow-go by position", "value where null was sent: email_sha256")
	caught(t, report, "arrow-go by position", "value where null was sent: partner_id")
	if n := report.Count("arrow-go by position", "missing row") + report.Count("arrow-go by position", "wrong value"); n > 0 {
		t.Errorf("got %d events missing or with other values, want none:\n%s", n, report)
	}
}

// program builds the program under test.
func program(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "sluice")
	build := exec.Command("go", "build", "-o", name, "./cmd/sluice")
	build.Dir = filepath.Join("..", "..")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the program: %v\n%s", err, out)
	}
	return name
}
