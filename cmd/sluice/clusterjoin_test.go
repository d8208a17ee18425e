package main

import (
	"bytes"
	"encoding/json"
	"fmt"
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

// A directory with a backlog moves into a NATS server: every receipt and key is known there, and every event is in the
// tables once. Before and after it the directory cannot be used by mistake.
func TestClusterJoin(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	var l servicetest.Ledger
	backlog(t, dir, &l)
	token := reader(t, dir, "follower", "--allow", "feed")
	nats := address(enginetest.Start(t, ""))
	join := []string{"cluster", "join", "--data", dir, "--nats", nats, "--replicas", "1", "--partitions", "2"}

	wants(t, "serve with an address", fails(t, 1, "serve", "--data", dir, "--nats", nats), "sluice cluster join --data "+dir)
	wants(t, "dry run", said(t, append(join, "--dry-run")...), "2 partitions, 1 replicas", "Nothing prevents it")
	wants(t, "too many replicas", fails(t, 1, "cluster", "join", "--data", dir, "--nats", nats), "3 replicas")
	wants(t, "no such tables", fails(t, 1, append(join, "--lake", "file://"+t.TempDir())...), "sluice lake copy")
	wants(t, "no directory", fails(t, 1, "cluster", "join", "--data", t.TempDir(), "--nats", nats), "holds no embedded engine")
	wants(t, "no address", fails(t, 2, "cluster", "join", "--data", dir), "--nats")

	wants(t, "join", said(t, join...), "frames and", "is in the cluster", filepath.Join(dir, "engine"))
	wants(t, "join again", said(t, join...), "is in the cluster")
	wants(t, "dry run again", said(t, append(join, "--dry-run")...), "already")
	wants(t, "undo", fails(t, 1, append(join, "--undo")...), "is finished")
	wants(t, "the directory alone", fails(t, 1, "serve", "--data", dir), "was moved into the cluster", "--nats")
	wants(t, "a command on it", fails(t, 1, "dataset", "list", "--data", dir), "was moved into the cluster")

	other := filepath.Join(t.TempDir(), "other")
	tables := "file://" + filepath.Join(t.TempDir(), "copy")
	sluice(t, "lake", "copy", "--data", dir, "--nats", nats, "--to", tables) // the tables may move later
	wants(t, "other tables", fails(t, 1, "serve", "--data", other, "--nats", nats, "--listen", "127.0.0.1:0", "--ops", "127.0.0.1:0"), "identity of the tables")
	node := start(t, other, "--nats", nats, "--lake", tables, "--commit-every", "200ms")
	l.Replay(t, node)
	l.Settle(t, node, 30*time.Second)
	for _, e := range l.Entries() {
		if e.Status != 200 {
			continue
		}
		if a, err := node.call("GET", l.Key, "/v1/submissions/"+e.ID, ""); err != nil || a.status != 200 {
			t.Fatalf("look-up: got %d %v, want 200", a.status, err)
		}
	}
	found := map[string]int{}
	for line := range strings.Lines(sluice(t, "export", "--data", other, "--nats", nats, "--lake", tables, "--dataset", "shop")) {
		var row struct {
			PartnerID string `json:"partner_id"`
		}
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatal(err)
		}
		found[row.PartnerID]++
	}
	l.Check(t, found)
	if a := node.ask(t, token, "/feed/v1/events?purpose=measurement&cursor=earliest"); a.status != 200 {
		t.Errorf("the reader's token: got %d, want 200", a.status)
	}
	wants(t, "audit", sluice(t, "audit", "list", "--data", other, "--nats", nats), "cluster.join", "dataset.create", "reader.create")
	sluice(t, "audit", "verify", "--data", other, "--nats", nats)
	if code := node.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
	start(t, dir, "--nats", nats, "--lake", tables) // its own directory will do, too
}

// A move that is given up leaves the directory as it was. A cluster that has nodes takes no directory in.
func TestClusterJoinUndo(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	var l servicetest.Ledger
	backlog(t, dir, &l)
	srv := enginetest.Start(t, "")
	nats := address(srv)
	join := []string{"cluster", "join", "--data", dir, "--nats", nats, "--replicas", "1"}
	if err := os.Rename(filepath.Join(dir, "lake"), filepath.Join(dir, "elsewhere")); err != nil {
		t.Fatal(err)
	}
	wants(t, "no tables", fails(t, 1, join...), "there are no tables", "--lake")
	if err := os.Rename(filepath.Join(dir, "elsewhere"), filepath.Join(dir, "lake")); err != nil {
		t.Fatal(err)
	}
	wants(t, "nothing to give up", said(t, append(join, "--undo")...), "given up")

	small := enginetest.Start(t, "max_payload: 8MB\naccounts: {S: {jetstream: {max_store: 5KB}, users: [{user: s, password: p}]}}")
	tight := strings.Replace(small.URL(), "nats://", "nats://s:p@", 1)
	wants(t, "no storage", fails(t, 1, "cluster", "join", "--data", dir, "--nats", tight, "--replicas", "1"), "raise its limit")

	// Storage that runs out in the middle.
	limited := enginetest.Start(t, "max_payload: 8MB\naccounts: {S: {jetstream: {max_store: 1GB, max_streams: 7}, users: [{user: s, password: p}]}}")
	full := strings.Replace(limited.URL(), "nats://", "nats://s:p@", 1)
	begun := []string{"cluster", "join", "--data", dir, "--nats", full, "--replicas", "1"}
	wants(t, "interrupted", fails(t, 1, begun...), "not finished", "--undo")
	wants(t, "the directory meanwhile", fails(t, 1, "serve", "--data", dir), "is being moved", "sluice cluster join", "--undo")
	wants(t, "a node meanwhile", fails(t, 1, "dataset", "list", "--nats", full, "--data", t.TempDir()), "is being moved", "--undo")
	wants(t, "another server", fails(t, 1, join...), "do not have it")
	wants(t, "undo", said(t, append(begun, "--undo")...), "given up")

	s := start(t, dir, "--commit-every", "200ms")
	wants(t, "a server runs", fails(t, 1, join...), "stop it first")
	l.Replay(t, s)
	l.Settle(t, s, 30*time.Second)
	s.stop(syscall.SIGTERM)
	l.Check(t, stored(t, dir, "shop"))

	node := start(t, filepath.Join(t.TempDir(), "node"), "--nats", nats)
	wants(t, "a cluster that is there", fails(t, 1, join...), "hold data of Sluice's already")
	node.stop(syscall.SIGTERM)
	wants(t, "a cluster without nodes", fails(t, 1, append(join, "--dry-run")...), "hold data of Sluice's already")
}
