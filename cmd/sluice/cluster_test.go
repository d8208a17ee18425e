package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/internal/clusterstatus"
	"sluice/internal/engine"
	"sluice/internal/enginetest"
)

// address is how a node reaches a server of enginetest.
func address(s *enginetest.Server) string {
	return strings.Replace(s.URL(), "nats://", "nats://"+enginetest.Token+"@", 1)
}

// fails runs a command that must fail with a code, and returns what it said.
func fails(t *testing.T, code int, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // one that serves would not end
	defer cancel()
	cmd := program(ctx, args...)
	var words bytes.Buffer
	cmd.Stderr = &words
	err := cmd.Run()
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok || exit.ExitCode() != code {
		t.Errorf("sluice %s: got %v, want exit code %d\n%s", strings.Join(args, " "), err, code, words.String())
	}
	return words.String()
}

func wants(t *testing.T, what, got string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(got, w) {
			t.Errorf("%s: got %q, want %q in it", what, got, w)
		}
	}
}

func statusOf(t *testing.T, args ...string) clusterstatus.Status {
	t.Helper()
	out, _ := program(t.Context(), append([]string{"cluster", "status", "--json"}, args...)...).Output() // fails when there are problems
	var st clusterstatus.Status
	if err := json.Unmarshal(out, &st); err != nil {
		t.Fatalf("cluster status: %v in %q", err, out)
	}
	return st
}

// Servers that ask for no credentials are named: by the check, by a node that starts, and on its page.
func TestUnprotectedServers(t *testing.T) {
	t.Parallel()
	srv := enginetest.Start(t, "max_payload: 8MB\naccounts: {}")
	n := start(t, t.TempDir(), "--nats", srv.URL())
	const problem = "the NATS server asks for no credentials"
	wants(t, "the log", n.said(), problem)
	out, _ := program(t.Context(), "cluster", "check", "--nats", srv.URL()).Output()
	wants(t, "check", string(out), "failed   protection: "+problem)
	wants(t, "the page", string(n.ask(t, "", "/system").body), problem)
}

// A node that only accepts makes no tables and writes nothing to theirs: it waits for those of another node, and reads them.
func TestNodeThatOnlyAccepts(t *testing.T) {
	t.Parallel()
	srv := enginetest.Start(t, "max_payload: 8MB")
	dir := t.TempDir()
	tables := filepath.Join(dir, "tables")
	args := []string{"--nats", address(srv), "--lake", "file://" + tables, "--commit-every", "200ms"}
	accepts := start(t, filepath.Join(dir, "one"), append(args, "--loading=false")...)
	key, _ := provisioned(t, filepath.Join(dir, "one"), "shop", "--nats", address(srv))
	var receipt struct {
		ID string `json:"submission_id"`
	}
	eventually(t, 30*time.Second, "an event accepted", func() error {
		a, err := accepts.post(key, "/v1/events", marked("shop", "e"))
		if err == nil && a.status != 200 {
			err = fmt.Errorf("got %d %s", a.status, a.body)
		}
		return errors.Join(err, json.Unmarshal(a.body, &receipt))
	})
	if _, err := os.Stat(tables); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want nothing where the tables will be", err)
	}
	loads := start(t, filepath.Join(dir, "two"), args...)
	loads.settle(t, key)
	eventually(t, 30*time.Second, "the tables on the node that only accepts", func() error {
		a, err := accepts.call("GET", key, "/v1/submissions/"+receipt.ID, "")
		if err != nil || !strings.Contains(string(a.body), `"PROCESSED"`) {
			return fmt.Errorf("got %d %v %s", a.status, err, a.body)
		}
		if status, text := accepts.page("/iceberg/v1/namespaces/sluice/tables/events"); status != http.StatusOK {
			return fmt.Errorf("got %d %s", status, text)
		}
		return nil
	})
}

