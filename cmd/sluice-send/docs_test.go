package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sluice/client"
	"sluice/cmd/sluice-send/internal/convert"
)

const sendingPage = "../../docs/sending.md"

func page(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile(sendingPage)
	must(t, err)
	return string(data)
}

// block gives the nth code block of a language.
func block(t *testing.T, language string, n int) string {
	t.Helper()
	found := regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllStringSubmatch(page(t), -1)
	if len(found) <= n {
		t.Fatalf("%s has %d blocks of %s", sendingPage, len(found), language)
	}
	return found[n][1]
}

// The page's tables are those that the program prints and works by.
func TestSendingPageTables(t *testing.T) {
	text := page(t)
	for _, name := range convert.Names() {
		if !strings.Contains(text, convert.Table(name)) {
			t.Errorf("the table of %s is not the program's; print it by: sluice-send convert --from %[1]s --table", name)
		}
	}
	for _, v := range client.Vectors {
		input := strings.NewReplacer("\t", `\t`, "\n", `\n`).Replace(v.Input)
		if row := fmt.Sprintf("| %s | `%s` | `%s` | `%s` |\n", v.Kind, input, v.Normal, v.SHA256); !strings.Contains(text, row) {
			t.Errorf("the page lacks the pair %s", row)
		}
	}
}

// snippets are the page's programs: how each is run, and whether a machine without the language fails the test. Node
// comes with make setup; Python and PHP are run where they are.
var snippets = []struct {
	language string
	n        int
	file     string
	command  []string
	needed   bool
}{
	{"sh", 1, "send.sh", []string{"bash", "-eu"}, true},
	{"go", 0, "main.go", []string{"go", "run"}, true},
	{"js", 0, "send.mjs", []string{"node"}, true},
	{"python", 0, "send.py", []string{"python3"}, false},
	{"php", 0, "send.php", []string{"php"}, false},
}

// The page's programs send to the real service.
func TestSendingPageSnippets(t *testing.T) {
	s := startServer(t, "spring")
	accepted := regexp.MustCompile(`(single|batch)\.[0-9a-f-]{36}`)
	for _, snippet := range snippets {
		t.Run(snippet.language, func(t *testing.T) {
			code := block(t, snippet.language, snippet.n)
			program, err := exec.LookPath(snippet.command[0])
			if err != nil {
				if snippet.needed {
					t.Fatal(err)
				}
				t.Logf("not run: %v", err)
				return
			}
			file := filepath.Join(t.TempDir(), snippet.file)
			must(t, os.WriteFile(file, []byte(code), 0o600))
			cmd := exec.CommandContext(t.Context(), program, append(snippet.command[1:], file)...)
			cmd.Dir = "../.." // where the module of the Go snippet is
			cmd.Env = append(os.Environ(), "SLUICE_URL="+s.url(), "SLUICE_API_KEY="+s.key)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			id := accepted.Find(out)
			if id == nil {
				t.Fatalf("no submission in its words: %s", out)
			}
			sub, err := newTestClient(t, s).Status(t.Context(), string(id))
			if err != nil || sub.Accepted == 0 || sub.Rejected != 0 {
				t.Errorf("the service says %+v, %v", sub, err)
			}
		})
	}
}

// The programs of the page try again with the same key after a 503, and take the second answer.
func TestSendingPageRetries(t *testing.T) {
	for _, snippet := range snippets {
		if snippet.language == "go" {
			continue // the client's own tests
		}
		program, err := exec.LookPath(snippet.command[0])
		if err != nil && !snippet.needed {
			continue
		}
		must(t, err)
		t.Run(snippet.language, func(t *testing.T) {
			flaky := &flaky{}
			url := newLoopback(t, flaky)
			file := filepath.Join(t.TempDir(), snippet.file)
			must(t, os.WriteFile(file, []byte(block(t, snippet.language, snippet.n)), 0o600))
			cmd := exec.CommandContext(t.Context(), program, append(snippet.command[1:], file)...)
			cmd.Env = append(os.Environ(), "SLUICE_URL="+url, "SLUICE_API_KEY=test-key")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			keys := flaky.seen()
			if len(keys) != 3 || keys[0] == "" || keys[0] != keys[1] || keys[1] != keys[2] {
				t.Errorf("got the keys %q, want one key three times", keys)
			}
		})
	}
}

func newTestClient(t testing.TB, s *server) *client.Client {
	t.Helper()
	c, err := client.New(s.url(), s.key, client.Options{DatasetID: "spring"})
	must(t, err)
	return c
}
