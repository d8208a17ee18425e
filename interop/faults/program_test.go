//go:build faults

package faults

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// program is the path of the sluice under test.
var program string

func TestMain(m *testing.M) {
	code := 1
	defer func() { os.Exit(code) }()
	dir, err := os.MkdirTemp("", "sluice-faults-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "sluice")
	build := exec.Command("go", "build", "-tags", "failpoint", "-o", program, "./cmd/sluice")
	build.Dir = filepath.Join("..", "..")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the program under test: %v\n%s", err, out)
		return
	}
	code = m.Run()
	if left := leftovers(); left != "" {
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
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), env...)
	var out, words bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &words
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("sluice %s: %w\n%s", args[0], err, words.String())
	}
	return out.String(), nil
}

// provisioned makes a dataset and returns its key.
func provisioned(t *testing.T, dir, id string, args ...string) string {
	t.Helper()
	out, err := sluice(t, nil, append([]string{"dataset", "create", id, "--data", dir, "--json"}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	var made struct {
		Key string `json:"api_key"`
	}
	if err := json.Unmarshal([]byte(out), &made); err != nil || made.Key == "" {
		t.Fatalf("dataset create: got %q (%v)", out, err)
	}
	return made.Key
}

// launch says how a server is started.
type launch struct {
	env    []string
	args   []string
	group  string        // directory of a control group to run in
	within time.Duration // to be ready; 0 means 20 s
	broken bool          // it need not become ready
}

// server is a sluice process that serves.
type server struct {
	cmd     *exec.Cmd
	url     string
	ops     string
	started time.Duration // from the start of the process to the first ready
	done    chan struct{} // its output has ended
	once    sync.Once

	mu    sync.Mutex
	words strings.Builder // everything it said
}

var served = regexp.MustCompile(`msg=serving api=(\S+) .*ops=(\S+)`)

// start runs serve on dir and returns once it is ready.
func start(t *testing.T, dir string, l launch) *server {
	t.Helper()
	s, err := begin(dir, l)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.stop(syscall.SIGKILL) })
	if l.within == 0 {
		l.within = 20 * time.Second
	}
	begun := time.Now()
	eventually(t, l.within, "serving", func() error {
		if s.ended() {
			t.Fatalf("serve ended:\n%s", s.said())
		}
		if s.address() == "" {
			return fmt.Errorf("it does not say where it listens:\n%s", s.said())
		}
		if l.broken {
			return nil
		}
		return s.ready()
	})
	s.started = time.Since(begun)
	return s
}

// begin starts serve and waits for nothing.
func begin(dir string, l launch) (*server, error) {
	s := &server{done: make(chan struct{})}
	s.cmd = exec.Command(program, append([]string{"serve", "--data", dir, "--listen", "127.0.0.1:0", "--ops", "127.0.0.1:0"}, l.args...)...)
	if l.group != "" { // joined before the program starts: what it reads first is its group's limit
		s.cmd.Args = append([]string{"sh", "-c", `echo $$ > "$0" && exec "$@"`, l.group + "/cgroup.procs"}, s.cmd.Args...)
		s.cmd.Path = "/bin/sh"
	}
	s.cmd.Env = append(append(os.Environ(), "SLUICE_FAILPOINT_SETTLE=1"), l.env...) // the ledger is held against all tables
	pipe, err := s.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	go s.listen(pipe)
	return s, nil
}

func (s *server) listen(pipe io.Reader) {
	defer close(s.done)
	lines := bufio.NewScanner(pipe)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		s.mu.Lock()
		s.words.WriteString(lines.Text() + "\n")
		if found := served.FindStringSubmatch(lines.Text()); found != nil {
			s.url, s.ops = found[1], found[2]
		}
		s.mu.Unlock()
	}
}

// address is where the senders' API listens, "" while that is not known.
func (s *server) address() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.url
}

func (s *server) said() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.words.String()
}

func (s *server) ended() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

func (s *server) ready() error {
	r, err := sender.Get(s.ops + "/readyz")
	if err != nil {
		return err
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		why, _ := io.ReadAll(r.Body)
		return fmt.Errorf("readyz: %d %s", r.StatusCode, why)
	}
	return nil
}

// stop sends the signal and waits for the end of the process. It returns its exit code.
func (s *server) stop(signal syscall.Signal) int {
	s.once.Do(func() {
		_ = s.cmd.Process.Signal(signal)
		<-s.done
		_ = s.cmd.Wait()
	})
	return s.cmd.ProcessState.ExitCode()
}

// answer is what came back for a request.
type answer struct {
	status int
	header http.Header
	body   []byte
}

var sender = http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 256, MaxIdleConns: 1024}}

// post sends a body as a sender would. An error means that there was no answer.
func (s *server) post(key, path, body string, headers ...string) (answer, error) {
	return s.call(http.MethodPost, key, path, body, headers...)
}

func (s *server) call(method, key, path, body string, headers ...string) (answer, error) {
	r, err := http.NewRequest(method, s.url+path, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	r.Header.Set("Authorization", "Bearer "+key)
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	a, err := sender.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer a.Body.Close()
	content, err := io.ReadAll(a.Body)
	return answer{a.StatusCode, a.Header, content}, err
}

// eventually asks again and again until there is no error, at most for the time given.
func eventually(t *testing.T, within time.Duration, what string, ask func() error) {
	t.Helper()
	deadline := time.Now().Add(within)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ask()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v: %v", what, within, err)
		}
		<-tick.C
	}
}

// pause lets a fault or a load last for a while.
func pause(d time.Duration) { <-time.After(d) }
