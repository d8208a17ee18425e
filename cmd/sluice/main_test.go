package main

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
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"sluice/internal/enginetest"
)

func TestMain(m *testing.M) {
	if os.Getenv("BE_THE_PROGRAM") != "" {
		main()
		return
	}
	testscript.Main(withServers{m}, map[string]func(){"sluice": main})
}

// withServers runs the tests and removes the NATS server that they built.
type withServers struct{ m *testing.M }

func (w withServers) Run() int { return enginetest.Main(w.m) }

// Scripts of commands and what they print, without a server running on the directory.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata"})
}

// program is this test binary acting as sluice.
func program(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = append(os.Environ(), "BE_THE_PROGRAM=1")
	return cmd
}

// sluice runs a command to its end and returns what it printed to stdout.
func sluice(t testing.TB, args ...string) string {
	t.Helper()
	cmd := program(t.Context(), args...)
	var out, words bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &words
	if err := cmd.Run(); err != nil {
		t.Fatalf("sluice %s: %v\n%s", strings.Join(args, " "), err, words.String())
	}
	return out.String()
}

// server is a sluice process that serves.
type server struct {
	cmd     *exec.Cmd
	url     string
	ops     string
	mu      sync.Mutex
	words   strings.Builder // everything it said
	started time.Duration   // from the start of the process to the first ready
	done    chan struct{}
}

var served = regexp.MustCompile(`msg=serving api=(\S+) .*ops=(\S+)`)

// start runs serve on dir and returns once it is ready.
func start(t testing.TB, dir string, args ...string) *server {
	t.Helper()
	begin := time.Now()
	s := &server{done: make(chan struct{})}
	s.cmd = program(context.Background(), append([]string{"serve", "--data", dir, "--listen", "127.0.0.1:0", "--ops", "127.0.0.1:0"}, args...)...)
	pipe, err := s.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.stop(syscall.SIGKILL) })
	address := make(chan []string, 1)
	go s.listen(pipe, address)
	select {
	case found := <-address:
		s.url, s.ops = found[1], found[2]
	case <-s.done:
		t.Fatalf("serve ended:\n%s", s.said())
	case <-time.After(20 * time.Second):
		t.Fatalf("serve does not say where it listens:\n%s", s.said())
	}
	eventually(t, 20*time.Second, "ready", func() error { return s.ready() })
	s.started = time.Since(begin)
	return s
}

func (s *server) listen(pipe io.Reader, address chan<- []string) {
	defer close(s.done)
	lines := bufio.NewScanner(pipe)
	for lines.Scan() {
		s.mu.Lock()
		s.words.WriteString(lines.Text() + "\n")
		s.mu.Unlock()
		if found := served.FindStringSubmatch(lines.Text()); found != nil {
			address <- found
		}
	}
}

func (s *server) said() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.words.String()
}

func (s *server) ready() error {
	r, err := http.Get(s.ops + "/readyz")
	if err != nil {
		return err
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		return fmt.Errorf("readyz: %d", r.StatusCode)
	}
	return nil
}

// stop sends the signal and waits for the end of the process. It returns its exit code.
func (s *server) stop(signal syscall.Signal) int {
	_ = s.cmd.Process.Signal(signal)
	<-s.done
	_ = s.cmd.Wait()
	return s.cmd.ProcessState.ExitCode()
}

// answer is what came back for a request.
type answer struct {
	status int
	header http.Header
	body   []byte
}

var sender = http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}

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

// provisioned makes a dataset and returns its key and the key's id.
func provisioned(t testing.TB, dir, id string, args ...string) (key, keyID string) {
	t.Helper()
	var made struct {
		Dataset string `json:"data_set_id"`
		KeyID   string `json:"key_id"`
		Key     string `json:"api_key"`
	}
	out := sluice(t, append([]string{"dataset", "create", id, "--data", dir, "--json"}, args...)...)
	if err := json.Unmarshal([]byte(out), &made); err != nil || made.Dataset != id || made.KeyID == "" || made.Key == "" {
		t.Fatalf("dataset create --json: got %q (%v)", out, err)
	}
	return made.Key, made.KeyID
}

// eventually asks again and again until there is no error, at most for the time given.
func eventually(t testing.TB, within time.Duration, what string, ask func() error) {
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

// stored exports a dataset and counts its rows by partner_id, under which the tests send their marks.
func stored(t *testing.T, dir, id string) map[string]int {
	t.Helper()
	found := map[string]int{}
	for line := range strings.Lines(sluice(t, "export", "--data", dir, "--dataset", id)) {
		var row struct {
			PartnerID string `json:"partner_id"`
		}
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatalf("export: %v", err)
		}
		found[row.PartnerID]++
	}
	return found
}

// marked is an event that can be found again by its mark.
func marked(id, mark string) string {
	return fmt.Sprintf(`{"data_set_id":%q,"timestamp":%d,"event_type":"purchase","identifiers":{"email_sha256":"%064x","partner_id":%q}}`,
		id, time.Now().Unix(), len(mark), mark)
}
