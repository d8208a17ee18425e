// Package servicetest is for tests: it runs the real sluice in processes of its own.
package servicetest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Program is a sluice that can be run.
type Program struct {
	Path string
	Env  []string // added to the environment of this process
}

// Build builds sluice into dir. root is the directory of the repository; flags go to go build. Where make has just
// built it for all tests, and says so in SERVICE_PROGRAM, it is not linked for each of them.
func Build(root, dir string, flags ...string) (Program, error) {
	p := Program{Path: filepath.Join(dir, "sluice")}
	if built := os.Getenv("SERVICE_PROGRAM"); built != "" && len(flags) == 0 {
		return p, os.Symlink(built, p.Path)
	}
	cmd := exec.Command("go", append(append([]string{"build", "-trimpath"}, flags...), "-o", p.Path, "./cmd/sluice")...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // as it is released
	if out, err := cmd.CombinedOutput(); err != nil {
		return Program{}, fmt.Errorf("build the program under test: %w\n%s", err, out)
	}
	return p, nil
}

func (p Program) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, p.Path, args...)
	cmd.Env = append(os.Environ(), p.Env...)
	return cmd
}

// Run runs a command to its end and returns what it printed to stdout. Its error has what it printed to stderr.
func (p Program) Run(ctx context.Context, args ...string) (string, error) {
	cmd := p.command(ctx, args...)
	var out, words bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &words
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("sluice %s: %w\n%s", strings.Join(args, " "), err, words.String())
	}
	return out.String(), nil
}

// CreateDataset makes a dataset in a data directory and returns its key and the key's id. args are more arguments.
func (p Program) CreateDataset(ctx context.Context, data, id string, args ...string) (key, keyID string, err error) {
	out, err := p.Run(ctx, append([]string{"dataset", "create", id, "--data", data, "--json"}, args...)...)
	if err != nil {
		return "", "", err
	}
	var made struct {
		Dataset string `json:"data_set_id"`
		KeyID   string `json:"key_id"`
		Key     string `json:"api_key"`
	}
	if err := json.Unmarshal([]byte(out), &made); err != nil || made.Dataset != id || made.KeyID == "" || made.Key == "" {
		return "", "", fmt.Errorf("dataset create --json printed something else (%w)", err)
	}
	return made.Key, made.KeyID, nil
}

// Await asks again and again until there is no error, at most for the time given.
func Await(within time.Duration, what string, ask func() error) error {
	deadline := time.Now().Add(within)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ask()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s: not within %v: %w", what, within, err)
		}
		<-tick.C
	}
}

// Eventually is Await for a test, which ends if there still is an error.
func Eventually(t testing.TB, within time.Duration, what string, ask func() error) {
	t.Helper()
	if err := Await(within, what, ask); err != nil {
		t.Fatal(err)
	}
}
