package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"sluice/internal/enginetest"
	"sluice/internal/servicetest"
)

// said runs a command that must succeed, and returns what it printed for people.
func said(t *testing.T, args ...string) string {
	t.Helper()
	cmd := program(t.Context(), args...)
	var words bytes.Buffer
	cmd.Stderr = &words
	if err := cmd.Run(); err != nil {
		t.Fatalf("sluice %s: %v\n%s", strings.Join(args, " "), err, words.String())
	}
	return words.String()
}

// backlog runs a service on dir until it has stored some events and holds more that are not in the tables, kills it, and
// returns what it acknowledged.
func backlog(t *testing.T, dir string, l *servicetest.Ledger) {
	t.Helper()
	s := start(t, dir, "--commit-every", "200ms")
	l.ID = "shop"
	l.Key, _ = provisioned(t, dir, "shop")
	loadUntil(t, s, l, 300)
	l.Settle(t, s, 30*time.Second)
	s.stop(syscall.SIGKILL)
	s = start(t, dir, "--commit-every", "10m")
	loadUntil(t, s, l, 600)
	s.stop(syscall.SIGKILL)
}

func loadUntil(t *testing.T, s *server, l *servicetest.Ledger, events int) {
	t.Helper()
	var stop atomic.Bool
	senders := l.Load(s, 4, &stop)
	eventually(t, 30*time.Second, "load", func() error {
		if _, n := l.Acked(); n < events {
			return fmt.Errorf("%d acknowledged", n)
		}
		return nil
	})
	stop.Store(true)
	senders.Wait()
}

// cursorReader reads the feed, and knows what it has read.
type cursorReader struct {
	token, cursor string
	read          map[string]int
}

func newCursorReader(t *testing.T, dir string) *cursorReader {
	t.Helper()
	return &cursorReader{token: reader(t, dir, "follower", "--allow", "feed"), cursor: "earliest", read: map[string]int{}}
}

// catchUp reads from the cursor on.
func (f *cursorReader) catchUp(t *testing.T, s *server) {
	t.Helper()
	for caughtUp := false; !caughtUp; {
		a := s.ask(t, f.token, "/feed/v1/events?purpose=measurement&limit=10000&cursor="+url.QueryEscape(f.cursor))
		if a.status != http.StatusOK {
			t.Fatalf("feed: got %d %.200s, want 200", a.status, a.body)
		}
		for line := range strings.Lines(string(a.body)) {
			var row struct {
				PartnerID string `json:"partner_id"`
				Cursor    string `json:"cursor"`
				CaughtUp  bool   `json:"caught_up"`
			}
			if err := json.Unmarshal([]byte(line), &row); err != nil {
				t.Fatal(err)
			}
			if row.PartnerID != "" {
				f.read[row.PartnerID]++
			} else {
				f.cursor, caughtUp = row.Cursor, row.CaughtUp
			}
		}
	}
}

// lookUps asks for every submission that was acknowledged.
func lookUps(t *testing.T, s *server, l *servicetest.Ledger) {
	t.Helper()
	for _, e := range l.Entries() {
		if e.Status != http.StatusOK || e.ID == "" {
			continue
		}
		if a, err := s.call(http.MethodGet, l.Key, "/v1/submissions/"+e.ID, ""); err != nil || a.status != http.StatusOK {
			t.Fatalf("look-up: got %d %v %s, want 200", a.status, err, a.body)
		}
	}
}

// A stopped service with a backlog moves to another directory, and its tables elsewhere: receipts, keys, retries and cursors
// work there. The old directory refuses to serve until the final backup is undone.
func TestMoveToADirectory(t *testing.T) {
	t.Parallel()
	dir, other := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "other")
	var l servicetest.Ledger
	backlog(t, dir, &l)
	s := start(t, dir)
	f := newCursorReader(t, dir)
	f.catchUp(t, s)
	backup, tables := filepath.Join(t.TempDir(), "backup"), "file://"+filepath.Join(t.TempDir(), "tables")
	wants(t, "a server runs", fails(t, 1, "backup", "--final", backup, "--data", dir), "stop it first")
	s.stop(syscall.SIGTERM)
	sluice(t, "backup", "--final", backup, "--data", dir)
	wants(t, "serve", fails(t, 1, "serve", "--data", dir), "a final backup", "sluice backup --undo-final --data "+dir)
	wants(t, "another backup", fails(t, 1, "backup", filepath.Join(t.TempDir(), "b"), "--data", dir), "a final backup")

	sluice(t, "restore", backup, "--data", other, "--lake", tables)
	s = start(t, other, "--commit-every", "200ms")
	l.Replay(t, s)
	lookUps(t, s, &l)
	l.Settle(t, s, 30*time.Second)
	before := len(f.read)
	f.catchUp(t, s)
	if before == 0 || len(f.read) <= before {
		t.Errorf("the follower had %d rows and now has %d, want more", before, len(f.read))
	}
	l.Check(t, f.read)
	l.Check(t, stored(t, other, "shop"))
	sluice(t, "audit", "verify", "--data", other)
	wants(t, "audit", sluice(t, "audit", "list", "--data", other), `"restore"`, `"final":"true"`, "dataset.create")

	sluice(t, "backup", "--undo-final", "--data", dir)
	start(t, dir)
}

