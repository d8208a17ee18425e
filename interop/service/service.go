// Package service runs the real service for tests of other packages, in a process of its own.
package service

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Service is a running service. It keeps its address over restarts.
type Service struct {
	Program string // path of sluice
	URL     string
	Ops     string // address of the operators' listener, with a slash at its end
	Key     string // of the dataset

	t      *testing.T
	data   string
	args   []string // more of serve
	listen string
	cmd    *exec.Cmd
	ended  chan struct{}
}

// Build builds sluice into dir and gives its path. root is the directory of the repository.
func Build(root, dir string) (string, error) {
	program := filepath.Join(dir, "sluice")
	cmd := exec.Command("go", "build", "-o", program, "./cmd/sluice")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the program under test: %w\n%s", err, out)
	}
	return program, nil
}

// Start provisions the dataset and serves it until the test ends. args are more arguments of serve.
func Start(t *testing.T, program, dataset string, args ...string) *Service {
	t.Helper()
	s := &Service{Program: program, t: t, data: filepath.Join(t.TempDir(), "data"), listen: "127.0.0.1:0", args: args}
	out, err := exec.Command(program, "dataset", "create", dataset, "--data", s.data, "--json").Output()
	must(t, err)
	var made struct {
		Key string `json:"api_key"`
	}
	must(t, json.Unmarshal(out, &made))
	s.Key = made.Key
	s.Serve()
	t.Cleanup(s.Kill)
	return s
}

// Serve starts the service again after Kill.
func (s *Service) Serve() {
	s.t.Helper()
	s.cmd = exec.Command(s.Program, append([]string{
		"serve", "--data", s.data, "--listen", s.listen, "--ops", "127.0.0.1:0", "--log-format", "json", "--commit-every", "500ms",
	}, s.args...)...)
	log, err := s.cmd.StderrPipe()
	must(s.t, err)
	must(s.t, s.cmd.Start())
	ready, ended := make(chan string, 1), make(chan struct{})
	s.ended = ended
	go func(cmd *exec.Cmd) {
		defer close(ended)
		for scan := bufio.NewScanner(log); scan.Scan(); {
			var line struct{ API, Ops string }
			if json.Unmarshal(scan.Bytes(), &line) == nil && line.API != "" {
				s.Ops = line.Ops
				ready <- line.API
			}
		}
		_ = cmd.Wait() // it was killed
	}(s.cmd)
	select {
	case s.URL = <-ready:
		s.listen = s.URL[len("http://"):]
	case <-ended:
		s.t.Fatal("the service ended instead of starting")
	case <-time.After(time.Minute):
		s.t.Fatal("the service did not start within a minute")
	}
}

// Run runs a command of the program on the service's data directory, with stdin, and returns its standard output.
func (s *Service) Run(stdin string, args ...string) string {
	s.t.Helper()
	cmd := exec.Command(s.Program, append(args, "--data", s.data)...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.Output()
	must(s.t, err)
	return strings.TrimSpace(string(out))
}

// Kill ends the service as kill -9 does.
func (s *Service) Kill() {
	_ = s.cmd.Process.Kill() // it may have ended
	<-s.ended
}

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
	out, err := exec.Command(s.Program, "export", "--data", s.data, "--format", "ndjson").Output()
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
	deadline := time.Now().Add(time.Minute)
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		seen := s.export()
		total := 0
		for _, times := range seen {
			total += times
		}
		if total >= n {
			return seen
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("%d events are stored, want %d", total, n)
		}
		<-tick.C
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
