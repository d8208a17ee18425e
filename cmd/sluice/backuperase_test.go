package main

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// filesWith lists the files below a directory that hold a hash, as text or as its bytes.
func filesWith(t *testing.T, dir, hash string) (out []string) {
	t.Helper()
	raw, err := hex.DecodeString(hash)
	if err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if bytes.Contains(b, raw) || bytes.Contains(bytes.ToLower(b), []byte(hash)) {
			out = append(out, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// A backup that is made after an erasure holds nothing of the person, and a restored older one neither if the newer one is
// named. Everything else is there: other rows, look-ups with their counts, the first answer for an Idempotency-Key.
func TestBackupAfterErasure(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	key, _ := provisioned(t, dir, "shop")
	s := start(t, dir, "--commit-every", "200ms", "--partitions", "2")
	now := time.Now().Unix()
	event := func(mark, hash string) string {
		return fmt.Sprintf(`{"data_set_id":"shop","timestamp":%d,"event_type":"purchase","identifiers":{"email_sha256":%q,"partner_id":%q}}`, now, hash, mark)
	}
	batch := "[" + event("gone-1", goneHash) + "," + event("stays-1", otherHash) + "]"
	first, err := s.post(key, "/v1/events/batch", batch, "Idempotency-Key", "the-key-of-the-batch")
	ofBatch := receiptOf(t, first, err)
	a, err := s.post(key, "/v1/events", event("gone-2", goneHash))
	ofGone := receiptOf(t, a, err)
	a, err = s.post(key, "/v1/events", event("stays-2", otherHash))
	ofStays := receiptOf(t, a, err)
	older, newer := filepath.Join(t.TempDir(), "older"), filepath.Join(t.TempDir(), "newer")
	sluice(t, "backup", older, "--data", dir)
	if len(filesWith(t, filepath.Join(older, "stream"), goneHash)) == 0 {
		t.Fatal("the backup before the erasure does not hold the hash, so the test shows nothing")
	}
	sluice(t, "erase", "--data", dir, "--email-sha256", goneHash, "--yes")
	sluice(t, "backup", newer, "--data", dir)
	s.stop(syscall.SIGKILL)
	if left := filesWith(t, newer, goneHash); len(left) > 0 {
		t.Errorf("the backup after the erasure holds the hash in %v", left)
	}
	if len(filesWith(t, filepath.Join(newer, "stream"), otherHash)) == 0 {
		t.Error("the backup does not hold the hash of somebody else")
	}

	want := fmt.Sprint(map[string]int{"stays-1": 1, "stays-2": 1})
	for name, args := range map[string][]string{"newer": {newer}, "older with --erasures": {older, "--erasures", newer}} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "restored")
			sluice(t, append([]string{"restore", "--data", dir}, args...)...)
			if left := filesWith(t, dir, goneHash); len(left) > 0 {
				t.Errorf("the restored directory holds the hash in %v", left)
			}
			s := start(t, dir, "--commit-every", "200ms")
			if a, err := s.post(key, "/v1/events/batch", batch, "Idempotency-Key", "the-key-of-the-batch"); err != nil ||
				string(a.body) != string(first.body) || a.header.Get("Idempotency-Replayed") != "true" {
				t.Errorf("replay: got %d %s, %v, want the first answer", a.status, a.body, err)
			}
			for id, accepted := range map[string]int{ofBatch: 2, ofGone: 1, ofStays: 1} {
				a, err := s.call(http.MethodGet, key, "/v1/submissions/"+id+"?include=events", "")
				if err != nil || a.status != http.StatusOK || !strings.Contains(string(a.body), fmt.Sprintf(`"accepted":%d,`, accepted)) {
					t.Errorf("look-up: got %d %s, %v, want %d accepted", a.status, a.body, err, accepted)
				}
			}
			s.stop(syscall.SIGTERM)
			if got := fmt.Sprint(stored(t, dir, "shop")); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			if err := os.RemoveAll(filepath.Join(dir, "lake")); err != nil { // the stream is loaded again from its beginning
				t.Fatal(err)
			}
			if got := fmt.Sprint(stored(t, dir, "shop")); got != want {
				t.Errorf("from the stream alone: got %s, want %s", got, want)
			}
			if entries, err := os.ReadDir(filepath.Join(dir, "quarantine")); err == nil && len(entries) > 0 {
				t.Errorf("got %d frames that are taken for lost, want none", len(entries))
			}
		})
	}
}
