package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/event"
	"sluice/internal/engine"
	"sluice/internal/erasure"
	"sluice/internal/identifier"
	"sluice/internal/stream"
	"sluice/internal/submission"
)

const (
	goneHash  = "973dfe463ec85785f5f95af5ba3906eedb2d931c24e69824a89ea65dba4e813b"
	otherHash = "84d1edf2dbbd8dbb2f0f8d0b2d3ef6a3d9be0e6f53e9ef1bd3f9d0b7e0d2c3a1"
)

// sendMarked sends an event with a hash; its mark is the order in custom_data, and page_url may hold more.
func sendMarked(t *testing.T, s *server, key, mark, hash, page string) {
	t.Helper()
	body := fmt.Sprintf(`{"data_set_id":"shop","timestamp":%d,"event_type":"purchase","identifiers":{"email_sha256":%q,"partner_id":%q},"page_url":%q}`,
		time.Now().Unix(), hash, mark, page)
	a, err := s.post(key, "/v1/events", body)
	receiptOf(t, a, err)
}

// A fault of the tables of counts stops no erasure and no export: the events come without them.
func TestEraseWithoutCounts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir, "--commit-every", "1m")
	key, _ := provisioned(t, dir, "shop")
	data := filepath.Join(dir, "lake", "hours", "data")
	if err := os.RemoveAll(data); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(data, nil, 0o600); err != nil { // nothing can be written below it
		t.Fatal(err)
	}
	sendMarked(t, s, key, "gone-1", goneHash, "")
	sendMarked(t, s, key, "stays-1", otherHash, "")
	wants(t, "erase", sluice(t, "erase", "--data", dir, "--email-sha256", goneHash, "--yes"), "1 rows erased")
	wants(t, "export", sluice(t, "export", "--data", dir), `"stays-1"`)
}

// What was erased stays erased: if the tables of before are put back, if frames are loaded again, and if both happen. What
// the same person sends later is stored.
func TestErasedStaysErased(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir, "--commit-every", "200ms")
	key, _ := provisioned(t, dir, "shop")
	sendMarked(t, s, key, "gone-1", goneHash, "")
	sendMarked(t, s, key, "stays-1", otherHash, "")
	stored(t, dir, "shop") // everything is loaded
	s.stop(syscall.SIGTERM)
	before := filepath.Join(t.TempDir(), "lake")
	copyTree(t, filepath.Join(dir, "lake"), before)
	s = start(t, dir, "--commit-every", "10m") // the command asks it to commit
	sendMarked(t, s, key, "gone-2", goneHash, "")
	sendMarked(t, s, key, "stays-2", otherHash, "")
	if out := sluice(t, "erase", "--data", dir, "--email-sha256", goneHash, "--json", "--yes"); !strings.Contains(out, `"rows":2`) && !strings.Contains(out, `"rows": 2`) {
		t.Fatalf("got %s, want 2 rows", out)
	}
	sendMarked(t, s, key, "later", goneHash, "")
	s.stop(syscall.SIGTERM)

	want := map[string]int{"stays-1": 1, "stays-2": 1, "later": 1}
	check := func(when string) {
		t.Helper()
		found := stored(t, dir, "shop")
		if fmt.Sprint(found) != fmt.Sprint(want) {
			t.Errorf("%s: got %v, want %v", when, found, want)
		}
	}
	check("at first")
	put := func(from string) {
		t.Helper()
		if err := os.RemoveAll(filepath.Join(dir, "lake")); err != nil {
			t.Fatal(err)
		}
		if from != "" {
			copyTree(t, from, filepath.Join(dir, "lake"))
		}
	}
	put("") // the stream is loaded again from its beginning
	check("without tables")
	put(before)
	check("with old tables, by a command")
	put(before)
	s = start(t, dir, "--commit-every", "200ms")
	deadline := time.Now().Add(20 * time.Second)
	for fmt.Sprint(stored(t, dir, "shop")) != fmt.Sprint(want) && time.Now().Before(deadline) {
	}
	check("with old tables, by the server")
	s.stop(syscall.SIGTERM)
}

