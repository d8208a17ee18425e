//go:build faults

package faults

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"sluice/internal/servicetest"
	"sluice/interop/loopdisk"
)

// program is the sluice under test.
var program servicetest.Program

func TestMain(m *testing.M) {
	code := 1
	defer func() { os.Exit(code) }()
	if os.Getenv(attackVariable) != "" {
		code = attackFromInput()
		return
	}
	dir, err := os.MkdirTemp("", "sluice-faults-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	defer os.RemoveAll(dir)
	if program, err = servicetest.Build(filepath.Join("..", ".."), dir, "-tags", "failpoint"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	code = m.Run()
	if left := loopdisk.Leftovers(); left != "" {
		fmt.Fprintf(os.Stderr, "loop devices are left:\n%s\n", left)
		code = 1
	}
}

// brief says whether only the part for every commit is wanted.
func brief() bool { return os.Getenv("FAULTS") == "ci" }

// rounds is how often a fault is tried.
func rounds(t *testing.T, all, ci int) int {
	t.Helper()
	if s := os.Getenv("FAULT_ROUNDS"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			t.Fatalf("FAULT_ROUNDS=%s: not a number of rounds", s)
		}
		return n
	}
	if brief() {
		return ci
	}
	return all
}

// sluice runs a command to its end and returns what it printed to stdout.
func sluice(t *testing.T, env []string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	return servicetest.Program{Path: program.Path, Env: env}.Run(ctx, args...)
}

// provisioned makes a dataset and returns its key.
func provisioned(t *testing.T, dir, id string, args ...string) string {
	t.Helper()
	key, _, err := program.CreateDataset(t.Context(), dir, id, args...)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// launch says how a server is started.
type launch struct {
	env    []string
	args   []string
	group  string        // directory of a control group to run in
	within time.Duration // to be ready; 0 means 20 s
}

func (l launch) of(dir string) servicetest.Launch {
	env := append([]string{"SLUICE_FAILPOINT_SETTLE=1"}, l.env...) // the ledger is held against all tables
	return servicetest.Launch{Program: program, Data: dir, Args: l.args, Env: env, Group: l.group, Within: l.within}
}

// server is a sluice process that serves.
type server struct{ *servicetest.Server }

// start runs serve on dir and returns once it is ready.
func start(t *testing.T, dir string, l launch) *server {
	t.Helper()
	s, err := l.of(dir).Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Stop(syscall.SIGKILL) })
	return &server{s}
}

// begin starts serve and waits for nothing.
func begin(dir string, l launch) (*server, error) {
	s, err := l.of(dir).Begin()
	return &server{s}, err
}

// post sends a body as a sender would. An error means that there was no answer.
func (s *server) post(key, path, body string, headers ...string) (servicetest.Answer, error) {
	return s.Call(http.MethodPost, key, path, body, headers...)
}

// eventually asks again and again until there is no error, at most for the time given.
func eventually(t *testing.T, within time.Duration, what string, ask func() error) {
	t.Helper()
	servicetest.Eventually(t, within, what, ask)
}

// pause lets a fault or a load last for a while.
func pause(d time.Duration) { <-time.After(d) }
