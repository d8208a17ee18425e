package sluice

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// make vulnerabilities finds what is in the database, and says so when there is none.
func TestVulnerabilities(t *testing.T) {
	const module = "github.com/nats-io/nats-server/v2"
	scan := func(env ...string) (string, int) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // it builds the programs
		defer cancel()
		cmd := exec.CommandContext(ctx, "tools/vulnerabilities", "go")
		cmd.Env = append(os.Environ(), env...)
		out, err := cmd.CombinedOutput()
		if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || exit.ExitCode() != 1) {
			t.Fatalf("%v\n%s", err, out)
		}
		return string(out), cmd.ProcessState.ExitCode()
	}
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700), os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	write("index/db.json", `{"modified":"2026-01-01T00:00:00Z"}`)
	write("index/modules.json", `[]`)
	if out, code := scan("GOVULNDB=file://" + dir); code != 0 || strings.Count(out, "scanned: modules and standard library") != 2 {
		t.Errorf("an empty database: got %d\n%s", code, out)
	}
	write("index/modules.json", `[{"path":"`+module+`","vulns":[{"id":"GO-0000-0001","modified":"2026-01-01T00:00:00Z"}]}]`)
	write("ID/GO-0000-0001.json", `{"schema_version":"1.3.1","id":"GO-0000-0001","modified":"2026-01-01T00:00:00Z","published":"2026-01-01T00:00:00Z",
		"summary":"an entry of this test","affected":[{"package":{"name":"`+module+`","ecosystem":"Go"},"ranges":[{"type":"SEMVER","events":[{"introduced":"0"}]}],
		"ecosystem_specific":{}}],"database_specific":{"url":"https://example.com/GO-0000-0001"}}`)
	if out, code := scan("GOVULNDB=file://" + dir); code != 1 || !strings.Contains(out, "GO-0000-0001") || !strings.Contains(out, module) {
		t.Errorf("a database with a vulnerability of %s: got %d\n%s", module, code, out)
	}
	if out, code := scan("GOVULNDB=", "HTTPS_PROXY=http://127.0.0.1:1"); code != 0 || strings.Count(out, "NOT SCANNED") != 2 {
		t.Errorf("no database: got %d\n%s", code, out)
	}
}