// While a node runs that could not read them, a newer one makes no tables and changes none: it takes events, and loads them
// when every node reads what it writes.
func TestTablesWaitForOlderNodes(t *testing.T) {
	t.Parallel()
	srv := enginetest.Start(t, "max_payload: 8MB")
	e, err := engine.Open(t.Context(), engine.Options{URL: srv.URL(), Token: enginetest.Token})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	nodes, err := e.Bucket(t.Context(), engine.Nodes)
	if err != nil {
		t.Fatal(err)
	}
	beat, end := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() { // of a node that does not say what it reads
		for beat.Err() == nil {
			_, _ = nodes.Put(t.Context(), "older", []byte(`{"id":"older","host":"older","version":"0"}`))
			select {
			case <-beat.Done():
			case <-time.After(engine.NodeAge / 5):
			}
		}
		gone <- nodes.Delete(t.Context(), "older", 0)
	}()
	dir := t.TempDir()
	tables := filepath.Join(dir, "tables")
	eventually(t, 20*time.Second, "the older node", func() error {
		_, err := nodes.Get(t.Context(), "older")
		return err
	})
	node := start(t, filepath.Join(dir, "one"), "--nats", address(srv), "--lake", "file://"+tables, "--commit-every", "200ms")
	key, _ := provisioned(t, filepath.Join(dir, "one"), "shop", "--nats", address(srv))
	eventually(t, 30*time.Second, "an event accepted", func() error {
		a, err := node.post(key, "/v1/events", marked("shop", "e"))
		if err == nil && a.status != 200 {
			err = fmt.Errorf("got %d %s", a.status, a.body)
		}
		return err
	})
	wants(t, "the log", node.said(), "a node of an older version runs")
	if _, err := os.Stat(filepath.Join(tables, "events")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want no tables", err)
	}
	end()
	if err := <-gone; err != nil {
		t.Fatal(err)
	}
	node.settle(t, key)
	if _, err := os.Stat(filepath.Join(tables, "events", "metadata")); err != nil {
		t.Error(err)
	}
}

