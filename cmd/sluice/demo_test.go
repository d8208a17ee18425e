package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// The demo is ready, its datasets are in the states that it promises, and Ctrl-C leaves nothing of it but what to do next.
func TestDemo(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute) // it is ready within 30 s; other tests run, too
	defer cancel()
	dir := t.TempDir()
	cmd := program(ctx, "demo", "--listen", "127.0.0.1:0", "--ops", "127.0.0.1:0")
	cmd.Env = append(cmd.Env, "TMPDIR="+dir)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines, text := bufio.NewScanner(out), ""
	for !strings.Contains(text, "Press Ctrl-C") && lines.Scan() {
		text += lines.Text() + "\n"
	}
	console := regexp.MustCompile(`http://\S+/\n`).FindString(text)
	if console == "" {
		t.Fatalf("the demo did not start: %s%s", text, stderr.String())
	}
	for _, want := range []struct{ path, pattern string }{
		{"datasets", `(?s)Demo shop.*flowing.*Travel app.*mostly rejected.*Outlet store.*silent`},
		{"?window=week", `(?s)Dataset travel: [\d.]+ % of its events.*were rejected.*Dataset outlet: no event for \d+ (h|days)`},
		{"dataset?id=shop&window=week", `(?s)purchase.*Refunded`},
		{"campaigns?dataset=shop&window=week", `(?s)cmp-101.*Autumn prospecting.*ad_impression`},
		{"diagnosis?dataset=travel&window=week", `(?s)INVALID_IDENTIFIER.*looks like an MD5 hash`},
	} {
		pattern := regexp.MustCompile(want.pattern)
		for page := ""; !pattern.MatchString(page); { // findings are ten seconds old, at most
			if page = plainPage(ctx, t, strings.TrimSpace(console)+want.path); ctx.Err() != nil {
				t.Fatalf("%s does not match %s:\n%s", want.path, want.pattern, page)
			}
		}
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() {
		text += lines.Text() + "\n"
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("after Ctrl-C: %v\n%s", err, stderr.String())
	}
	for _, want := range []string{"It deleted " + dir, " serve\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("the demo does not say %q:\n%s", want, text)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("got %v, %v in the temporary directory, want nothing", left, err)
	}
	if !regexp.MustCompile(`Events since the start: \d+ sent, \d+ accepted, \d+ rejected\.`).Match(stderr.Bytes()) {
		t.Errorf("no status line in %s", stderr.String())
	}
}

// A demo in a directory starts as often as one likes, though a dataset has two live keys at most.
func TestDemoStartsAgain(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	if out, err := program(t.Context(), "dataset", "create", "shop", "--data", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for n := range 4 {
		out, err := program(t.Context(), "demo", "--data", dir, "--listen", "127.0.0.1:0", "--ops", "127.0.0.1:0",
			"--rate", "0", "--for", "1ms").CombinedOutput()
		if err != nil {
			t.Fatalf("start %d: %v\n%s", n, err, out)
		}
	}
}

// plainPage is a page of the console without its tags. It takes its time, so that a loop of calls is none of a processor.
func plainPage(ctx context.Context, t *testing.T, url string) string {
	t.Helper()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	select {
	case <-ctx.Done():
	case <-tick.C:
	}
	r, err := http.NewRequestWithContext(context.WithoutCancel(ctx), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%s: status %d, %v", url, answer.StatusCode, err)
	}
	return regexp.MustCompile(`<[^>]*>`).ReplaceAllString(string(body), " ")
}