func copyTree(t *testing.T, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

// A killed erasure is finished by the server when it starts.
func TestServerFinishesErasure(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir, "--commit-every", "200ms")
	key, _ := provisioned(t, dir, "shop")
	sendMarked(t, s, key, "gone", goneHash, "")
	sendMarked(t, s, key, "stays", otherHash, "")
	stored(t, dir, "shop")
	s.stop(syscall.SIGTERM)
	e, err := engine.Open(t.Context(), engine.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	stones, err := erasure.Open(t.Context(), e)
	if err == nil { // as far as a killed command came
		list := stones.NewList()
		list.Put(identifier.Email, goneHash)
		_, err = stones.Add(t.Context(), list, "", time.Now(), time.Hour)
	}
	if err := errors.Join(err, e.Close()); err != nil {
		t.Fatal(err)
	}
	s = start(t, dir, "--commit-every", "200ms")
	deadline := time.Now().Add(20 * time.Second)
	for {
		found := stored(t, dir, "shop")
		if found["gone"] == 0 && found["stays"] == 1 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("got %v, want one event", found)
		}
	}
	eventually(t, 20*time.Second, "evidence", func() error {
		out := sluice(t, "audit", "list", "--data", dir)
		for line := range strings.Lines(out) {
			if strings.Contains(line, `"actor":"server","action":"erase.finished","detail":{"rows":"1","tombstones":"1"}`) {
				return nil
			}
		}
		return fmt.Errorf("the audit log has %s", out)
	})
	s.stop(syscall.SIGTERM)
}

// Who erases is in the audit log before anything is done. Nobody is told that nothing was erased once that is not known.
func TestErasureThatBegan(t *testing.T) {
	dir := t.TempDir()
	s := start(t, dir, "--commit-every", "200ms")
	key, _ := provisioned(t, dir, "shop")
	sendMarked(t, s, key, "gone", goneHash, "")
	stored(t, dir, "shop")
	s.stop(syscall.SIGTERM)
	hooks.Step = func(name string) error {
		if name == "erase.noted" {
			return errors.New("interrupted")
		}
		return nil
	}
	defer func() { hooks.Step = nil }()
	var out, words bytes.Buffer
	code := run(t.Context(), []string{"erase", "--data", dir, "--email-sha256", goneHash, "--yes"}, strings.NewReader(""), &out, &words)
	if code != exitFailed || !strings.Contains(words.String(), "may have begun") || strings.Contains(words.String(), "nothing was erased") {
		t.Errorf("got %d %s", code, words.String())
	}
	log := sluice(t, "audit", "list", "--data", dir)
	if !strings.Contains(log, "erase.begin") || !strings.Contains(log, "email_sha256") || strings.Contains(log, goneHash) {
		t.Errorf("the audit log has %s", log)
	}
}

// The same text elsewhere is reported, by the dry run and by the erasure, and stays.
func TestEraseReportsWhatItLeaves(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir, "--commit-every", "200ms")
	key, _ := provisioned(t, dir, "shop")
	sendMarked(t, s, key, "gone", goneHash, "https://shop.example/?me="+goneHash)
	sendMarked(t, s, key, "stays", otherHash, "https://shop.example/?hash="+strings.ToUpper(goneHash))
	sendMarked(t, s, key, goneHash, otherHash, "")
	stored(t, dir, "shop")
	quarantine := filepath.Join(dir, "quarantine")
	raw, err := hex.DecodeString(goneHash)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"0-7.frame": "xx" + string(raw) + "yy", "0-8.frame": "nothing", "0-9-1.record": strings.ToUpper(goneHash), "0-10.gap": "1"} {
		if err := os.WriteFile(filepath.Join(quarantine, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"--dry-run"}, nil} {
		var got struct {
			Rows        int
			Also        map[string]int `json:"also_in"`
			Quarantined []string
			Searched    int `json:"quarantine_searched"`
		}
		out := sluice(t, append([]string{"erase", "--data", dir, "--email-sha256", goneHash, "--json", "--yes"}, args...)...)
		if err := json.Unmarshal([]byte(out), &got); err != nil {
			t.Fatalf("%q: %v", out, err)
		}
		if got.Rows != 1 || fmt.Sprint(got.Also) != "map[page_url:1 partner_id:1]" || strings.Join(got.Quarantined, " ") != "0-7.frame 0-9-1.record" || got.Searched != 3 {
			t.Errorf("%v: got %+v", args, got)
		}
	}
	out := sluice(t, "erase", "--data", dir, "--email-sha256", goneHash, "--yes")
	for _, text := range []string{"0 rows erased", "1 other rows hold the same text in page_url", "1 other rows hold the same text in partner_id", "quarantine/0-7.frame holds it"} {
		if !strings.Contains(out, text) {
			t.Errorf("got %q, want %q in it", out, text)
		}
	}
	if strings.Contains(out, goneHash) {
		t.Error("the output repeats the identifier")
	}
	if found := stored(t, dir, "shop"); len(found) != 2 {
		t.Errorf("left: %v", found)
	}
	s.stop(syscall.SIGTERM)
}

