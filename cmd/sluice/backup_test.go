package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"sluice/internal/servicetest"
)

// The drill of docs/operate.md: back up under a running server, lose the machine, restore, go on. What was stored is there
// once, keys and submission ids work, and what comes later is stored once, too.
func TestBackupAndRestore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	key, _ := provisioned(t, dir, "shop")
	s := start(t, dir, "--commit-every", "200ms")
	reader(t, dir, "analyst")
	l := servicetest.Ledger{ID: "shop", Key: key}
	send := func(s *server) (id string) {
		t.Helper()
		e := l.Send(s, l.Request(servicetest.KeyedBatch))
		if e.Status != http.StatusOK {
			t.Fatalf("send: got status %d", e.Status)
		}
		return e.ID
	}
	send(s)
	send(s)
	id := send(s)
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
	send(s)
	if out := sluice(t, "reader", "list", "--data", other); !strings.Contains(out, "analyst") {
		t.Errorf("got readers %q, want the one of before", out)
	}
	l.Check(t, stored(t, other, "shop"))
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
	t.Parallel()
	dir := t.TempDir()
	key, _ := provisioned(t, dir, "shop")
	s := start(t, dir, "--loading=false", "--partitions", "3")
	bodies, first := map[string]string{}, map[string]answer{}
	send := func(s *server, mark string) answer {
		t.Helper()
		if bodies[mark] == "" { // a body has the time
			bodies[mark] = "[" + marked("shop", mark) + "]"
		}
		a, err := s.post(key, "/v1/events/batch", bodies[mark], "Idempotency-Key", "order-"+mark)
		if err != nil || a.status != http.StatusOK {
			t.Fatalf("send %s: got %d %s, %v", mark, a.status, a.body, err)
		}
		return a
	}
	for i := range 12 {
		mark := fmt.Sprint("before-", i)
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
		if a := send(s, mark); string(a.body) != string(before.body) || a.header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("retry of %s: got %s, want the first answer %s", mark, a.body, before.body)
		}
	}
	send(s, "new")
	got := stored(t, other, "shop")
	for mark := range bodies {
		if got[mark] != 1 {
			t.Errorf("%s is stored %d times, want once", mark, got[mark])
		}
	}
	if len(got) != len(bodies) {
		t.Errorf("got %d different events, want %d", len(got), len(bodies))
	}
	if entries, err := os.ReadDir(filepath.Join(other, "quarantine")); err == nil && len(entries) > 0 {
		t.Errorf("got %d frames that are taken for lost, want none", len(entries))
	}
	if code := s.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("got exit code %d, want 0", code)
	}
}
