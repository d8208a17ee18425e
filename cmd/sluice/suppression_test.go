package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The list holds beside a running server within 5 s, after a restart, and after a restore; what it holds cannot be read.
func TestSuppression(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	key, _ := provisioned(t, dir, "shop")
	s := start(t, dir, "--commit-every", "200ms")
	suppressed := func(s *server, hash string) bool {
		t.Helper()
		body := fmt.Sprintf(`{"data_set_id":"shop","timestamp":%d,"event_type":"purchase","identifiers":{"email_sha256":%q,"partner_id":"p-1"}}`, time.Now().Unix(), hash)
		a, err := s.post(key, "/v1/events/validate", body)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(string(a.body), `"privacy_reasons":["operator.suppression_list"]`)
	}
	within := func(want bool, hash string) {
		t.Helper()
		for deadline := time.Now().Add(30 * time.Second); suppressed(s, hash) != want; {
			if time.Now().After(deadline) {
				t.Fatalf("got %v, want %v", !want, want)
			}
		}
	}
	if suppressed(s, goneHash) {
		t.Fatal("suppressed by an empty list")
	}
	file := filepath.Join(t.TempDir(), "list.csv")
	if err := os.WriteFile(file, []byte("email_sha256,ip\n"+strings.ToUpper(goneHash)+",\n,"+otherHash+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	sluice(t, "suppression", "import", file, "--data", dir)
	within(true, goneHash)
	if suppressed(s, otherHash) {
		t.Error("a hash of an IP address suppresses an e-mail address")
	}
	sluice(t, "suppression", "add", "--email-sha256", otherHash, "--dataset", "shop", "--data", dir)
	within(true, otherHash)
	words := fails(t, 2, "suppression", "remove", "--email-sha256", otherHash, "--data", dir)
	if !strings.Contains(words, "--yes") || strings.Contains(words, "--dry-run") {
		t.Errorf("got %q, want the flag that the command has", words)
	}
	wants(t, "an address as ifa", fails(t, 2, "suppression", "add", "--ifa", "jane@example.com", "--data", dir), "no event has such an ifa")
	sluice(t, "suppression", "remove", "--email-sha256", otherHash, "--yes", "--data", dir)
	within(false, otherHash)

	var imports []struct {
		Name, Kind, Dataset string
		Time                time.Time
		Count               int
	}
	out := sluice(t, "suppression", "list", "--json", "--data", dir)
	if err := json.Unmarshal([]byte(out), &imports); err != nil {
		t.Fatal(err)
	}
	if len(imports) != 2 || imports[0].Name != "list.csv" || imports[0].Kind != "email_sha256" || imports[0].Count != 1 || imports[1].Kind != "ip" {
		t.Errorf("got %s", out)
	}
	backup := filepath.Join(t.TempDir(), "backup")
	sluice(t, "backup", backup, "--data", dir)
	s.stop(syscall.SIGTERM)
	for _, d := range []string{dir, backup} {
		if files := filesWith(t, d, goneHash); len(files) > 0 {
			t.Errorf("the identifier is in %v", files)
		}
	}
	s = start(t, dir)
	if !suppressed(s, goneHash) {
		t.Error("not suppressed after a restart")
	}
	s.stop(syscall.SIGTERM)
	restored := filepath.Join(t.TempDir(), "restored")
	sluice(t, "restore", backup, "--data", restored)
	s = start(t, restored)
	if !suppressed(s, goneHash) {
		t.Error("not suppressed after a restore")
	}
	if out := sluice(t, "audit", "list", "--data", restored); !strings.Contains(out, "suppression.import") || strings.Contains(strings.ToLower(out), goneHash) {
		t.Errorf("the audit log: got %s", out)
	}
}

// A name that a terminal would obey, or that is no text, is no name of an import.
func TestSuppressionNames(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	provisioned(t, dir, "shop")
	for _, name := range []string{"drop\x1b[2J", "drop\n", "drop\xff", "drop\u202e"} {
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, []byte("email_sha256\n"+goneHash+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		wants(t, "import", fails(t, 1, "suppression", "import", file, "--data", dir), "printable UTF-8", "--name")
		wants(t, "a name", fails(t, 1, "suppression", "import", file, "--name", name, "--data", dir), "printable UTF-8")
		wants(t, "one", fails(t, 1, "suppression", "add", "--ifa", "x1234567", "--name", name, "--data", dir), "printable UTF-8")
		wants(t, "erase", fails(t, 1, "erase", "--file", file, "--and-suppress", "--yes", "--data", dir), "nothing was erased", "rename it")
		sluice(t, "suppression", "import", file, "--name", "Liste März", "--data", dir)
	}
	if out := sluice(t, "suppression", "list", "--data", dir); strings.Count(out, "\n") != 2 {
		t.Errorf("got %q, want one import", out)
	}
}
