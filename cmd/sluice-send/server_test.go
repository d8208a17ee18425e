package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(cleaning{m}, map[string]func(){"sluice-send": main})
}

// cleaning removes the built programs after the tests.
type cleaning struct{ m *testing.M }

func (c cleaning) Run() int {
	code := c.m.Run()
	if programsDir != "" {
		os.RemoveAll(programsDir)
	}
	return code
}

var programsDir string

// programs builds both programs once and gives their directory: what must survive kill -9 has to be a real process.
var programs = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "sluice-send-test")
	if err != nil {
		return "", err
	}
	programsDir = dir
	cmd := exec.Command("go", "build", "-o", dir, "./cmd/sluice", "./cmd/sluice-send")
	cmd.Dir = filepath.Join("..", "..")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return dir, nil
})

// server is a real service in a process of its own.
type server struct {
	tb     testing.TB
	bin    string
	data   string
	listen string // host:port, the same after a restart
	key    string
	cmd    *exec.Cmd
	ended  chan struct{}
}

// startServer provisions the dataset and serves it.
func startServer(tb testing.TB, dataset string) *server {
	tb.Helper()
	bin, err := programs()
	if err != nil {
		tb.Fatal(err)
	}
	s := &server{tb: tb, bin: bin, data: filepath.Join(tb.TempDir(), "data"), listen: "127.0.0.1:0"}
	s.key = s.create(dataset)
	s.start()
	tb.Cleanup(func() { s.kill() })
	return s
}

// create makes a dataset and gives its key.
func (s *server) create(dataset string, flags ...string) string {
	s.tb.Helper()
	out, err := exec.Command(filepath.Join(s.bin, "sluice"), append([]string{"dataset", "create", dataset, "--data", s.data, "--json"}, flags...)...).Output()
	if err != nil {
		s.tb.Fatalf("dataset create: %v", err)
	}
	var made struct {
		Key string `json:"api_key"`
	}
	if err := json.Unmarshal(out, &made); err != nil || made.Key == "" {
		s.tb.Fatalf("dataset create: no key in its answer: %v", err)
	}
	return made.Key
}

// start serves and returns when a POST would be taken.
func (s *server) start() {
	s.tb.Helper()
	s.cmd = exec.Command(filepath.Join(s.bin, "sluice"), "serve", "--data", s.data, "--listen", s.listen, "--ops", "127.0.0.1:0",
		"--log-format", "json", "--commit-every", "500ms")
	log, err := s.cmd.StderrPipe()
	if err != nil {
		s.tb.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		s.tb.Fatal(err)
	}
	s.ended = make(chan struct{})
	ready := make(chan string, 1)
	go func() {
		defer close(s.ended)
		var last bytes.Buffer
		for scan := bufio.NewScanner(log); scan.Scan(); {
			var line struct{ Msg, API string }
			if json.Unmarshal(scan.Bytes(), &line) == nil && line.API != "" {
				ready <- line.API
			}
			last.Write(scan.Bytes())
		}
		_ = s.cmd.Wait() // it was killed
		select {
		case ready <- "ended: " + last.String():
		default:
		}
	}()
	select {
	case url := <-ready:
		addr, ok := strings.CutPrefix(url, "http://")
		if !ok {
			s.tb.Fatalf("the server did not start: %s", url)
		}
		s.listen = addr
	case <-time.After(60 * time.Second):
		s.tb.Fatal("the server did not start within a minute")
	}
}

// kill ends the server as a power cut would, as far as a process can tell.
func (s *server) kill() {
	_ = s.cmd.Process.Kill() // it may have ended
	<-s.ended
}

func (s *server) url() string { return "http://" + s.listen }

// storedRow is what the tests look at in a stored event.
type storedRow struct {
	EventTime  string          `json:"event_time"`
	EventType  string          `json:"event_type"`
	Value      json.Number     `json:"value"`
	Email      string          `json:"email_sha256"`
	CustomData json.RawMessage `json:"custom_data"`
}

// export reads the stored rows, in constant memory, and gives their number.
func (s *server) export(each func(*storedRow)) (int, error) {
	cmd := exec.Command(filepath.Join(s.bin, "sluice"), "export", "--data", s.data, "--format", "ndjson")
	var words bytes.Buffer
	cmd.Stderr = &words
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	n := 0
	d := json.NewDecoder(bufio.NewReaderSize(out, 1<<20))
	for {
		var row storedRow
		if err = d.Decode(&row); err != nil {
			break
		}
		n++
		if each != nil {
			each(&row)
		}
	}
	if !errors.Is(err, io.EOF) {
		return n, errors.Join(err, cmd.Wait())
	}
	if err := cmd.Wait(); err != nil {
		return n, fmt.Errorf("export: %w: %s", err, words.String())
	}
	return n, nil
}

// waitStored polls until at least n rows are stored.
func (s *server) waitStored(n int, within time.Duration) {
	s.tb.Helper()
	var got int
	var err error
	eventually(s.tb, within, func() bool {
		got, err = s.export(nil)
		return err == nil && got >= n
	}, func() string { return fmt.Sprintf("%d rows stored, want %d; %v", got, n, err) })
}

// eventually polls until done, and fails with what is left to say.
func eventually(tb testing.TB, within time.Duration, done func() bool, say func() string) {
	tb.Helper()
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-deadline.C:
			tb.Fatal(say())
		}
	}
}
