package deploy

import (
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
	"testing"
)

// blocks are the code blocks of a section of a page. The section ends with the next heading of the same level.
func blocks(t testing.TB, page, heading string) (out []string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, "docs", page))
	must(t, err)
	_, section, found := strings.Cut(string(b), "\n"+heading+"\n")
	if !found {
		t.Fatalf("docs/%s has no %q", page, heading)
	}
	level, _, _ := strings.Cut(heading, " ")
	section, _, _ = strings.Cut(section, "\n"+level+" ")
	for _, block := range regexp.MustCompile("(?s)```[a-z]*\n(.*?)```").FindAllStringSubmatch(section, -1) {
		out = append(out, block[1])
	}
	return out
}

// with is the block that has a text in it.
func with(t testing.TB, blocks []string, text string) string {
	t.Helper()
	i := slices.IndexFunc(blocks, func(b string) bool { return strings.Contains(b, text) })
	if i < 0 {
		t.Fatalf("the page has no block with %q", text)
	}
	return blocks[i]
}

// copied is a directory with a copy of deploy/, as somebody has it who unpacks a release.
func copied(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	must(t, os.CopyFS(filepath.Join(dir, "deploy"), os.DirFS(filepath.Join(root, "deploy"))))
	return dir
}

// call is a command that the test answers for a shell.
type call struct {
	dir  string // in which it was called
	args []string
	env  []string // its variables for sluice and the bucket
}

// shell runs a script in a directory, as it is written. answers are the programs that the test plays, by name; others are
// those of the machine. It returns what the script printed.
func shell(t testing.TB, dir, script string, answers map[string]func(call) (string, error)) string {
	t.Helper()
	bin := t.TempDir()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		words, env, _ := strings.Cut(string(body), "\n\n")
		lines := strings.Split(words, "\n")
		c := call{dir: lines[1], args: lines[2:]}
		for e := range strings.Lines(env) {
			if strings.HasPrefix(e, "SLUICE_") || strings.HasPrefix(e, "AWS_") {
				c.env = append(c.env, strings.TrimSuffix(e, "\n"))
			}
		}
		out, err := answers[lines[0]](c)
		if err != nil {
			w.WriteHeader(http.StatusInternalServerError)
			fmt.Fprintln(w, err)
			return
		}
		io.WriteString(w, out)
	}))
	defer server.Close()
	for name := range answers {
		stub := "#!/bin/sh\n{ printf '%s\\n' \"${0##*/}\" \"$PWD\" \"$@\"; echo; env; } | exec curl -sS --fail-with-body --data-binary @- " + server.URL + "\n"
		must(t, os.WriteFile(filepath.Join(bin, name), []byte(stub), 0o755))
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-euc", script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
	var words strings.Builder
	cmd.Stderr = &words
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s\n%s%s", err, script, out, words.String())
	}
	return string(out)
}

// sudo runs what it is given as root, where the test is root.
func sudo(c call) (string, error) {
	if os.Getuid() != 0 {
		return "", nil
	}
	cmd := exec.Command(c.args[0], c.args[1:]...)
	cmd.Dir = c.dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// Every user of a machine sees the arguments of all processes: no page and no file shows a password there.
func TestNoPasswordOnACommandLine(t *testing.T) {
	out, err := exec.Command("git", "-C", root, "ls-files", "README.md", "docs", "deploy", "examples").Output()
	must(t, err)
	secret := regexp.MustCompile("sluice [^\n`]*(--nats[ =]|://)[^\\s/`]*@")
	for name := range strings.Lines(string(out)) {
		b, err := os.ReadFile(filepath.Join(root, strings.TrimSpace(name)))
		must(t, err)
		if found := secret.Find(b); found != nil {
			t.Errorf("%s has a password on a command line: %q", strings.TrimSpace(name), found)
		}
	}
}
