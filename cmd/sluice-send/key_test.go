package main

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestKeyIsAskedForOnce holds that a command asks for the key once, though it opens the service more than once.
func TestKeyIsAskedForOnce(t *testing.T) {
	for name, args := range map[string][]string{
		"upload":      {"upload", tempCSV(t, 20, none), "--hash", "email=email_sha256", "--dataset", "spring"},
		"conformance": {"conformance", "--dataset", "spring"},
	} {
		service := &store{}
		if name == "conformance" {
			service.fail = func(_ int, w http.ResponseWriter) bool { w.WriteHeader(http.StatusBadGateway); return true }
		}
		asked := 0
		p := &program{stdin: strings.NewReader(""), stdout: io.Discard, stderr: io.Discard, env: func(string) string { return "" }, now: time.Now}
		p.prompt = func() (string, error) { asked++; return "test-key", nil }
		p.run(t.Context(), append(args, "--url", newLoopback(t, service)))
		if asked != 1 {
			t.Errorf("%s: asked %d times, want once", name, asked)
		}
	}
}
