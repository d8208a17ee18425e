package main

import (
	"errors"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The operators' listener takes 512 connections at one time. The next one takes the place of the oldest without credentials,
// so that nobody who holds connections keeps a probe from its answer. The metrics say so.
func TestOpsConnectionsAreLimited(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir())
	host := strings.TrimSuffix(strings.TrimPrefix(s.ops, "http://"), "/")
	dial := func() net.Conn {
		c, err := net.DialTimeout("tcp", host, 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	ask := func(c net.Conn, path string) (string, error) { // on a connection that stays open
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", path, host); err != nil {
			return "", err
		}
		b := make([]byte, 64)
		n, err := io.ReadAtLeast(c, b, len("HTTP/1.1 200 OK"))
		return string(b[:n]), err
	}
	held := make([]net.Conn, 512)
	for i := range held {
		held[i] = dial()
		if got, err := ask(held[i], "/livez"); err != nil || !strings.HasPrefix(got, "HTTP/1.1 200") {
			t.Fatalf("connection %d: got %q, %v", i+1, got, err)
		}
	}
	for range 10 {
		for _, path := range []string{"/livez", "/readyz"} {
			if got, err := ask(dial(), path); err != nil || !strings.HasPrefix(got, "HTTP/1.1 200") {
				t.Errorf("%s while all connections are held: got %q, %v", path, got, err)
			}
		}
	}
	_ = held[0].SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.Copy(io.Discard, held[0]); err != nil && os.IsTimeout(err) {
		t.Error("the oldest connection is still open")
	}
	r, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get(s.ops + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	page, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"sluice_ops_connections 512\n", "sluice_ops_connections_limit 512\n", `sluice_ops_connections_rejected_total{limit="replaced"} 21` + "\n"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the metrics lack %q", want)
		}
	}
}

// Bytes that are no HTTP get the answer of the HTTP library, on both listeners, and harm nobody.
func TestMalformedHTTP(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir())
	for _, url := range []string{s.ops, s.url} {
		for _, text := range []string{"nonsense, longer than the first bytes of HTTP/2\r\n\r\n", "GET /livez HTTP/1.1\r\n\r\n", "GET /livez HTTP/3.0\r\nHost: x\r\n\r\n"} {
			c, err := net.DialTimeout("tcp", strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/"), 10*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			_ = c.SetDeadline(time.Now().Add(10 * time.Second))
			_, _ = io.WriteString(c, text)
			b, _ := io.ReadAll(c)
			_ = c.Close()
			if got := string(b); !strings.HasPrefix(got, "HTTP/1.1 400") && !strings.HasPrefix(got, "HTTP/1.1 505") {
				t.Errorf("%q: got %q", text, got)
			}
		}
	}
	if status, _ := get(s.ops + "/livez"); status != 200 {
		t.Errorf("afterwards: got %d", status)
	}
}

var shownCode = regexp.MustCompile(`<code>([^<]*)</code>`)

// commands are those that a page shows, as a person copies them.
func (s *server) commands(t *testing.T, path string) (out []string) {
	t.Helper()
	status, page := get(s.ops + path)
	if status != 200 {
		t.Fatalf("%s: got %d", path, status)
	}
	for _, m := range shownCode.FindAllStringSubmatch(page, -1) {
		one := html.UnescapeString(m[1])
		if (strings.HasPrefix(one, "sluice ") || strings.HasPrefix(one, "curl ")) && one != "sluice demo" { // which has a test of its own
			out = append(out, one)
		}
	}
	return out
}

// Every command that a page shows works as it stands, in a shell. With --public-url it names that address.
func TestCommandsOfPages(t *testing.T) {
	t.Parallel()
	dir, bin := t.TempDir(), t.TempDir()
	path, err := filepath.Abs(self.Path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bin, "sluice"), []byte("#!/bin/sh\nBE_THE_PROGRAM=1 exec '"+path+"' \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	key := ""
	run := func(command, data string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "SLUICE_DATA="+data, "KEY="+key)
		out, err := cmd.Output()
		if err != nil {
			t.Errorf("%s: %v %s", command, err, out)
		}
		return string(out)
	}
	s := start(t, dir)
	made := s.commands(t, "/")
	if len(made) != 1 {
		t.Fatalf("a service without a dataset shows %q", made)
	}
	for _, one := range s.commands(t, "/live") {
		run(one, t.TempDir())
	}
	key = strings.TrimSpace(run(made[0], dir))
	ran := map[string]bool{}
	eventually(t, 30*time.Second, "a dataset that the console knows", func() error {
		if status, _ := get(s.ops + "/dataset?id=my-campaign"); status != 200 {
			return fmt.Errorf("got %d", status)
		}
		return nil
	})
	eventually(t, 30*time.Second, "a page that waits for the first event", func() error {
		if len(s.commands(t, "/dataset?id=my-campaign")) < 2 {
			return errors.New("it shows no command")
		}
		return nil
	})
	for _, page := range []string{"/dataset?id=my-campaign", "/live", "/", "/datasets", "/diagnosis", "/requests", "/lookup", "/try", "/system"} {
		for _, one := range s.commands(t, page) {
			kind := strings.Join(strings.Fields(one)[:2], " ")
			out := run(one, dir)
			if kind == "curl -H" && !strings.Contains(out, `"submission_id"`) {
				t.Errorf("%s: %s answered %s", page, one, out)
			}
			ran[kind] = true
		}
	}
	for _, kind := range []string{"curl -H", "sluice key"} {
		if !ran[kind] {
			t.Errorf("no page shows a command that begins with %s", kind)
		}
	}
	s.stop(syscall.SIGTERM)

	public := start(t, dir, "--public-url", "https://events.example.com/", "--ops-public-url", "https://console.example.com")
	eventually(t, 30*time.Second, "the public address", func() error {
		if _, page := get(public.ops + "/live"); !strings.Contains(page, "https://events.example.com/v1/events") {
			return errors.New("the page has another address")
		}
		return nil
	})
	if _, page := get(public.ops + "/system"); !strings.Contains(page, ">https://console.example.com</td>") || !strings.Contains(page, "--stream-retention") {
		t.Error("System does not show the settings")
	}
}
