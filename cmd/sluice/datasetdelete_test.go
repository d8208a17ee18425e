package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/internal/dataset"
	"sluice/internal/deletion"
	"sluice/internal/engine"
	"sluice/internal/erasure"
)

// sendTo sends an event of a dataset, with a mark, and one that is rejected.
func sendTo(t *testing.T, s *server, key, id, mark string) {
	t.Helper()
	a, err := s.post(key, "/v1/events/batch", "["+marked(id, mark)+`,{"data_set_id":"`+id+`"}]`)
	receiptOf(t, a, err)
}

// A deleted dataset is gone: its keys, its rows, its frames, its numbers; followers are told; its id is taken; and nothing of it
// comes back, from the stream, from old tables, or from an older backup beside a newer one.
func TestDatasetDelete(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir, "--commit-every", "200ms")
	gone, _ := provisioned(t, dir, "gone-set")
	stays, _ := provisioned(t, dir, "stays")
	sendTo(t, s, gone, "gone-set", "gone-1")
	sendTo(t, s, stays, "stays", "stays-1")
	older, newer := filepath.Join(t.TempDir(), "older"), filepath.Join(t.TempDir(), "newer")
	sluice(t, "backup", older, "--data", dir)
	token := reader(t, dir, "follower", "--allow", "feed")
	before := s.ask(t, token, "/feed/v1/events?purpose=measurement&cursor=earliest")
	if n := strings.Count(string(before.body), `"event_id"`); n != 2 {
		t.Fatalf("got %d events, want 2", n)
	}
	lines := strings.Split(strings.TrimSpace(string(before.body)), "\n")
	var end struct{ Cursor string }
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &end); err != nil {
		t.Fatal(err)
	}

	if out := fails(t, 2, "dataset", "delete", "gone-set", "--data", dir); !strings.Contains(out, "--yes") || !strings.Contains(out, ": 1 live key, 1 event, 3 rejections and ") {
		t.Errorf("without --yes: got %q", out)
	}
	if out := sluice(t, "dataset", "delete", "gone-set", "--data", dir, "--dry-run", "--json"); !strings.Contains(out, `"events":1,"rejections":3`) {
		t.Errorf("dry run: got %s", out)
	}
	fails(t, 3, "dataset", "delete", "never", "--data", dir, "--yes")
	out := sluice(t, "dataset", "delete", "gone-set", "--data", dir, "--yes", "--json")
	if !strings.Contains(out, `"events":1,`) {
		t.Fatalf("got %s, want 1 event deleted", out)
	}
	eventually(t, 5*time.Second, "a key that has ended", func() error {
		if a, err := s.post(gone, "/v1/events", marked("gone-set", "late")); err != nil || a.status != http.StatusForbidden {
			return fmt.Errorf("got %d, %v", a.status, err)
		}
		return nil
	})
	for _, c := range [][2]string{{end.Cursor, `{"erased":{"event_id":`}, {"earliest", "stays-1"}} {
		a := s.ask(t, token, "/feed/v1/events?purpose=measurement&cursor="+c[0])
		if strings.Count(string(a.body), `{"erased":{"event_id":`) != 1 || strings.Contains(string(a.body), "gone-1") || !strings.Contains(string(a.body), c[1]) {
			t.Errorf("the feed from %.10s on: got %s", c[0], a.body)
		}
	}
	if out := sluice(t, "dataset", "list", "--data", dir); strings.Contains(out, "gone-set") || !strings.Contains(out, "stays") {
		t.Errorf("got %s, want the other dataset alone", out)
	}
	if out := fails(t, 1, "dataset", "create", "gone-set", "--data", dir); !strings.Contains(out, "was deleted at") || !strings.Contains(out, "used again from") {
		t.Errorf("the id again: got %q", out)
	}
	if out := sluice(t, "audit", "list", "--data", dir); !strings.Contains(out, "dataset.delete") || !strings.Contains(out, "dataset.deleted") {
		t.Errorf("the audit log has %s", out)
	}
	eventually(t, 10*time.Second, "metrics without it", func() error {
		if a := s.ask(t, "", "/metrics"); strings.Contains(string(a.body), "gone-set") {
			return errors.New("it is among them")
		}
		return nil
	})
	if out := sluice(t, "lake", "reload", "--data", dir); !strings.Contains(out, "1 were erased and stay so.\n0 were loaded again.") {
		t.Errorf("reload: got %q, want that nothing comes back", out)
	}
	sluice(t, "backup", newer, "--data", dir)
	hash := fmt.Sprintf("%064x", len("gone-1"))
	if before, after := filesWith(t, filepath.Join(older, "stream"), hash), filesWith(t, newer, hash); len(before) == 0 || len(after) > 0 {
		t.Errorf("got %v in the older backup and %v in the newer one, want the identifier in the older one alone", before, after)
	}
	s.stop(syscall.SIGTERM)
	check := func(when, dir string) {
		t.Helper()
		if out := sluice(t, "export", "--data", dir); strings.Count(out, "\n") != 1 || !strings.Contains(out, "stays-1") {
			t.Errorf("%s: got %s, want the event of the other dataset alone", when, out)
		}
		if out := sluice(t, "dataset", "list", "--data", dir); strings.Contains(out, "gone-set") {
			t.Errorf("%s: it is listed again", when)
		}
	}
	check("at first", dir)
	for name, args := range map[string][]string{"newer": {newer}, "older with --erasures": {older, "--erasures", newer}} {
		restored := filepath.Join(t.TempDir(), "restored")
		sluice(t, append([]string{"restore", "--data", restored}, args...)...)
		check(name, restored)
	}
}

