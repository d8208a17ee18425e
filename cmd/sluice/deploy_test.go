package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The compose file sets what serve knows, mounts files that are there, and publishes no operators' listener to the network.
func TestComposeFile(t *testing.T) {
	const dir = "../../deploy"
	b, err := os.ReadFile(filepath.Join(dir, "compose.yml"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	cmd := program(t.Context(), "config")
	cmd.Env = append(os.Environ(), "BE_THE_PROGRAM=1")
	settings := regexp.MustCompile(`(?m)^\s+(SLUICE_[A-Z0-9_]+): "?([^"\n]+)"?$`).FindAllStringSubmatch(text, -1)
	for _, s := range settings {
		cmd.Env = append(cmd.Env, s[1]+"="+s[2])
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("the settings are not accepted: %v\n%s", err, out)
	}
	for _, s := range settings {
		if !strings.Contains(string(out), s[2]) {
			t.Errorf("%s=%s has no effect:\n%s", s[1], s[2], out)
		}
	}
	if len(settings) < 6 {
		t.Errorf("got %d settings, want those of engine, tables and console", len(settings))
	}
	mounted := regexp.MustCompile(`"?\./([a-z.-]+):/`).FindAllStringSubmatch(text, -1)
	for _, m := range mounted {
		if _, err := os.Stat(filepath.Join(dir, m[1])); err != nil {
			t.Errorf("the compose file mounts what is not there: %v", err)
		}
	}
	if len(mounted) < 6 {
		t.Errorf("got %d mounted files, want at least 6", len(mounted))
	}
	for _, port := range regexp.MustCompile(`"([0-9.]+:)?[0-9]+:(8081|9090|3000)"`).FindAllStringSubmatch(text, -1) {
		if port[1] != "127.0.0.1:" {
			t.Errorf("port %s is published to the network", port[0])
		}
	}
	check := exec.Command("promtool", "check", "config", "--syntax-only", "compose-prometheus.yml")
	check.Dir = dir
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("promtool: %v\n%s", err, out)
	}
}