// A cursor of a service that goes on is none of what is restored from an ordinary backup of it: the numbers are given out again.
func TestCursorOfAnOrdinaryBackup(t *testing.T) {
	t.Parallel()
	dir, other := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "other")
	key, _ := provisioned(t, dir, "shop")
	s := start(t, dir)
	if a, err := s.post(key, "/v1/events", marked("shop", "m")); err != nil || a.status != http.StatusOK {
		t.Fatalf("got %d %v", a.status, err)
	}
	f := newCursorReader(t, dir)
	f.catchUp(t, s)
	backup := filepath.Join(t.TempDir(), "backup")
	sluice(t, "backup", backup, "--data", dir)
	s.stop(syscall.SIGTERM)
	sluice(t, "restore", backup, "--data", other)
	s = start(t, other)
	if a := s.ask(t, f.token, "/feed/v1/events?purpose=measurement&cursor="+url.QueryEscape(f.cursor)); a.status != http.StatusGone {
		t.Errorf("got %d %.200s, want 410", a.status, a.body)
	}
}

// A stopped service with a backlog moves into a NATS server: receipts and cursors work there, a retry of an idempotency key
// stores nothing, and every event is in the tables once. Then it moves into another one, and back into a directory.
func TestMoveIntoACluster(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	var l servicetest.Ledger
	backlog(t, dir, &l)
	s := start(t, dir)
	f := newCursorReader(t, dir)
	f.catchUp(t, s)
	s.stop(syscall.SIGTERM)
	backup := filepath.Join(t.TempDir(), "backup")
	sluice(t, "backup", "--final", backup, "--data", dir)

	nats, tables := address(enginetest.Start(t, "")), "file://"+filepath.Join(t.TempDir(), "tables")
	restore := []string{"restore", backup, "--nats", nats, "--lake", tables, "--replicas", "1", "--partitions", "2", "--table-retention", "0"}
	wants(t, "no tables", fails(t, 2, "restore", backup, "--nats", nats), "--lake")
	wants(t, "no cluster", fails(t, 2, "restore", backup, "--replicas", "3", "--data", t.TempDir()), "--nats")
	wants(t, "restore", said(t, restore...), "is restored", "--lake")
	wants(t, "restore again", fails(t, 1, restore...), "hold data of Sluice's already")
	if st := statusOf(t, "--nats", nats); st.Record.Partitions != 2 || st.Record.Replicas != 1 || st.Record.TableRetention != "for ever" || st.Record.Lake != tables {
		t.Errorf("got %+v, want what the restore said", st.Record)
	}

	node := start(t, filepath.Join(t.TempDir(), "node"), "--nats", nats, "--lake", tables, "--commit-every", "200ms")
	l.ReplayMoved(t, node)
	lookUps(t, node, &l)
	l.Settle(t, node, 30*time.Second)
	before := len(f.read)
	f.catchUp(t, node)
	if before == 0 || len(f.read) <= before {
		t.Errorf("the follower had %d rows and now has %d, want more", before, len(f.read))
	}
	l.Check(t, f.read)
	l.Check(t, storedAt(t, "--nats", nats, "--lake", tables))
	wants(t, "a command on the old directory", fails(t, 1, "dataset", "list", "--data", dir), "a final backup")
	sluice(t, "audit", "verify", "--nats", nats)
	wants(t, "audit", sluice(t, "audit", "list", "--nats", nats), `"restore"`, "dataset.create", "reader.create")
	late := l.Send(node, l.Request(servicetest.KeyedBatch))
	node.stop(syscall.SIGTERM)

	// Cluster to cluster: its tables stay where they are only if they are in a bucket.
	wants(t, "final", fails(t, 1, "backup", "--final", filepath.Join(t.TempDir(), "b"), "--nats", nats, "--lake", tables, "--data", t.TempDir()), "back a cluster up without it")
	second := filepath.Join(t.TempDir(), "second")
	sluice(t, "backup", second, "--nats", nats, "--lake", tables)
	other, copied := address(enginetest.Start(t, "")), "file://"+filepath.Join(t.TempDir(), "copied")
	sluice(t, "restore", second, "--nats", other, "--lake", copied)
	if st := statusOf(t, "--nats", other); st.Record.Partitions != 2 || st.Record.Replicas != 1 || st.Record.TableRetention != "for ever" {
		t.Errorf("got %+v, want what the cluster before had", st.Record)
	}
	node = start(t, filepath.Join(t.TempDir(), "node"), "--nats", other, "--lake", copied, "--commit-every", "200ms")
	l.ReplayMoved(t, node)
	l.Settle(t, node, 30*time.Second)
	l.Check(t, storedAt(t, "--nats", other, "--lake", copied))
	node.stop(syscall.SIGTERM)

	// And back, where frames have the keys of their records.
	back := filepath.Join(t.TempDir(), "back")
	sluice(t, "restore", second, "--data", back)
	s = start(t, back, "--commit-every", "200ms")
	if a, err := s.post(l.Key, late.Path, late.Body, "Idempotency-Key", late.IdempotencyKey); err != nil || string(a.body) != late.Receipt {
		t.Errorf("retry: got %d %s, %v, want the first receipt", a.status, a.body, err)
	}
	if a, err := s.call(http.MethodGet, l.Key, "/v1/submissions/"+late.ID, ""); err != nil || a.status != http.StatusOK {
		t.Errorf("look-up: got %d %s, %v, want 200", a.status, a.body, err)
	}
}