// Nodes with flags that disagree do not start, and each says both values. Nothing of it changes the cluster.
func TestNodesAgree(t *testing.T) {
	t.Parallel()
	srv := enginetest.Start(t, "max_payload: 8MB\nhttp: \"127.0.0.1:-1\"")
	dir := t.TempDir()
	tables := "file://" + filepath.Join(dir, "tables")
	nats := address(srv)
	one := filepath.Join(dir, "one")
	first := start(t, one, "--nats", nats, "--lake", tables, "--partitions", "2", "--commit-every", "200ms")
	second := start(t, filepath.Join(dir, "two"), "--nats", nats, "--lake", tables, "--loading=false")
	serve := func(name string, args ...string) []string {
		return append([]string{"serve", "--data", filepath.Join(dir, name), "--listen", "127.0.0.1:0", "--ops", "127.0.0.1:0", "--nats", nats}, args...)
	}
	wants(t, "a lake of its own", fails(t, 1, serve("three")...), tables, filepath.Join(dir, "three", "lake"), "cluster set")
	wants(t, "partitions", fails(t, 1, serve("three", "--lake", tables, "--partitions", "4")...), "is 2 in", "4 here")
	wants(t, "retention", fails(t, 1, serve("three", "--lake", tables, "--stream-retention", "96h")...), "72h", "96h")
	wants(t, "without an address", fails(t, 1, "dataset", "list", "--data", one), "belongs to a node of the cluster", "--nats")
	wants(t, "the wrong tables", fails(t, 1, "export", "--data", one, "--nats", nats), tables, "--lake")

	sluice(t, "dataset", "create", "shop", "--nats", nats)
	key, _ := provisioned(t, one, "other", "--nats", nats)
	for i, s := range []*server{first, second, first, second} {
		eventually(t, 10*time.Second, "the key", func() error {
			a, err := s.post(key, "/v1/events", marked("other", fmt.Sprint("e", i)))
			if err != nil || a.status != 200 {
				return fmt.Errorf("got %d %v %s", a.status, err, a.body)
			}
			return nil
		})
	}
	sluice(t, "export", "--nats", nats, "--lake", tables)
	eventually(t, 15*time.Second, "a status without problems", func() error {
		st := statusOf(t, "--nats", nats)
		if len(st.Nodes) != 2 || len(st.Partitions) != 2 || st.Record == nil || st.Record.Lake != tables || len(st.Problems) != 0 {
			return fmt.Errorf("got %+v", st)
		}
		for _, p := range st.Partitions {
			if p.Loader == "" || p.Watermark < p.Last {
				return fmt.Errorf("partition %d: got loader %q, %d of %d loaded", p.Partition, p.Loader, p.Watermark, p.Last)
			}
		}
		if len(st.Leases) < 2 || strings.HasPrefix(st.Leases[0].Node, "unknown") {
			return fmt.Errorf("leases: got %+v", st.Leases)
		}
		return nil
	})
	// A node that does not load knows from the others what is in the tables.
	a, err := second.post(key, "/v1/events", marked("other", "looked-up"))
	var receipt struct {
		ID string `json:"submission_id"`
	}
	if err != nil || a.status != 200 || json.Unmarshal(a.body, &receipt) != nil {
		t.Fatalf("got %d %v %s", a.status, err, a.body)
	}
	eventually(t, 15*time.Second, "PROCESSED on the node that does not load", func() error {
		a, err := second.call("GET", key, "/v1/submissions/"+receipt.ID, "")
		if err != nil || !strings.Contains(string(a.body), `"PROCESSED"`) {
			return fmt.Errorf("got %d %v %s", a.status, err, a.body)
		}
		return nil
	})
	wants(t, "a check of one server", fails(t, 1, "cluster", "check", "--nats", nats, "--monitor", srv.Monitor()), "checks failed")
	out, _ := program(t.Context(), "cluster", "check", "--nats", nats, "--monitor", srv.Monitor()).Output()
	wants(t, "check", string(out), "failed   replicas: the cluster's configuration says 1", "sync_interval is always: true", "ok       message size", "ok       protection")

	sluice(t, "cluster", "set", "--nats", nats, "--partitions", "3", "--stream-retention", "96h")
	wants(t, "a shorter retention", fails(t, 2, "cluster", "set", "--nats", nats, "--stream-retention", "48h"), "4d now", "older than 2d are gone", "nothing was changed", "--yes")
	wants(t, "a smaller stream", fails(t, 2, "cluster", "set", "--nats", nats, "--max-stream", "1GiB"), "beyond 1GiB are gone", "nothing was changed")
	if st := statusOf(t, "--nats", nats); st.Record.Partitions != 3 || len(st.Partitions) != 3 || st.Record.StreamRetention != "96h0m0s" {
		t.Errorf("after cluster set: got %+v", st.Record)
	}
	third := start(t, filepath.Join(dir, "three"), "--nats", nats, "--lake", tables, "--partitions", "3")
	for _, s := range []*server{first, second, third} {
		s.stop(15)
	}
}

