package bucket

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/internal/servicetest"
	s3 "sluice/interop/gateway"
)

// A bucket that keeps versions keeps what was erased: the command says so, with an exit code of its own.
func TestErasureInABucketWithVersions(t *testing.T) {
	for name, c := range map[string]struct {
		start func(program, root string) (*s3.Gateway, error)
		code  int
		says  string
	}{
		"no versions": {s3.Start, 0, `"bucket_keeps_versions":false`},
		"versions":    {func(p, root string) (*s3.Gateway, error) { return s3.StartVersioned(p, root, false) }, 4, `"bucket_keeps_versions":true`},
		"object lock": {func(p, root string) (*s3.Gateway, error) { return s3.StartVersioned(p, root, true) }, 4, `"bucket_keeps_versions":true`},
	} {
		t.Run(name, func(t *testing.T) {
			g, err := c.start(buildOnce(t, program), t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(g.Stop)
			program := servicetest.Program{Path: buildOnce(t, sluice), Env: credentials}
			data := filepath.Join(t.TempDir(), "data")
			key, _, err := program.CreateDataset(t.Context(), data, "shop")
			if err != nil {
				t.Fatal(err)
			}
			tables := []string{"--lake", "s3://" + bucket + "/lake", "--s3-endpoint", g.URL, "--s3-region", s3.Region, "--s3-path-style"}
			s, err := servicetest.Launch{Program: program, Data: data, Within: time.Minute, Args: append([]string{"--commit-every", "200ms"}, tables...)}.Start()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.Stop(syscall.SIGKILL) })
			l := &servicetest.Ledger{ID: "shop", Key: key}
			l.Settle(t, s, time.Minute)
			if warned := strings.Contains(s.Said(), "keeps versions"); warned != (c.code != 0) {
				t.Errorf("the server warned: %v, want %v:\n%s", warned, c.code != 0, s.Said())
			}
			mark := l.Entries()[0].Marks[0]
			before := versions(t, g)
			out, err := program.Run(t.Context(), append([]string{"erase", "--partner-id", mark, "--yes", "--json", "--data", data}, tables...)...)
			code := 0
			if exit, ok := errors.AsType[*exec.ExitError](err); ok {
				code = exit.ExitCode()
			}
			if compact := strings.Join(strings.Fields(out), ""); code != c.code || !strings.Contains(compact, `"rows":1`) || !strings.Contains(compact, c.says) {
				t.Errorf("got code %d, %s %v, want %d and %s", code, out, err, c.code, c.says)
			}
			if c.code != 0 && (versions(t, g) <= before || !strings.Contains(err.Error(), "not from the bucket")) {
				t.Errorf("got %d versions, %d before, and %v, so the test proves nothing, or nobody was told", versions(t, g), before, err)
			}
		})
	}
}

// versions counts the versions that the server keeps of objects that were deleted or replaced.
func versions(t *testing.T, g *s3.Gateway) int {
	t.Helper()
	n, err := g.Kept()
	if err != nil {
		t.Fatal(err)
	}
	return n
}
