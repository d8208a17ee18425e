package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/internal/enginetest"
)

// address is how a node reaches a server of enginetest.
func address(s *enginetest.Server) string {
	return strings.Replace(s.URL(), "nats://", "nats://"+enginetest.Token+"@", 1)
}

// fails runs a command that must fail with a code, and returns what it said.
func fails(t *testing.T, code int, args ...string) string {
	t.Helper()
	cmd := program(t.Context(), args...)
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

func statusOf(t *testing.T, args ...string) clusterStatus {
	t.Helper()
	out, _ := program(t.Context(), append([]string{"cluster", "status", "--json"}, args...)...).Output() // fails when there are problems
	var st clusterStatus
	if err := json.Unmarshal(out, &st); err != nil {
		t.Fatalf("cluster status: %v in %q", err, out)
	}
	return st
}

// Nodes with flags that disagree do not start, and each says both values. Nothing of it changes the cluster.
func TestNodesAgree(t *testing.T) {
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
	wants(t, "check", string(out), "failed   replicas: the cluster's configuration says 1", "sync_interval is always: true", "ok       message size")

	sluice(t, "cluster", "set", "--nats", nats, "--partitions", "3", "--stream-retention", "96h")
	if st := statusOf(t, "--nats", nats); st.Record.Partitions != 3 || len(st.Partitions) != 3 || st.Record.StreamRetention != "96h0m0s" {
		t.Errorf("after cluster set: got %+v", st.Record)
	}
	third := start(t, filepath.Join(dir, "three"), "--nats", nats, "--lake", tables, "--partitions", "3")
	for _, s := range []*server{first, second, third} {
		s.stop(15)
	}
}

// The commands work on an embedded engine, too, whether or not its server runs.
func TestStatusOfEmbedded(t *testing.T) {
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
