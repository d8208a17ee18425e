package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"sluice/internal/enginetest"
)

// Nothing prints a password or a token that is in an address of NATS.
func TestNATSPasswordIsHidden(t *testing.T) {
	const secret = "geheim-4711"
	for _, c := range []struct{ address, shown string }{
		{"nats://me:" + secret + "@127.0.0.1:1", "nats://me:***@127.0.0.1:1"},
		{"tls://" + secret + "@127.0.0.1:1", "tls://***@127.0.0.1:1"},
		{"nats://127.0.0.1:1, nats://me:" + secret + "@127.0.0.1:2", "nats://127.0.0.1:1, nats://me:***@127.0.0.1:2"},
		{"me:" + secret + "@127.0.0.1:1", "me:***@127.0.0.1:1"},
		{secret + "@127.0.0.1:1", "***@127.0.0.1:1"},
		{"nats://me:" + secret + "@127.0.0.1:port", "nats://me:***@127.0.0.1:port"},
		{"me:" + secret + "@127.0.0.1:port", "me:***@127.0.0.1:port"},
		{"nats://me:%zz" + secret + "@127.0.0.1:1", "nats://me:***@127.0.0.1:1"},
	} {
		for _, args := range [][]string{{"config"}, {"config", "--json"}} {
			if out := sluice(t, append(args, "--nats", c.address)...); strings.Contains(out, secret) || !strings.Contains(out, c.shown) {
				t.Errorf("%s: got a secret, or not %q, in %q", strings.Join(args, " "), c.shown, out)
			}
		}
		if out := fails(t, 1, "dataset", "list", "--data", t.TempDir(), "--nats", c.address); strings.Contains(out, secret) {
			t.Errorf("an error shows the secret: %q", out)
		}
	}
	t.Setenv("SLUICE_NATS", "nats://me:"+secret+"@127.0.0.1:1")
	if out := sluice(t, "config"); strings.Contains(out, secret) || !strings.Contains(out, "nats://me:***@127.0.0.1:1") {
		t.Errorf("from the environment: got %q", out)
	}
}

// Nor the path of a webhook, where services put their tokens: also of an address that cannot be read.
func TestWebhookIsHidden(t *testing.T) {
	for _, address := range []string{"https://hooks.example.com/geheim-4711", "hooks.example.com/geheim-4711", "https://%zz/geheim-4711"} {
		t.Setenv("SLUICE_ALARM_WEBHOOK", address)
		if out := sluice(t, "config"); strings.Contains(out, "geheim") || !strings.Contains(out, "***") {
			t.Errorf("%s: got %q", address, out)
		}
	}
}

// shownSettings are what sluice config prints, each as "value source".
func shownSettings(t *testing.T, args ...string) map[string]string {
	t.Helper()
	var list []setting
	if err := json.Unmarshal([]byte(sluice(t, append([]string{"config", "--json"}, args...)...)), &list); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, s := range list {
		out[s.Flag] = s.Value + " " + s.Source
	}
	return out
}

func wantSettings(t *testing.T, got, want map[string]string) {
	t.Helper()
	for flag, value := range want {
		if got[flag] != value {
			t.Errorf("--%s: got %q, want %q", flag, got[flag], value)
		}
	}
}

// What the first start decided holds for the next one, and is shown, while the server runs and after it.
func TestConfigShowsTheStream(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	if got := shownSettings(t, "--data", dir)["partitions"]; got != "1 default" {
		t.Errorf("without a service: got partitions %q", got)
	}
	want := map[string]string{"partitions": "2 engine", "stream-retention": "4d engine", "table-retention": "400d default", "lake": filepath.Join(dir, "lake") + " engine"}
	s := start(t, dir, "--partitions", "2", "--stream-retention", "4d")
	wantSettings(t, shownSettings(t, "--data", dir), want)
	s.stop(syscall.SIGTERM)
	wantSettings(t, shownSettings(t, "--data", dir), want)
}

// In a cluster the record decides, also about retention. Without an answer of NATS nothing is made up.
func TestConfigShowsTheCluster(t *testing.T) {
	t.Parallel()
	srv := enginetest.Start(t, "max_payload: 8MB")
	dir := t.TempDir()
	start(t, filepath.Join(dir, "one"), "--nats", address(srv), "--partitions", "3", "--stream-retention", "5d", "--table-retention", "90d")
	wantSettings(t, shownSettings(t, "--data", filepath.Join(dir, "two"), "--nats", address(srv)), map[string]string{
		"partitions": "3 engine", "stream-retention": "5d engine", "replicas": "1 engine", "table-retention": "90d engine", "snapshot-retention": "1d engine",
		"lake": "file://" + filepath.Join(dir, "one", "lake") + " engine",
	})
	wantSettings(t, shownSettings(t, "--data", filepath.Join(dir, "two"), "--nats", "nats://127.0.0.1:1"), map[string]string{
		"partitions": "unknown default", "table-retention": "unknown default",
	})
}
