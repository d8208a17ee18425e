package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"sluice/internal/enginetest"
)

// page reads a path of the operators' listener.
func (s *server) page(path string) (status int, text string) {
	a, err := http.Get(s.Ops() + path)
	if err != nil {
		return 0, err.Error()
	}
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	return a.StatusCode, fmt.Sprint(string(b), errors.Join(err))
}

// While no node can load, every node and the command say that events wait, also a node that never loads; and no node accepts
// more than --max-backlog-age allows. The heartbeats carry why.
func TestNobodyCanLoad(t *testing.T) {
	t.Parallel()
	srv := enginetest.Start(t, "max_payload: 8MB")
	dir := t.TempDir()
	tables, nats := filepath.Join(dir, "tables"), address(srv)
	args := []string{"--nats", nats, "--lake", "file://" + tables, "--commit-every", "200ms", "--max-backlog-age", "4s"}
	nodes := []*server{
		start(t, filepath.Join(dir, "one"), args...),
		start(t, filepath.Join(dir, "two"), append(args, "--loading=false")...),
	}
	key, _ := provisioned(t, filepath.Join(dir, "one"), "shop", "--nats", nats)
	send := func(n *server, want int) func() error {
		return func() error {
			a, err := n.post(key, "/v1/events", marked("shop", fmt.Sprint("e", time.Now().UnixNano())))
			if err == nil && a.status != want {
				err = fmt.Errorf("got %d %s, want %d", a.status, a.body, want)
			}
			return err
		}
	}
	for _, n := range nodes {
		eventually(t, 20*time.Second, "an event accepted", send(n, http.StatusOK))
		n.settle(t, key)
		eventually(t, 20*time.Second, "all stored", func() error {
			if _, page := n.page("/"); !strings.Contains(page, "Every acknowledged event is stored") {
				return errors.New("the console does not say so")
			}
			return nil
		})
	}

	// A file where the directory of the metadata was: nothing can be read or written.
	metadata := filepath.Join(tables, "events", "metadata")
	if err := errors.Join(os.Rename(metadata, metadata+".away"), os.WriteFile(metadata, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	eventually(t, 20*time.Second, "an event that waits", send(nodes[1], http.StatusOK))
	for _, n := range nodes {
		eventually(t, 30*time.Second, "a node that accepts no more", func() error {
			status, why := n.page("/readyz")
			_, page := n.page("/")
			if status != http.StatusServiceUnavailable || !strings.Contains(why, "waits") || strings.Contains(page, "event is stored") {
				return fmt.Errorf("got %d %s", status, why)
			}
			return send(n, http.StatusServiceUnavailable)()
		})
		if _, text := n.page("/metrics"); strings.Contains(text, "\nsluice_load_backlog_seconds 0\n") {
			t.Error("got a backlog of 0 s, and an event waits")
		}
	}
	eventually(t, 60*time.Second, "a status that names the cause", func() error {
		st := statusOf(t, "--nats", nats)
		if len(st.Partitions) != 1 || st.Partitions[0].LagSeconds < 4 || !strings.Contains(strings.Join(st.Problems, "\n"), "cannot load since") {
			return fmt.Errorf("got %+v %q", st.Partitions, st.Problems)
		}
		return nil
	})
	if n := strings.Count(nodes[0].Said(), "loading stopped"); n > 2 {
		t.Errorf("got %d lines of log for one cause, want one a minute", n)
	}

	if err := errors.Join(os.Remove(metadata), os.Rename(metadata+".away", metadata)); err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes {
		eventually(t, 60*time.Second, "an event accepted again", send(n, http.StatusOK))
	}
	eventually(t, 60*time.Second, "a status without problems", func() error {
		if st := statusOf(t, "--nats", nats); len(st.Problems) > 0 || st.Partitions[0].LagSeconds > 4 {
			return fmt.Errorf("got %q %+v", st.Problems, st.Partitions)
		}
		return nil
	})
}

// A NATS account that is full is called that, and no disk: on the console and by the command. A node that has just been
// started is no problem.
func TestFullAccount(t *testing.T) {
	t.Parallel()
	srv := enginetest.Start(t, "max_payload: 8MB\naccounts: {A: {users: [{user: u, password: p}], jetstream: {max_file: 128MB}}}")
	dir := t.TempDir()
	nats := strings.Replace(srv.URL(), "//", "//u:p@", 1)
	node := start(t, filepath.Join(dir, "one"), "--nats", nats, "--lake", "file://"+filepath.Join(dir, "tables"))
	eventually(t, 20*time.Second, "a heartbeat", func() error {
		st := statusOf(t, "--nats", nats)
		if len(st.Nodes) == 0 {
			return errors.New("no node is listed")
		}
		if len(st.Problems) > 0 {
			t.Errorf("a node that was just started: got %q, want no problem", st.Problems)
		}
		return nil
	})
	nc, err := natsgo.Connect(nats)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err == nil {
		_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "OTHER", Subjects: []string{"other"}})
	}
	for i := 0; err == nil && i < 124; i++ { // of 128 MB
		_, err = js.Publish(t.Context(), "other", make([]byte, 1_000_000))
	}
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, 20*time.Second, "the console names the account", func() error {
		status, why := node.page("/readyz")
		_, page := node.page("/")
		if status != http.StatusServiceUnavailable || !strings.Contains(why, "NATS account") || !strings.Contains(page, "The NATS account has nearly reached") || strings.Contains(page, "disk is") {
			return fmt.Errorf("got %d %s", status, why)
		}
		return nil
	})
	wants(t, "status", strings.Join(statusOf(t, "--nats", nats).Problems, "\n"), "the NATS account has nearly reached its storage limit")
}
