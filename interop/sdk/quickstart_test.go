package sdk

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/client"
	"sluice/interop/service"
)

// block gives the nth code block of a language in a page of the repository.
func block(t *testing.T, page, language string, n int) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, page))
	must(t, err)
	found := regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllStringSubmatch(string(text), -1)
	if len(found) <= n {
		t.Fatalf("%s has %d blocks of %s", page, len(found), language)
	}
	return found[n][1]
}

// quickStart is a program of a page, and how it is run.
type quickStart struct {
	page, language string
	n              int
	file           string
	command        []string
}

var quickStarts = []quickStart{
	{"docs/sending.md", "sh", 1, "send.sh", []string{"bash", "-eu"}},
	{"docs/sending.md", "go", 0, "main.go", []string{"go", "run"}},
	{"docs/sending.md", "js", 0, "send.mjs", []string{"node"}},
	{"docs/sending.md", "python", 0, "send.py", []string{"python3"}},
	{"docs/sending.md", "php", 0, "send.php", []string{"php"}},
	{"docs/api.md", "sh", 0, "quick.sh", []string{"bash", "-eu"}},
	{"sdk/node/README.md", "js", 0, "readme.mjs", []string{"node"}},
	{"sdk/python/README.md", "python", 0, "readme.py", []string{"python3"}},
}

// run runs the program as it stands in the page, where its SDK is installed.
func (q *quickStart) run(t *testing.T, url, key string) []byte {
	t.Helper()
	code := block(t, q.page, q.language, q.n)
	if q.page == "docs/api.md" { // it begins with the two lines that everybody fills in
		code = regexp.MustCompile(`(?m)^export .*\n`).ReplaceAllString(code, "")
	}
	return runCode(t, q.file, q.command, code, "SLUICE_URL="+url, "SLUICE_API_KEY="+key)
}

// runCode runs a program where the SDKs are installed.
func runCode(t *testing.T, file string, command []string, code string, env ...string) []byte {
	t.Helper()
	dir := t.TempDir()
	if command[0] == "node" {
		dir = nodeDir
	}
	name := filepath.Join(dir, file)
	must(t, os.WriteFile(name, []byte(code), 0o600))
	cmd := exec.CommandContext(t.Context(), command[0], append(slices.Clone(command[1:]), name)...)
	cmd.Dir = root // where the module of the Go program is
	cmd.Env = append(append(os.Environ(), "PYTHONPATH="+pyDir), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return out
}

var submissionID = regexp.MustCompile(`(single|batch)\.[0-9a-f-]{36}`)

// The quick starts work as they stand, and work when they are pasted a second time.
func TestQuickStarts(t *testing.T) {
	s := service.Start(t, program, "shop")
	c, err := client.New(s.URL, s.Key, client.Options{DatasetID: "shop"})
	must(t, err)
	for _, q := range quickStarts {
		t.Run(q.page+" "+q.language, func(t *testing.T) {
			for time := range 2 {
				out := q.run(t, s.URL, s.Key)
				id := submissionID.Find(out)
				if id == nil {
					t.Fatalf("run %d: no submission in its words: %s", time+1, out)
				}
				found, err := c.Status(t.Context(), string(id))
				if err != nil || found.Accepted == 0 || found.Rejected != 0 {
					t.Errorf("run %d: the service says %+v, %v", time+1, found, err)
				}
			}
		})
	}
}

// flaky rejects two tries and takes the third.
type flaky struct {
	mu   sync.Mutex
	keys []string
}

func (f *flaky) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, _ = io.Copy(io.Discard, r.Body)
	f.keys = append(f.keys, r.Header.Get("Idempotency-Key"))
	w.Header().Set("Content-Type", "application/json")
	if len(f.keys) < 3 {
		w.Header().Set("Retry-After", "0")
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(w, `{"status":"error","error_code":"UNAVAILABLE","message":"Not now.","request_id":"r","errors":[],"retryable":true}`)
		return
	}
	fmt.Fprint(w, `{"submission_id":"batch.0197","received_at":"2026-11-14T23:40:05Z","status":"RECEIVED"}`)
}

// The programs try again after a 503, with the same key.
func TestQuickStartsRetry(t *testing.T) {
	for _, q := range quickStarts {
		t.Run(q.page+" "+q.language, func(t *testing.T) {
			f := &flaky{}
			server := httptest.NewServer(f)
			defer server.Close()
			q.run(t, server.URL, "test-key")
			f.mu.Lock()
			defer f.mu.Unlock()
			if len(f.keys) != 3 || f.keys[0] == "" || f.keys[0] != f.keys[1] || f.keys[1] != f.keys[2] {
				t.Errorf("got the keys %q, want one key three times", f.keys)
			}
		})
	}
}

// A newcomer starts the demo, pastes the lines that it prints, then the command of the README, twice.
func TestReadmeWithTheDemo(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), program, "demo", "--listen", "127.0.0.1:0", "--ops", "127.0.0.1:0", "--rate", "1")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 20 * time.Second
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Cancel()
		_ = cmd.Wait() // its exit code after Ctrl-C is not the matter here
	})
	var exports []string
	for scan := bufio.NewScanner(out); scan.Scan(); {
		line := strings.TrimSpace(scan.Text())
		if strings.HasPrefix(line, "export ") {
			exports = append(exports, line)
		}
		if strings.Contains(line, "Ctrl-C") {
			break
		}
	}
	if len(exports) != 2 {
		t.Fatalf("the demo prints %d export lines, want 2", len(exports))
	}
	text, err := os.ReadFile(root + "/README.md")
	must(t, err)
	_, section, _ := strings.Cut(string(text), "## For senders\n")
	_, command, _ := strings.Cut(section, "```sh\n")
	command, _, _ = strings.Cut(command, "```")
	for time := range 2 {
		sender := exec.CommandContext(t.Context(), "bash", "-euc", strings.Join(exports, "\n")+"\n"+command)
		got, err := sender.CombinedOutput()
		if err != nil || !submissionID.Match(got) {
			t.Fatalf("run %d: %v, got %s", time+1, err, got)
		}
	}
}
