package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// The drill of docs/operate.md: back up under a running server, lose the machine, restore, go on. What was stored is there
// once, keys and submission ids work, and what comes later is stored once, too.
func TestBackupAndRestore(t *testing.T) {
	dir := t.TempDir()
	key, _ := provisioned(t, dir, "shop")
	s := start(t, dir, "--commit-every", "200ms")
	reader(t, dir, "analyst")
	l := newLedger()
	var first answer
	send := func(s *server, mark string) {
		t.Helper()
		body, marks := markedBatch("shop", mark, 20)
		a, err := s.post(key, "/v1/events/batch", body)
		l.note(marks, a, err)
		if err != nil || a.status != 200 {
			t.Fatalf("send: %d %s %v", a.status, a.body, err)
		}
		first = a
	}
	for _, mark := range []string{"a", "b", "c"} {
		send(s, mark)
	}
	id := strings.Split(string(first.body), "\"")[3]
	backup := filepath.Join(t.TempDir(), "backup")
	sluice(t, "backup", backup, "--data", dir)
	s.stop(syscall.SIGKILL)
	if info, err := os.Stat(backup); err != nil || info.Mode().Perm() != 0o700 {
		t.Fatalf("got %v, %v, want a directory for its owner alone", info.Mode(), err)
	}
	if err := os.RemoveAll(dir); err != nil { // the machine is lost
		t.Fatal(err)
	}

	other := filepath.Join(t.TempDir(), "other")
	sluice(t, "restore", backup, "--data", other)
	s = start(t, other, "--commit-every", "200ms")
	if a, err := s.call(http.MethodGet, key, "/v1/submissions/"+id, ""); err != nil || a.status != 200 || !strings.Contains(string(a.body), `"accepted":20`) {
		t.Errorf("look-up after the restore: got %d %s, %v", a.status, a.body, err)
	}
	send(s, "d")
	if out := sluice(t, "reader", "list", "--data", other); !strings.Contains(out, "analyst") {
		t.Errorf("got readers %q, want the one of before", out)
	}
	l.check(t, stored(t, other, "shop"))
	sluice(t, "audit", "verify", "--data", other)
	if entries, err := os.ReadDir(filepath.Join(other, "quarantine")); err == nil && len(entries) > 0 {
		t.Errorf("got %d frames that are taken for lost, want none", len(entries))
	}
	if code := s.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("got exit code %d", code)
	}
}

// What was acknowledged and not loaded is in the backup, and so are idempotency keys: a retry after the restore gets the first
// answer and is not stored again. A server that does not load stands for a loader that is far behind.
func TestBackupHoldsTheStream(t *testing.T) {
	dir := t.TempDir()
	key, _ := provisioned(t, dir, "shop")
	s := start(t, dir, "--loading=false", "--partitions", "3")
	l := newLedger()
	bodies := map[string]string{} // a body has the time
	send := func(s *server, mark string) answer {
		t.Helper()
		body, marks := markedBatch("shop", mark, 20)
		bodies[mark] = body
		a, err := s.post(key, "/v1/events/batch", body, "Idempotency-Key", "order-"+mark)
		l.note(marks, a, err)
		if err != nil || a.status != 200 {
			t.Fatalf("send %s: %d %s %v", mark, a.status, a.body, err)
		}
		return a
	}
	first := map[string]answer{}
	for i := range 12 {
		mark := string(rune('a' + i))
		first[mark] = send(s, mark)
	}
	backup := filepath.Join(t.TempDir(), "backup")
	sluice(t, "backup", backup, "--data", dir)
	s.stop(syscall.SIGKILL)
	if err := os.RemoveAll(dir); err != nil { // the machine is lost
		t.Fatal(err)
	}

	other := filepath.Join(t.TempDir(), "other")
	sluice(t, "restore", backup, "--data", other)
	s = start(t, other, "--commit-every", "200ms")
	for mark, before := range first {
		a, err := s.post(key, "/v1/events/batch", bodies[mark], "Idempotency-Key", "order-"+mark)
		if err != nil || string(a.body) != string(before.body) || a.header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("retry of %s: got %d %s, %v, want the first answer %s", mark, a.status, a.body, err, before.body)
		}
	}
	send(s, "new")
	l.check(t, stored(t, other, "shop"))
	if entries, err := os.ReadDir(filepath.Join(other, "quarantine")); err == nil && len(entries) > 0 {
		t.Errorf("got %d frames that are taken for lost, want none", len(entries))
	}
	if code := s.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("got exit code %d, want 0", code)
	}
}

// A backup of format 1, which had no stream, is restored as before.
func TestRestoreOfFormat1(t *testing.T) {
	dir := t.TempDir()
	key, _ := provisioned(t, dir, "shop")
	backup := filepath.Join(t.TempDir(), "backup")
	sluice(t, "backup", backup, "--data", dir)
	if err := os.RemoveAll(filepath.Join(backup, "stream")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(backup, backupName), []byte(`{"format":1,"program":"dev","made":"2026-11-01T00:00:00Z","tables":"copied"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "other")
	sluice(t, "restore", backup, "--data", other)
	s := start(t, other)
	if a, err := s.post(key, "/v1/events", marked("shop", "m")); err != nil || a.status != 200 {
		t.Errorf("got %d %s, %v", a.status, a.body, err)
	}
}
