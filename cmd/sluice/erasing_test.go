package main

import (
	"bufio"
	"context"
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
)

// A list is erased in one pass, with a line for each kind, and its people do not come back: from frames, or with later events.
// Nothing of the list stays on the disk.
func TestEraseList(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	key, _ := provisioned(t, dir, "shop")
	s := start(t, dir, "--commit-every", "200ms")
	const third = "0d1edf2dbbd8dbb2f0f8d0b2d3ef6a3d9be0e6f53e9ef1bd3f9d0b7e0d2c3a1f"
	for i, hash := range []string{goneHash, otherHash, third, goneHash} {
		sendMarked(t, s, key, fmt.Sprint("p-", i), hash, "")
	}
	list := filepath.Join(t.TempDir(), "drop.csv")
	var b strings.Builder
	b.WriteString("email_sha256,partner_id\n" + strings.ToUpper(goneHash) + ",\n,p-2\n")
	for i := range 70_000 { // more than one tombstone
		fmt.Fprintf(&b, "%064x,\n", i+1)
	}
	if err := os.WriteFile(list, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if out := fails(t, 1, "erase", "--data", dir, "--file", list, "--yes"); !strings.Contains(out, "--dataset") {
		t.Errorf("a partner_id without a dataset: got %s", out)
	}
	fails(t, 2, "erase", "--data", dir, "--dataset", "shop", "--file", list) // nobody to ask
	var got struct {
		Rows  int64
		Kinds []struct {
			Kind        string
			Identifiers int
			Rows        int64
		}
	}
	for _, more := range []string{"--dry-run", "--and-suppress"} {
		out := sluice(t, "erase", "--data", dir, "--dataset", "shop", "--file", list, "--json", "--yes", more)
		if err := json.Unmarshal([]byte(out), &got); err != nil {
			t.Fatal(err)
		}
		if got.Rows != 3 || fmt.Sprint(got.Kinds) != "[{email_sha256 70001 2} {partner_id 1 1}]" {
			t.Errorf("%s: got %s", more, out)
		}
	}
	for _, hash := range []string{goneHash, otherHash} {
		sendMarked(t, s, key, "later", hash, "")
	}
	want := map[string]int{"p-1": 1, "later": 1, "": 1} // the second of the later ones is without identifiers
	if found := stored(t, dir, "shop"); fmt.Sprint(found) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", found, want)
	}
	s.stop(syscall.SIGTERM)
	if err := os.RemoveAll(filepath.Join(dir, "lake")); err != nil { // the stream is loaded again
		t.Fatal(err)
	}
	if found := stored(t, dir, "shop"); fmt.Sprint(found) != fmt.Sprint(want) {
		t.Errorf("loaded again: got %v, want %v", found, want)
	}
	if files := filesWith(t, filepath.Join(dir, "lake"), goneHash); len(files) > 0 {
		t.Errorf("the identifier is in %v", files)
	}
}

// The command is killed, with SIGKILL, beside a server; the same command again finishes the work.
func TestKilledInEraseList(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	key, _ := provisioned(t, dir, "shop")
	s := start(t, dir, "--commit-every", "200ms")
	for i, hash := range []string{goneHash, otherHash, goneHash} {
		sendMarked(t, s, key, fmt.Sprint("p-", i), hash, "")
	}
	list := filepath.Join(t.TempDir(), "drop.ndjson")
	if err := os.WriteFile(list, []byte(`{"email_sha256":"`+goneHash+`"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"erase", "--data", dir, "--file", list, "--yes"}
	for range 3 { // at whatever step it is then
		cmd := program(t.Context(), args...)
		words, err := cmd.StderrPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		for lines := bufio.NewScanner(words); lines.Scan() && !strings.Contains(lines.Text(), "Looking through"); {
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	sluice(t, args...)
	want := map[string]int{"p-1": 1}
	if found := stored(t, dir, "shop"); fmt.Sprint(found) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", found, want)
	}
	if files := filesWith(t, filepath.Join(dir, "lake"), goneHash); len(files) > 0 {
		t.Errorf("the identifier is in %v", files)
	}
}

// An erasure that was killed while it deleted rows, and is given again, counts them by kind as well as in total.
func TestResumedEraseListCounts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	key, _ := provisioned(t, dir, "shop")
	s := start(t, dir, "--commit-every", "200ms")
	sendMarked(t, s, key, "p-1", goneHash, "")
	var row struct {
		EventID string `json:"event_id"`
	}
	if err := json.Unmarshal([]byte(sluice(t, "export", "--data", dir)), &row); err != nil {
		t.Fatal(err)
	}
	id, ok := event.ParseID(row.EventID)
	if !ok {
		t.Fatalf("got %q, want an id", row.EventID)
	}
	s.stop(syscall.SIGTERM)
	e, err := engine.Open(t.Context(), engine.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	log, err := stream.Open(t.Context(), e, stream.Options{Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	stones, err := erasure.Open(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	list := stones.NewList()
	list.Put(identifier.Email, goneHash)
	if _, err := stones.Add(t.Context(), list, "", time.Now(), time.Hour); err != nil {
		t.Fatal(err)
	}
	nothing := func(context.Context) (string, error) { return "", nil }
	err = stones.Pass(t.Context(), nothing, func(ctx context.Context, w *erasure.Writer) error { // up to the first commit
		err := w.Rows(ctx, []event.Row{{EventID: id, DatasetID: "shop"}})
		_, markErr := w.Mark(ctx, false)
		return errors.Join(err, markErr)
	})
	if err == nil {
		err = stones.Pass(t.Context(), nothing, func(ctx context.Context, w *erasure.Writer) error {
			if !w.Pending() {
				return errors.New("nothing is pending: the test shows nothing")
			}
			return nil
		})
	}
	if err := errors.Join(err, log.Close(), e.Close()); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "drop.csv")
	if err := os.WriteFile(file, []byte("email_sha256\n"+goneHash+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	wants(t, "the result", sluice(t, "erase", "--data", dir, "--file", file, "--yes"), "email_sha256: 1 identifiers, 1 rows erased", "\n1 rows erased")
}