// A backup from before an erasure brings nothing back if a newer one is named.
func TestRestoreErasesAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir, "--commit-every", "200ms")
	key, _ := provisioned(t, dir, "shop")
	sendMarked(t, s, key, "gone", goneHash, "")
	sendMarked(t, s, key, "stays", otherHash, "")
	older, newer := filepath.Join(t.TempDir(), "older"), filepath.Join(t.TempDir(), "newer")
	sluice(t, "backup", older, "--data", dir)
	sluice(t, "erase", "--data", dir, "--email-sha256", goneHash, "--yes")
	sluice(t, "backup", newer, "--data", dir)
	s.stop(syscall.SIGTERM)
	plain, clean := filepath.Join(t.TempDir(), "plain"), filepath.Join(t.TempDir(), "clean")
	sluice(t, "restore", older, "--data", plain)
	if found := stored(t, plain, "shop"); len(found) != 2 {
		t.Errorf("the older backup alone: got %v, want both events: else the test shows nothing", found)
	}
	sluice(t, "restore", older, "--data", clean, "--erasures", newer)
	if found := stored(t, clean, "shop"); len(found) != 1 || found["stays"] != 1 {
		t.Errorf("with the newer one: got %v, want one event", found)
	}
}

// An erasure that nobody confirmed changes nothing, and the environment does not say what it spans.
func TestEraseAsks(t *testing.T) {
	dir := t.TempDir()
	s := start(t, dir, "--commit-every", "200ms")
	key, _ := provisioned(t, dir, "shop")
	sendMarked(t, s, key, "gone", goneHash, "")
	for _, scope := range [][]string{nil, {"--dataset", "shop"}} {
		for _, answer := range []string{"", "n\n", "y\n"} {
			cmd := program(t.Context(), append([]string{"erase", "--data", dir, "--email-sha256", goneHash}, scope...)...)
			cmd.Stdin = strings.NewReader(answer)
			out, _ := cmd.CombinedOutput()
			if cmd.ProcessState.ExitCode() != 2 || !strings.Contains(string(out), "nothing was changed") || !strings.Contains(string(out), "--yes") || !strings.Contains(string(out), "spans") {
				t.Errorf("%v %q: got %d %s", scope, answer, cmd.ProcessState.ExitCode(), out)
			}
		}
	}
	if found := stored(t, dir, "shop"); len(found) != 1 {
		t.Fatalf("got %v, want nothing erased", found)
	}
	t.Setenv("SLUICE_DATASET", "another")
	t.Setenv("SLUICE_YES", "true")
	if out := fails(t, 2, "erase", "--data", dir, "--email-sha256", goneHash); !strings.Contains(out, "SLUICE_YES is not known") {
		t.Errorf("SLUICE_YES: got %q, want an error", out)
	}
	os.Unsetenv("SLUICE_YES")
	if out := sluice(t, "erase", "--data", dir, "--email-sha256", goneHash, "--yes"); !strings.Contains(out, "1 rows erased") {
		t.Errorf("with SLUICE_DATASET: got %q, want the row of all datasets", out)
	}
	s.stop(syscall.SIGTERM)
}

