package main

import (
	"os"
	"strings"
	"syscall"
	"testing"
)

func TestHealthURL(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		ops          string
		secure, live bool
		want         string
	}{
		{"127.0.0.1:8081", false, false, "http://127.0.0.1:8081/readyz"},
		{"0.0.0.0:8081", false, true, "http://127.0.0.1:8081/livez"},
		{":8081", true, false, "https://127.0.0.1:8081/readyz"},
		{"[::]:8081", false, false, "http://[::1]:8081/readyz"},
		{"10.0.0.5:9", false, false, "http://10.0.0.5:9/readyz"},
		{"", false, false, ""},
		{"8081", false, false, ""},
	} {
		if got, err := healthURL(c.ops, c.secure, c.live); got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%+v: got %q, %v", c, got, err)
		}
	}
}

func TestHealth(t *testing.T) {
	s := start(t, t.TempDir())
	at := strings.TrimSuffix(strings.TrimPrefix(s.ops, "http://"), "/")
	for _, args := range [][]string{{"health", "--ops", at}, {"health", "--ops", at, "--live"}} {
		if out := strings.TrimSpace(sluice(t, args...)); out != "ready" && out != "alive" {
			t.Errorf("%v: got %q", args, out)
		}
	}
	s.stop(syscall.SIGTERM)
	cmd := program(t.Context(), "health", "--ops", at)
	if out, _ := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != 1 || !strings.Contains(string(out), "refused") {
		t.Errorf("after the stop: got %d %s", cmd.ProcessState.ExitCode(), out)
	}
}

// In a cluster where a service is named sluice, every container gets variables that describe it.
func TestVariablesOfAClusterAreNotOurs(t *testing.T) {
	t.Parallel()
	for name, ours := range map[string]bool{
		"SLUICE_SERVICE_HOST": false, "SLUICE_SERVICE_PORT": false, "SLUICE_SERVICE_PORT_API": false, "SLUICE_PORT": false,
		"SLUICE_PORT_8080_TCP": false, "SLUICE_PORT_8080_TCP_ADDR": false, "SLUICE_API_SERVICE_HOST": false, "SLUICE_API_PORT_80_TCP_PROTO": false,
		"SLUICE_PORTS": true, "SLUICE_SERVICE": true,
	} {
		cmd := program(t.Context(), "config")
		cmd.Env = append(os.Environ(), "BE_THE_PROGRAM=1", name+"=tcp://10.0.0.1:80")
		if out, err := cmd.CombinedOutput(); (err != nil) != ours {
			t.Errorf("%s: got %v %s, want an error: %v", name, err, out, ours)
		}
	}
}
