package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/internal/enginetest"
)

// The tables of a cluster are deleted under its nodes: every node that loads says so, and accepts. When they are put back
// loading goes on. Without a copy lake reload makes new ones, after a yes, and restarted nodes load what the stream holds.
func TestTablesOfAClusterAreGone(t *testing.T) {
	t.Parallel()
	srv := enginetest.Start(t, "max_payload: 8MB")
	dir := t.TempDir()
	tables, nats := filepath.Join(dir, "tables"), address(srv)
	args := []string{"--nats", nats, "--lake", "file://" + tables, "--commit-every", "200ms"}
	serve := func() []*server {
		return []*server{start(t, filepath.Join(dir, "one"), args...), start(t, filepath.Join(dir, "two"), args...)}
	}
	nodes := serve()
	key, _ := provisioned(t, filepath.Join(dir, "one"), "shop", "--nats", nats)
	sent := 0
	send := func(n *server) {
		t.Helper()
		sent++
		mark := fmt.Sprint("mark-", sent)
		eventually(t, 20*time.Second, "an event accepted", func() error {
			a, err := n.post(key, "/v1/events", marked("shop", mark), "Idempotency-Key", mark)
			if err == nil && a.status != 200 {
				err = fmt.Errorf("got %d %s", a.status, a.body)
			}
			return err
		})
	}
	gone := func() {
		t.Helper()
		for _, n := range nodes {
			eventually(t, time.Minute, "a node that says so", func() error {
				if _, page := n.page("/"); !strings.Contains(page, "needs you now") || !strings.Contains(page, "Nothing is loaded: ") {
					return errors.New("the console does not")
				}
				return nil
			})
			send(n)
		}
		eventually(t, time.Minute, "a problem in the status", func() error {
			if out := strings.Join(statusOf(t, "--nats", nats).Problems, " "); !strings.Contains(out, "no table") {
				return fmt.Errorf("got %q", out)
			}
			return nil
		})
	}
	send(nodes[0])
	nodes[0].settle(t, key)
	if err := os.Rename(tables, tables+".copy"); err != nil {
		t.Fatal(err)
	}
	gone()
	if err := os.Rename(tables+".copy", tables); err != nil {
		t.Fatal(err)
	}
	nodes[1].settle(t, key)

	if err := os.RemoveAll(tables); err != nil {
		t.Fatal(err)
	}
	gone()
	command := []string{"lake", "reload", "--nats", nats, "--lake", "file://" + tables}
	wants(t, "without a yes", fails(t, 1, command...), "no tables", "--yes")
	wants(t, "dry run", fails(t, 1, append(command, "--dry-run")...), "nothing was changed")
	if _, err := os.Stat(tables); err == nil {
		t.Error("a command that was not agreed to made a directory")
	}
	sluice(t, append(command, "--yes")...)
	for _, n := range nodes {
		n.stop(15)
	}
	nodes = serve()
	nodes[0].settle(t, key)
	out := sluice(t, "export", "--nats", nats, "--lake", "file://"+tables, "--dataset", "shop")
	for i := range sent {
		if n := strings.Count(out, fmt.Sprintf("%q", fmt.Sprint("mark-", i+1))); n != 1 {
			t.Errorf("event %d is in the tables %d times, want once", i+1, n)
		}
	}
	wants(t, "nothing lacking", sluice(t, command...), "0 were loaded again")
	wants(t, "audit", sluice(t, "audit", "list", "--nats", nats), "lake reload")
}
