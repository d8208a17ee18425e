package sluice

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// begin are the commands in the README's section Begin: one runs the service, one tests it.
func begin(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "## Begin\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var commands []string
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)\n```").FindAllStringSubmatch(section, -1) {
		commands = append(commands, strings.Split(block[1], "\n")...)
	}
	if len(commands) != 2 {
		t.Fatalf("the README begins with %d commands, want 2: %q", len(commands), commands)
	}
	return commands
}

// The first command of the README runs the service: it says where it is, takes sample traffic, and ends well. Here it
// gets the time when it ends, because go run has an exit code of its own for Ctrl-C.
func TestReadmeRuns(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // the first build on a new machine takes minutes
	defer cancel()
	words := append(strings.Fields(begin(t)[0]), "--for", "3s", "--rate", "20") // of one dataset most are rejected
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // killing go run would leave the program behind
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	var out, progress strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &progress
	if err := cmd.Run(); err != nil {
		t.Errorf("%s: %v\n%s", words, err, progress.String())
	}
	if !regexp.MustCompile(`[1-9]\d* accepted`).MatchString(progress.String()) || !strings.Contains(out.String(), "Sluice is running.") {
		t.Errorf("it said:\n%s\nand printed:\n%s", progress.String(), out.String())
	}
}

// CI runs the README's test command, not something like it.
func TestReadmeTestsInCI(t *testing.T) {
	script, err := os.ReadFile(".ci/run")
	if err != nil {
		t.Fatal(err)
	}
	if test := begin(t)[1]; !slices.Contains(strings.Split(string(script), "\n"), test) {
		t.Errorf(".ci/run does not call %q", test)
	}
}

// Every link of the pages leads to a file, and to a heading of it where it names one.
func TestLinks(t *testing.T) {
	pages, err := exec.Command("git", "ls-files", "*.md").Output()
	if err != nil {
		t.Fatal(err)
	}
	link := regexp.MustCompile(`\]\(([^)#:]*)(#[^)]*)?\)`)
	code := regexp.MustCompile("(?sm)^```.*?^```") // Go's generic calls look like links
	for page := range strings.Lines(string(pages)) {
		if page = strings.TrimSpace(page); page == "internal/api/docs.md" {
			continue // the template of docs/api.md
		}
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		dir := page[:strings.LastIndex(page, "/")+1]
		for _, found := range link.FindAllStringSubmatch(code.ReplaceAllString(string(text), ""), -1) {
			to := dir + found[1]
			if found[1] == "" {
				to = page
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s links to %s, which is not there", page, found[1])
			} else if found[2] != "" && strings.HasSuffix(to, ".md") && !slices.Contains(anchors(t, to), found[2][1:]) {
				t.Errorf("%s links to %s of %s, which is not there", page, found[2], to)
			}
		}
	}
}

// anchors are the places in a page that a link can name: its headings as browsers of repositories spell them, and the
// ids that it sets itself.
func anchors(t *testing.T, page string) (out []string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	left := regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	for _, h := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(string(text), -1) {
		out = append(out, strings.ReplaceAll(left.ReplaceAllString(strings.ToLower(h[1]), ""), " ", "-"))
	}
	for _, id := range regexp.MustCompile(`<a id="([^"]+)">`).FindAllStringSubmatch(string(text), -1) {
		out = append(out, id[1])
	}
	return out
}

// docs/README.md lists every page of docs.
func TestIndexIsComplete(t *testing.T) {
	index, err := os.ReadFile("docs/README.md")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		if name := filepath.Base(page); name != "README.md" && !strings.Contains(string(index), "("+name) {
			t.Errorf("docs/README.md does not list %s", page)
		}
	}
}