// A deletion that was killed is finished by a server: after the keys have ended, and after the tombstone was written.
func TestServerFinishesDeletion(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir, "--commit-every", "200ms")
	key, _ := provisioned(t, dir, "gone-set")
	sendTo(t, s, key, "gone-set", "gone-1")
	stored(t, dir, "gone-set")
	s.stop(syscall.SIGTERM)
	e, err := engine.Open(t.Context(), engine.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	reg, err := dataset.Open(t.Context(), e, dataset.Options{})
	if err == nil { // as far as a killed command came
		_, err = reg.Delete(t.Context(), "gone-set", nil)
	}
	if err := errors.Join(err, e.Close()); err != nil {
		t.Fatal(err)
	}
	s = start(t, dir, "--commit-every", "200ms")
	eventually(t, 20*time.Second, "nothing is left", func() error {
		if out := sluice(t, "export", "--data", dir); out != "" {
			return fmt.Errorf("got %s", out)
		}
		return nil
	})
	s.stop(syscall.SIGTERM)
	if out := sluice(t, "dataset", "delete", "gone-set", "--data", dir, "--yes"); !strings.Contains(out, "0 events") {
		t.Errorf("once more: got %q, want that nothing is left", out)
	}
}

// The command deletes what the tables have, also if the tombstone says that nothing is left: another node may have finished the
// pass before a batch was committed that was read earlier.
func TestDatasetDeleteAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir, "--commit-every", "200ms")
	key, _ := provisioned(t, dir, "gone-set")
	sendTo(t, s, key, "gone-set", "gone-1")
	stored(t, dir, "gone-set")
	s.stop(syscall.SIGTERM)
	e, err := engine.Open(t.Context(), engine.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	reg, err := dataset.Open(t.Context(), e, dataset.Options{})
	stones, opened := erasure.Open(t.Context(), e)
	if err := errors.Join(err, opened); err != nil {
		t.Fatal(err)
	}
	_, err = deletion.Dataset(t.Context(), reg, stones, "gone-set")
	all, read := stones.All(t.Context())
	if err := errors.Join(err, read); err != nil || len(all) != 1 {
		t.Fatalf("got %d tombstones, %v, want 1", len(all), err)
	}
	if err := errors.Join(stones.Finish(t.Context(), all[0], time.Now().Add(-time.Hour)), e.Close()); err != nil {
		t.Fatal(err)
	}
	if out := sluice(t, "dataset", "delete", "gone-set", "--data", dir, "--yes"); !strings.Contains(out, "is deleted: 1 events") {
		t.Errorf("got %q, want that the event is deleted", out)
	}
	if out := sluice(t, "export", "--data", dir); out != "" {
		t.Errorf("got %s, want nothing", out)
	}
}

// A dataset can have a retention of its own before a server has made the tables.
func TestRetentionBeforeTheFirstStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	sluice(t, "dataset", "create", "shop", "--data", dir)
	sluice(t, "dataset", "set", "shop", "--retention", "7", "--data", dir, "--yes")
	if out := sluice(t, "dataset", "list", "--data", dir, "--json"); !strings.Contains(out, `"retention_days":7`) {
		t.Errorf("got %s, want 7 days", out)
	}
}

// The retention of a dataset is at most that of the tables; a shorter one asks.
func TestDatasetRetention(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir, "--table-retention", "30d")
	provisioned(t, dir, "shop")
	if out := fails(t, 1, "dataset", "set", "shop", "--retention", "31", "--data", dir, "--yes"); !strings.Contains(out, "31d") || !strings.Contains(out, "30d") {
		t.Errorf("got %q, want an error that names both", out)
	}
	for _, d := range []string{"7", "0"} { // shorter, and not
		out := sluice(t, "dataset", "set", "shop", "--retention", d, "--data", dir, "--dry-run", "--json")
		wants(t, "dry run", out, `"data_set_id":"shop","events":0,`, `"dry_run":true`)
	}
	if out := fails(t, 2, "dataset", "set", "shop", "--retention", "7", "--data", dir); !strings.Contains(out, "0 events") || !strings.Contains(out, "--yes") {
		t.Errorf("got %q, want a question", out)
	}
	sluice(t, "dataset", "set", "shop", "--retention", "7", "--data", dir, "--yes")
	if out := sluice(t, "dataset", "list", "--data", dir); !strings.Contains(out, "7d") {
		t.Errorf("got %q, want 7d in the list", out)
	}
	sluice(t, "dataset", "set", "shop", "--retention", "0", "--data", dir)
	if out := sluice(t, "dataset", "list", "--data", dir, "--json"); !strings.Contains(out, `"retention_days":0`) {
		t.Errorf("got %q, want that of the tables", out)
	}
	s.stop(syscall.SIGTERM)
}
