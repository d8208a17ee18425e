// Package service runs the real service for tests of other packages, in a process of its own.
package service

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/internal/servicetest"
)

// Service is a running service. It keeps its address over restarts.
type Service struct {
	Program string // path of sluice
	URL     string
	Ops     string // address of the operators' listener, with a slash at its end
	Key     string // of the dataset

	t      *testing.T
	launch servicetest.Launch
	server *servicetest.Server
}

// Build builds sluice into dir and gives its path. root is the directory of the repository.
func Build(root, dir string) (string, error) {
	p, err := servicetest.Build(root, dir)
	return p.Path, err
}

// Start provisions the dataset and serves it until the test ends. args are more arguments of serve.
func Start(t *testing.T, program, dataset string, args ...string) *Service {
	t.Helper()
	p := servicetest.Program{Path: program}
	s := &Service{Program: program, t: t, launch: servicetest.Launch{
		Program: p, Data: filepath.Join(t.TempDir(), "data"), Args: append([]string{"--commit-every", "500ms"}, args...), Within: time.Minute,
	}}
	var err error
	s.Key, _, err = p.CreateDataset(t.Context(), s.launch.Data, dataset)
	must(t, err)
	s.Serve()
	t.Cleanup(s.Kill)
	return s
}

// Serve starts the service again after Kill.
func (s *Service) Serve() {
	s.t.Helper()
	var err error
	s.server, err = s.launch.Start()
	must(s.t, err)
	s.URL, s.Ops = s.server.URL(), s.server.Ops()+"/"
	s.launch.Listen = strings.TrimPrefix(s.URL, "http://")
}

// Run runs a command of the program on the service's data directory, with stdin, and returns its standard output.
func (s *Service) Run(stdin string, args ...string) string {
	s.t.Helper()
	cmd := exec.Command(s.Program, append(args, "--data", s.launch.Data)...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.Output()
	must(s.t, err)
	return strings.TrimSpace(string(out))
}

// Kill ends the service as kill -9 does.
func (s *Service) Kill() { s.server.Stop(syscall.SIGKILL) }

// Get reads a page of the service.
func (s *Service) Get(path string) []byte {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.URL+path, nil)
	must(s.t, err)
	r.Header.Set("Authorization", "Bearer "+s.Key)
	answer, err := http.DefaultClient.Do(r)
	must(s.t, err)
	defer answer.Body.Close()
	var b bytes.Buffer
	_, err = b.ReadFrom(answer.Body)
	must(s.t, err)
	if answer.StatusCode != http.StatusOK {
		s.t.Fatalf("GET %s: got %d %s", path, answer.StatusCode, b.Bytes())
	}
	return b.Bytes()
}

// export counts the stored events by custom_data.order.
func (s *Service) export() map[string]int {
	s.t.Helper()
	out, err := exec.Command(s.Program, "export", "--data", s.launch.Data, "--format", "ndjson").Output()
	must(s.t, err)
	seen := map[string]int{}
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var row struct {
			CustomData struct{ Order string } `json:"custom_data"`
		}
		must(s.t, d.Decode(&row))
		seen[row.CustomData.Order]++
	}
	return seen
}

// Stored waits until n events are stored, and gives how often each order is.
func (s *Service) Stored(n int) map[string]int {
	s.t.Helper()
	var seen map[string]int
	servicetest.Eventually(s.t, 2*time.Minute, "stored", func() error {
		seen = s.export()
		total := 0
		for _, times := range seen {
			total += times
		}
		if total < n {
			return fmt.Errorf("%d events, want %d", total, n)
		}
		return nil
	})
	return seen
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