// Events of the person keep coming while they are erased, of one identifier or of a list. Exactly the rows that leave the
// table are covered by tombstones: the stream, loaded again, gives the same rows.
func TestEraseWhileSending(t *testing.T) {
	t.Parallel()
	for _, form := range []string{"one", "list"} {
		t.Run(form, func(t *testing.T) {
			dir := t.TempDir()
			s := start(t, dir, "--commit-every", "2s")
			key, _ := provisioned(t, dir, "shop")
			args := []string{"erase", "--data", dir, "--yes", "--email-sha256", goneHash}
			if form == "list" {
				list := filepath.Join(t.TempDir(), "drop.csv")
				if err := os.WriteFile(list, []byte("email_sha256\n"+goneHash+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
				args = append(args[:4], "--file", list)
			}
			sendMarked(t, s, key, "before", goneHash, "")
			cmd := program(t.Context(), args...)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			var err error
			for n, running := 0, true; running; n++ {
				sendMarked(t, s, key, fmt.Sprint("during-", n), goneHash, "")
				select {
				case err = <-ended:
					running = false
				case <-time.After(20 * time.Millisecond):
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			left := stored(t, dir, "shop")
			s.stop(syscall.SIGTERM)
			if err := os.RemoveAll(filepath.Join(dir, "lake")); err != nil {
				t.Fatal(err)
			}
			again := stored(t, dir, "shop")
			if left["before"] > 0 || len(left) == 0 || fmt.Sprint(again) != fmt.Sprint(left) {
				t.Errorf("%d events are left, %d after the stream is loaded again; want the same, and none from before", len(left), len(again))
			}
		})
	}
}

// store puts events into the stream of a service that does not run, as received at a time.
func store(t *testing.T, dir string, at time.Time, rows ...event.Row) {
	t.Helper()
	e, err := engine.Open(t.Context(), engine.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	s, err := stream.Open(t.Context(), e, stream.Options{Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Run(ctx) }()
	defer func() { stop(); <-done }()
	sub := submission.Submission{Kind: submission.Batch, Base: submission.NewBase(at), ReceivedAt: at.Unix(), DatasetID: "shop", Rows: rows}
	for i := range sub.Rows {
		sub.Rows[i].EventTime = at.Unix()
	}
	eventually(t, 10*time.Second, "a stream that takes events", func() error {
		_, err := s.Append(t.Context(), submission.AppendRecord(nil, &sub))
		return err
	})
}

// A node whose clock was ahead has received events at a time that has not come yet. They are erased, too, and stay so.
func TestEraseFromTheFuture(t *testing.T) {
	t.Parallel()
	for _, form := range []string{"one", "list"} {
		t.Run(form, func(t *testing.T) {
			dir := t.TempDir()
			provisioned(t, dir, "shop")
			ahead := time.Now().Add(6 * time.Hour).Truncate(time.Second)
			store(t, dir, ahead, event.Row{EventType: "purchase", EmailSHA256: goneHash}, event.Row{EventType: "purchase", EmailSHA256: otherHash})
			args := []string{"--data", dir, "--yes", "--email-sha256", goneHash}
			if form == "list" {
				list := filepath.Join(t.TempDir(), "drop.csv")
				if err := os.WriteFile(list, []byte("email_sha256\n"+goneHash+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
				args = append(args[:3], "--file", list)
			}
			if out := sluice(t, append([]string{"erase", "--dry-run"}, args...)...); !strings.Contains(out, "1 rows would") {
				t.Errorf("got %q, want one row", out)
			}
			if out := sluice(t, append([]string{"erase"}, args...)...); !strings.Contains(out, "1 rows erased") {
				t.Errorf("got %q, want one row", out)
			}
			if err := os.RemoveAll(filepath.Join(dir, "lake")); err != nil {
				t.Fatal(err)
			}
			if out := sluice(t, "export", "--data", dir); strings.Count(out, "\n") != 1 || strings.Contains(out, goneHash) {
				t.Errorf("loaded again: got %q, want the other event alone", out)
			}
		})
	}
}

// White space around an identifier, such as the CR of a list from elsewhere, is no part of it: for the rows of the table,
// for the tombstone and for an export.
func TestIdentifierIsTrimmed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir, "--commit-every", "200ms")
	key, _ := provisioned(t, dir, "shop")
	for i, given := range [][]string{
		{"--email-sha256", goneHash + " "},
		{"--email-sha256", strings.ToUpper(goneHash) + "\r"},
		{"--partner-id", " gone\r\n", "--dataset", "shop"},
	} {
		sendMarked(t, s, key, "gone", goneHash, "")
		args := append([]string{"--data", dir}, given...)
		if out := sluice(t, append([]string{"export"}, args...)...); strings.Count(out, "\n") != 1 {
			t.Errorf("%d: exported %q, want one event", i, out)
		}
		if out := sluice(t, append([]string{"erase", "--dry-run"}, args...)...); !strings.Contains(out, "1 rows would") {
			t.Errorf("%d: got %q, want one row", i, out)
		}
		if out := sluice(t, append([]string{"erase", "--yes"}, args...)...); !strings.Contains(out, "1 rows erased") {
			t.Errorf("%d: got %q, want one row", i, out)
		}
		if found := stored(t, dir, "shop"); len(found) != 0 {
			t.Errorf("%d: left: %v", i, found)
		}
	}
	s.stop(syscall.SIGTERM)
}
