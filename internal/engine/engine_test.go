package engine

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"sluice/internal/enginetest"
)

func TestMain(m *testing.M) { os.Exit(enginetest.Main(m)) }

func open(t *testing.T, o Options) *Engine {
	t.Helper()
	e, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// put stores a message in a stream of its own, which it makes.
func put(t *testing.T, e *Engine, data string) {
	t.Helper()
	if _, err := e.js.CreateOrUpdateStream(t.Context(), jetstream.StreamConfig{Name: "T", Subjects: []string{"t"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.js.Publish(t.Context(), "t", []byte(data)); err != nil {
		t.Fatal(err)
	}
}

func stored(t *testing.T, e *Engine) uint64 {
	t.Helper()
	s, err := e.js.Stream(t.Context(), "T")
	if err != nil {
		t.Fatal(err)
	}
	return s.CachedInfo().State.Msgs
}

func TestEmbeddedKeepsWhatItTook(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	e, err := Open(t.Context(), Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	put(t, e, "one")
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	e = open(t, Options{Dir: dir})
	if n := stored(t, e); n != 1 {
		t.Errorf("%d messages after reopening, want 1", n)
	}
	if st := e.Stats(); st.Mode != Embedded || !st.Healthy || st.Version == "" {
		t.Errorf("stats %+v", st)
	}
	fi, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	if fi.Mode().Perm() != 0o700 {
		t.Errorf("data directory has mode %v, want 0700", fi.Mode().Perm())
	}
}

func TestAttachToARunningServer(t *testing.T) {
	dir := t.TempDir()
	serve := open(t, Options{Dir: dir, Listen: true})
	fi, err := os.Stat(filepath.Join(dir, addressName))
	if err != nil {
		t.Fatal(err)
	}
	if fi.Mode().Perm() != 0o600 {
		t.Errorf("address file has mode %v, want 0600", fi.Mode().Perm())
	}
	command := open(t, Options{Dir: dir})
	if command.Mode() != Attached {
		t.Fatalf("second opener is %v, want attached", command.Mode())
	}
	put(t, command, "from outside")
	if n := stored(t, serve); n != 1 {
		t.Errorf("server sees %d messages, want 1", n)
	}
	if err := command.Restart(t.Context()); err == nil {
		t.Error("a command restarted the server's engine")
	}
	// A restart moves the listener; the next command finds it.
	if err := serve.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	put(t, open(t, Options{Dir: dir}), "again")
	if n := stored(t, serve); n != 2 {
		t.Errorf("server sees %d messages, want 2", n)
	}
}

// Every command of an operator opens a connection. What is left of it is bounded.
func TestClosedConnectionsAreForgotten(t *testing.T) {
	dir := t.TempDir()
	e := open(t, Options{Dir: dir, Listen: true})
	for range 2 * maxClosed {
		a, err := Open(t.Context(), Options{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
	}
	closed, err := e.srv.Load().Connz(&server.ConnzOptions{State: server.ConnClosed})
	if err != nil {
		t.Fatal(err)
	}
	if closed.NumConns > maxClosed {
		t.Errorf("the server remembers %d connections that have ended, want at most %d", closed.NumConns, maxClosed)
	}
}

func TestAttachNeedsTheToken(t *testing.T) {
	dir := t.TempDir()
	open(t, Options{Dir: dir, Listen: true})
	a, err := readAddress(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(a.URL, "nats://127.0.0.1:") {
		t.Errorf("listens at %s, want loopback", a.URL)
	}
	for _, token := range []string{"", "wrong"} {
		if nc, err := nats.Connect(a.URL, nats.Token(token)); err == nil {
			nc.Close()
			t.Errorf("token %q was let in", token)
		}
	}
}

func TestAddressGoesWithTheServer(t *testing.T) {
	dir := t.TempDir()
	e, err := Open(t.Context(), Options{Dir: dir, Listen: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, addressName)); !os.IsNotExist(err) {
		t.Errorf("address file after Close: %v, want none", err)
	}
	// A crash leaves it behind; the lock is free, so the next opener runs the engine itself.
	if err := writeJSON(dir, addressName, address{URL: "nats://127.0.0.1:1", Token: "stale"}); err != nil {
		t.Fatal(err)
	}
	if e := open(t, Options{Dir: dir}); e.Mode() != Embedded {
		t.Errorf("mode %v, want embedded", e.Mode())
	}
}

func TestDirectoryInUse(t *testing.T) {
	dir := t.TempDir()
	holder, err := Open(t.Context(), Options{Dir: dir}) // lets nobody in
	if err != nil {
		t.Fatal(err)
	}
	_, err = Open(t.Context(), Options{Dir: dir, Wait: 200 * time.Millisecond})
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("in use by process %d", os.Getpid())) {
		t.Errorf("error %v, want one that names the process", err)
	}
	// Who waits long enough gets it.
	opened := make(chan error, 1)
	go func() {
		e, err := Open(context.Background(), Options{Dir: dir})
		if err == nil {
			err = e.Close()
		}
		opened <- err
	}()
	if err := holder.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-opened; err != nil {
		t.Error(err)
	}
}

func TestHandlesSurviveARestart(t *testing.T) {
	e := open(t, Options{Dir: t.TempDir()})
	put(t, e, "before")
	kv, err := e.js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "B"})
	if err != nil {
		t.Fatal(err)
	}
	parts, err := e.Partitions(t.Context(), PartitionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer parts.Close()
	changed := e.Changed()
	if err := e.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-changed
	if _, err := kv.Put(t.Context(), "k", []byte("v")); err != nil {
		t.Errorf("bucket opened before the restart: %v", err)
	}
	if _, err := parts.List[0].State(t.Context()); err != nil {
		t.Errorf("partition opened before the restart: %v", err)
	}
	put(t, e, "after")
	if n := stored(t, e); n != 2 {
		t.Errorf("%d messages, want 2", n)
	}
	if st := e.Stats(); st.Restarts != 1 {
		t.Errorf("restarts %d, want 1", st.Restarts)
	}
}

func TestRunHealsAFault(t *testing.T) {
	var log bytes.Buffer
	e := open(t, Options{Dir: t.TempDir(), Log: slog.New(slog.NewTextHandler(&log, nil))})
	put(t, e, "before")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	// What the server says when a write fails; that it says so is tested with a real failure in package stream.
	(&bridge{e}).Errorf("JetStream stream '%s' critical write error: %v", "T", os.ErrInvalid)
	if e.Health() == nil {
		t.Error("healthy right after a write error")
	}
	deadline := time.After(10 * time.Second)
	for e.Health() != nil || e.Stats().Restarts == 0 {
		select {
		case <-deadline:
			t.Fatal("not healed")
		case <-time.After(5 * time.Millisecond):
		}
	}
	put(t, e, "after")
	cancel()
	if err := <-done; err != nil { // after which the log is ours
		t.Error(err)
	}
	if !strings.Contains(log.String(), "engine restarted") {
		t.Errorf("log does not tell of the restart:\n%s", log.String())
	}
}

func TestRewriteKeepsTheNewestBlock(t *testing.T) {
	dir := t.TempDir()
	e := open(t, Options{Dir: dir})
	for range 100 {
		put(t, e, strings.Repeat("x", 1000))
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	msgs := filepath.Join(dir, storeName, "jetstream", "$G", "streams", "T", "msgs")
	block, err := newestBlock(msgs)
	if err != nil || block == "" {
		t.Fatalf("newest block: %q, %v", block, err)
	}
	before, err := os.ReadFile(block)
	if err != nil {
		t.Fatal(err)
	}
	if err := rewriteTails(filepath.Join(dir, storeName)); err != nil {
		t.Fatal(err)
	}
	after, err := os.ReadFile(block)
	if err != nil {
		t.Fatal(err)
	}
	if len(before) < 100_000 || !bytes.Equal(before, after) {
		t.Errorf("block of %d bytes has %d after rewriting, or other ones", len(before), len(after))
	}
	if n := stored(t, open(t, Options{Dir: dir})); n != 100 {
		t.Errorf("%d messages, want 100", n)
	}
}

func TestNewestBlockIsByNumber(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"9.blk", "10.blk", "index.db", "x.blk"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := newestBlock(dir)
	if err != nil || filepath.Base(got) != "10.blk" {
		t.Errorf("newest is %q, %v, want 10.blk", got, err)
	}
}

func TestExternal(t *testing.T) {
	srv := enginetest.Start(t, "")
	e := open(t, Options{URL: srv.URL(), Token: enginetest.Token})
	if e.Mode() != External || e.Dir() != "" {
		t.Errorf("mode %v, dir %q", e.Mode(), e.Dir())
	}
	put(t, e, "one")
	srv.Kill()
	deadline := time.After(10 * time.Second)
	for e.Health() == nil {
		select {
		case <-deadline:
			t.Fatal("healthy without a server")
		case <-time.After(5 * time.Millisecond):
		}
	}
	changed := e.Changed()
	srv.Restart()
	select {
	case <-changed:
	case <-deadline:
		t.Fatal("connection did not come back")
	}
	put(t, e, "two")
	if n := stored(t, e); n != 2 {
		t.Errorf("%d messages, want 2", n)
	}
}

func TestOpenRefuses(t *testing.T) {
	small := enginetest.Start(t, "max_payload: 1MB")
	for name, c := range map[string]struct {
		o    Options
		want string
	}{
		"nothing":            {Options{}, "neither a data directory nor an address"},
		"replicas here":      {Options{Dir: t.TempDir(), Replicas: 3}, "need a cluster"},
		"small messages":     {Options{URL: small.URL(), Token: enginetest.Token}, "max_payload"},
		"wrong token":        {Options{URL: small.URL(), Token: "secret-of-mine"}, "Authorization Violation"},
		"nobody there":       {Options{URL: "nats://user:secret-of-mine@127.0.0.1:1"}, "connect to the external engine"},
		"unreadable address": {Options{URL: "nats://user:secret-of-mine@127.0.0.1:port"}, "connect to the external engine"},
		"missing authority":  {Options{URL: small.URL(), RootCA: "/no/such/file"}, "no such file"},
	} {
		e, err := Open(t.Context(), c.o)
		if err == nil {
			e.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "secret-of-mine") {
			t.Errorf("%s: the error shows the secret: %v", name, err)
		}
	}
}

// The backlog, datasets and keys of an embedded engine must not seem to be gone because somebody adds an address.
func TestEmbeddedDirectoryWithAnAddress(t *testing.T) {
	srv := enginetest.Start(t, "")
	dir := t.TempDir()
	o := Options{Dir: dir, URL: srv.URL(), Token: enginetest.Token}
	e, err := Open(t.Context(), o)
	if err != nil {
		t.Fatalf("an empty directory: %v", err)
	}
	e.Close()
	e = open(t, Options{Dir: dir})
	partitions(t, e, PartitionOptions{})
	e.Close()
	if _, err := Open(t.Context(), o); err == nil || !strings.Contains(err.Error(), "sluice backup --final") {
		t.Errorf("a directory with a stream: got %v, want the command that moves it", err)
	}
}