// Replicas and tables of a running cluster are changed by one command, and by nothing else.
func TestClusterSet(t *testing.T) {
	t.Parallel()
	servers := enginetest.StartCluster(t, 3)
	var urls []string
	for _, s := range servers {
		urls = append(urls, address(s))
	}
	nats, dir := strings.Join(urls, ","), t.TempDir()
	old, moved := filepath.Join(dir, "old"), filepath.Join(dir, "moved")
	node := func(name, tables string, args ...string) []string {
		return append([]string{"serve", "--data", filepath.Join(dir, name), "--listen", "127.0.0.1:0", "--ops", "127.0.0.1:0", "--nats", nats, "--lake", "file://" + tables}, args...)
	}
	first := start(t, filepath.Join(dir, "one"), "--nats", nats, "--lake", "file://"+old, "--replicas", "1", "--commit-every", "200ms")
	key, _ := provisioned(t, filepath.Join(dir, "one"), "shop", "--nats", nats)
	sent := func(s *server, mark string) {
		t.Helper()
		eventually(t, 20*time.Second, "an event accepted", func() error {
			a, err := s.post(key, "/v1/events", marked("shop", mark), "Idempotency-Key", mark)
			if err != nil || a.status != 200 {
				return fmt.Errorf("got %d %v %s", a.status, err, a.body)
			}
			return nil
		})
	}
	sent(first, "before")
	wants(t, "too many replicas", fails(t, 2, "cluster", "set", "--nats", nats, "--replicas", "6"), "1 to 5")
	sluice(t, "cluster", "set", "--nats", nats, "--replicas", "3")
	eventually(t, 60*time.Second, "three replicas in step", func() error {
		st := statusOf(t, "--nats", nats)
		if st.Record == nil || st.Record.Replicas != 3 || len(st.Problems) != 0 {
			return fmt.Errorf("got %+v, %v", st.Record, st.Problems)
		}
		for _, s := range st.Streams {
			if s.Replicas != 3 || s.InStep != 3 {
				return fmt.Errorf("%s: got %d replicas, %d in step", s.Name, s.Replicas, s.InStep)
			}
		}
		return nil
	})
	sent(first, "with-three")
	wants(t, "a node of before", fails(t, 1, node("two", old, "--replicas", "1")...), "is 3 in", "1 here")
	first.stop(15)

	wants(t, "no tables", fails(t, 1, "cluster", "set", "--nats", nats, "--tables", "file://"+moved), "no tables", "sluice lake copy")
	if _, err := os.Stat(moved); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a rejected place was made: %v", err)
	}
	sluice(t, "lake", "copy", "--data", filepath.Join(dir, "one"), "--nats", nats, "--lake", "file://"+old, "--to", "file://"+moved)
	sluice(t, "cluster", "set", "--nats", nats, "--tables", "file://"+moved)
	if st := statusOf(t, "--nats", nats); st.Record.Lake != "file://"+moved || st.Record.LakeID == "" {
		t.Errorf("got %+v, want the tables at %s", st.Record, moved)
	}
	wants(t, "a node with the old tables", fails(t, 1, node("two", old)...), old, moved)
	second := start(t, filepath.Join(dir, "two"), "--nats", nats, "--lake", "file://"+moved, "--commit-every", "200ms")
	sent(second, "after")
	second.settle(t, key)
	out := sluice(t, "export", "--nats", nats, "--lake", "file://"+moved, "--dataset", "shop")
	for _, mark := range []string{"before", "with-three", "after"} {
		if n := strings.Count(out, fmt.Sprintf("%q", mark)); n != 1 {
			t.Errorf("%s is in the tables %d times, want once", mark, n)
		}
	}
	wants(t, "audit", sluice(t, "audit", "list", "--nats", nats), "cluster.set")
}

// The commands work on an embedded engine, too, whether or not its server runs.
func TestStatusOfEmbedded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir)
	eventually(t, 10*time.Second, "a heartbeat", func() error {
		st := statusOf(t, "--data", dir)
		if st.Engine != "attached" || len(st.Nodes) != 1 || len(st.Problems) != 0 || st.Record != nil || len(st.Partitions) != 1 {
			return fmt.Errorf("got %+v", st)
		}
		return nil
	})
	wants(t, "check", sluice(t, "cluster", "check", "--data", dir), "ok       sync", "unknown  replicas")
	wants(t, "set", fails(t, 1, "cluster", "set", "--data", dir, "--replicas", "3"), "not shared")
	s.stop(15)
	if st := statusOf(t, "--data", dir); st.Engine != "embedded" || len(st.Nodes) != 0 {
		t.Errorf("without a server: got %+v", st)
	}
}

// A command that only looks makes nothing: neither buckets on servers that are empty nor a data directory.
func TestClusterStatusMakesNothing(t *testing.T) {
	t.Parallel()
	srv := enginetest.Start(t, "")
	st := statusOf(t, "--nats", address(srv), "--data", filepath.Join(t.TempDir(), "node"))
	if len(st.Problems) != 1 || !strings.Contains(st.Problems[0], "hold nothing") {
		t.Errorf("got problems %q, want one that says that there is no cluster", st.Problems)
	}
	names := srv.JetStream().StreamNames(t.Context())
	for name := range names.Name() {
		t.Errorf("got a stream %s, want none", name)
	}
	if err := names.Err(); err != nil {
		t.Error(err)
	}
	dir := filepath.Join(t.TempDir(), "data")
	wants(t, "no directory", fails(t, 1, "cluster", "status", "--data", dir), "no data directory")
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want no directory", err)
	}
}
