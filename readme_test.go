package sluice

import (
	"bufio"
	"context"
	"os"
	"os/exec"
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

// The first command of the README runs the service: it says where it is, takes sample traffic, and ends well when
// interrupted.
func TestReadmeRuns(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // the first build on a new machine takes minutes
	defer cancel()
	words := strings.Fields(begin(t)[0])
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // go run does not pass a signal on
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	said, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	accepted := false
	var told strings.Builder
	lines := bufio.NewScanner(said)
	for lines.Scan() {
		told.WriteString(lines.Text() + "\n")
		if !accepted && strings.Contains(lines.Text(), "accepted") && !strings.Contains(lines.Text(), "accepted 0") {
			accepted = true
			if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%s: %v\n%s", words, err, told.String())
	}
	if !accepted || !strings.Contains(out.String(), "Sluice is running.") {
		t.Errorf("accepted sample events: %v; printed:\n%s", accepted, out.String())
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

// Every link of the pages leads to a file.
func TestLinks(t *testing.T) {
	pages, err := exec.Command("git", "ls-files", "*.md").Output()
	if err != nil {
		t.Fatal(err)
	}
	link := regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)
	for page := range strings.Lines(string(pages)) {
		page = strings.TrimSpace(page)
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		dir := page[:strings.LastIndex(page, "/")+1]
		for _, found := range link.FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat(dir + found[1]); err != nil {
				t.Errorf("%s links to %s, which is not there", page, found[1])
			}
		}
	}
}