// storedAt exports the dataset shop of a cluster, and counts its rows by partner_id.
func storedAt(t *testing.T, flags ...string) map[string]int {
	t.Helper()
	found := map[string]int{}
	for line := range strings.Lines(sluice(t, append([]string{"export", "--dataset", "shop"}, flags...)...)) {
		var row struct {
			PartnerID string `json:"partner_id"`
		}
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatal(err)
		}
		found[row.PartnerID]++
	}
	return found
}

// A restore into a NATS server that was killed leaves servers that nobody uses, and each says what to do. The same again
// restores everything, whatever the first has left.
func TestRestoreIntoAClusterKilled(t *testing.T) {
	t.Parallel()
	backup := backedUp(t)
	nats, tables := address(enginetest.Start(t, "")), "file://"+filepath.Join(t.TempDir(), "tables")
	restore := []string{"restore", backup, "--nats", nats, "--lake", tables, "--replicas", "1"}
	messages := filepath.Join(backup, "stream", "0.frames")
	killedAt(t, messages, restore...)
	for _, args := range [][]string{
		{"serve", "--listen", "127.0.0.1:0", "--ops", "127.0.0.1:0", "--lake", tables},
		{"dataset", "list"},
		{"cluster", "status"},
		{"backup", filepath.Join(t.TempDir(), "b"), "--lake", tables},
	} {
		args = append(args, "--nats", nats, "--data", filepath.Join(t.TempDir(), "node"))
		wants(t, args[0], fails(t, 1, args...), "has not finished", "run sluice restore again")
	}
	eventually(t, 30*time.Second, "the lease of the killed restore ends", func() error {
		_, err := self.Run(t.Context(), restore...)
		return err
	})
	if got := storedAt(t, "--nats", nats, "--lake", tables); got["m"] != 1 {
		t.Errorf("got %v, want the event once", got)
	}
	start(t, filepath.Join(t.TempDir(), "node"), "--nats", nats, "--lake", tables)
}

// killedAt runs a command and kills it when it reads a file.
func killedAt(t *testing.T, file string, args ...string) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err == nil {
		err = errors.Join(os.Remove(file), syscall.Mkfifo(file, 0o600)) // the command waits here
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, kill := context.WithCancel(t.Context())
	defer kill()
	ended := make(chan error, 1)
	go func() {
		_, err := self.Run(ctx, args...)
		ended <- err
	}()
	// A writer can open it without waiting from when there is a reader.
	eventually(t, 30*time.Second, "a reader of "+file, func() error {
		f, err := os.OpenFile(file, os.O_WRONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			return err
		}
		t.Cleanup(func() { _ = f.Close() })
		return nil
	})
	kill()
	if err := <-ended; err == nil {
		t.Fatal("got the end of a command that waits, want that it was killed")
	}
	if err := errors.Join(os.Remove(file), os.WriteFile(file, content, 0o600)); err != nil {
		t.Fatal(err)
	}
}
