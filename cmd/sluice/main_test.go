package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"sluice/internal/enginetest"
	"sluice/internal/servicetest"
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

// self is this test binary acting as sluice.
var self = servicetest.Program{Path: os.Args[0], Env: []string{"BE_THE_PROGRAM=1"}}

// program is a command of sluice.
func program(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, self.Path, args...)
	cmd.Env = append(os.Environ(), self.Env...)
	return cmd
}

// sluice runs a command to its end and returns what it printed to stdout.
func sluice(t testing.TB, args ...string) string {
	t.Helper()
	out, err := self.Run(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// server is a sluice process that serves.
type server struct {
	*servicetest.Server
	url, ops string
}

// start runs serve on dir and returns once it is ready.
func start(t testing.TB, dir string, args ...string) *server {
	t.Helper()
	s, err := servicetest.Launch{Program: self, Data: dir, Args: args}.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Stop(syscall.SIGKILL) })
	return &server{s, s.URL(), s.Ops()}
}

func (s *server) said() string                   { return s.Said() }
func (s *server) stop(signal syscall.Signal) int { return s.Stop(signal) }

// answer is what came back for a request.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// post sends a body as a sender would. An error means that there was no answer.
func (s *server) post(key, path, body string, headers ...string) (answer, error) {
	return s.call(http.MethodPost, key, path, body, headers...)
}

func (s *server) call(method, key, path, body string, headers ...string) (answer, error) {
	a, err := s.Call(method, key, path, body, headers...)
	return answer{a.Status, a.Header, a.Body}, err
}

// provisioned makes a dataset and returns its key and the key's id.
func provisioned(t testing.TB, dir, id string, args ...string) (key, keyID string) {
	t.Helper()
	key, keyID, err := self.CreateDataset(t.Context(), dir, id, args...)
	if err != nil {
		t.Fatal(err)
	}
	return key, keyID
}

// eventually asks again and again until there is no error, at most for the time given.
func eventually(t testing.TB, within time.Duration, what string, ask func() error) {
	t.Helper()
	servicetest.Eventually(t, within, what, ask)
}

// settle waits until everything that the dataset shop sent is in the table.
func (s *server) settle(t *testing.T, key string) {
	t.Helper()
	l := servicetest.Ledger{ID: "shop", Key: key}
	l.Settle(t, s, 30*time.Second)
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
