package main

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"sluice/internal/enginetest"
	"sluice/internal/stream"
)

// keySender sends events with an Idempotency-Key, each with its own body and always the same.
type keySender struct {
	t      *testing.T
	key    string
	bodies map[string]string
}

func (k *keySender) send(s *server, name string) answer {
	k.t.Helper()
	if k.bodies[name] == "" {
		k.bodies[name] = marked("shop", name)
	}
	a, err := s.post(k.key, "/v1/events", k.bodies[name], "Idempotency-Key", name)
	if err != nil {
		k.t.Fatal(err)
	}
	return a
}

// rejected wants a 429 that names the bound.
func (k *keySender) rejected(s *server, name string) {
	k.t.Helper()
	a := k.send(s, name)
	if a.status != 429 || !bytes.Contains(a.body, []byte("idempotency_keys_total")) || a.header.Get("Retry-After") == "" {
		k.t.Errorf("%s: got %d %s, want 429 and the name of the bound", name, a.status, a.body)
	}
}

// replayed wants the first receipt.
func (k *keySender) replayed(s *server, name string, first answer) {
	k.t.Helper()
	a := k.send(s, name)
	if a.status != 200 || a.header.Get("Idempotency-Replayed") != "true" || !bytes.Equal(a.body, first.body) {
		k.t.Errorf("%s: got %d %s, want the first receipt", name, a.status, a.body)
	}
}

// A server starts with more keys on its disk than it may have in memory. The newest are known. Those that were left out, and new
// ones, get 429: nothing is stored twice.
func TestMoreKeysThanMemory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir, "--commit-every", "100ms")
	key, _ := provisioned(t, dir, "shop")
	sender := &keySender{t: t, key: key, bodies: map[string]string{}}
	const keys, most = 12, 5
	var first [keys]answer
	name := func(i int) string { return fmt.Sprint("order-", i) }
	for i := range keys {
		if first[i] = sender.send(s, name(i)); first[i].status != 200 {
			t.Fatalf("got %d %s", first[i].status, first[i].body)
		}
	}
	s.stop(15)
	s = start(t, dir, "--commit-every", "100ms", "--memory", fmt.Sprint(most*8*stream.KeyCost))
	for i := range keys {
		if i < keys-most {
			sender.rejected(s, name(i))
		} else {
			sender.replayed(s, name(i), first[i])
		}
	}
	sender.rejected(s, "new")
	if a, err := s.post(key, "/v1/events", marked("shop", "without")); err != nil || a.status != 200 {
		t.Errorf("without a key: got %d %v %s", a.status, err, a.body)
	}
	s.settle(t, key)
	s.stop(15)
	found := stored(t, dir, "shop")
	for i := range keys {
		if found[name(i)] != 1 {
			t.Errorf("%s is stored %d times, want once", name(i), found[name(i)])
		}
	}
	if found["new"] != 0 {
		t.Error("a rejected event is stored")
	}
}

// All nodes of a cluster go by one bound, which is in its record.
func TestKeysOfAClusterAreBounded(t *testing.T) {
	t.Parallel()
	srv := enginetest.Start(t, "")
	dir, nats := t.TempDir(), address(srv)
	tables := "file://" + filepath.Join(dir, "tables")
	node := func(name string, args ...string) *server {
		return start(t, filepath.Join(dir, name), append([]string{"--nats", nats, "--lake", tables}, args...)...)
	}
	bound := func(n int) {
		t.Helper()
		sluice(t, "cluster", "set", "--nats", nats, "--max-idempotency-keys-total", fmt.Sprint(n))
	}
	node("one", "--partitions", "2").stop(15)
	bound(4)
	one, two := node("one"), node("two")
	key, _ := provisioned(t, filepath.Join(dir, "one"), "shop", "--nats", nats)
	sender := &keySender{t: t, key: key, bodies: map[string]string{}}
	first := sender.send(one, "a")
	for _, a := range []answer{first, sender.send(one, "b"), sender.send(two, "c"), sender.send(two, "d")} {
		if a.status != 200 {
			t.Fatalf("got %d %s", a.status, a.body)
		}
	}
	if a := sender.send(one, "e"); a.status != 429 || !bytes.Contains(a.body, []byte("idempotency_keys of this dataset")) {
		t.Errorf("a dataset with half of all keys: got %d %s, want 429", a.status, a.body)
	}
	for name, s := range map[string]*server{"one": one, "two": two} {
		s.stop(15) // its count of the dataset begins at zero
		s = node(name)
		sender.rejected(s, "e")
		sender.replayed(s, "a", first)
		s.stop(15)
	}
	bound(5)
	if st := statusOf(t, "--nats", nats); st.Record.MaxKeys != 5 {
		t.Errorf("after cluster set: got %+v", st.Record)
	}
	two = node("two")
	if a := sender.send(two, "e"); a.status != 200 {
		t.Errorf("after cluster set: got %d %s", a.status, a.body)
	}
	sender.rejected(two, "f")
	if out, _ := program(t.Context(), "cluster", "status", "--nats", nats).Output(); !strings.Contains(string(out), "5 idempotency keys") {
		t.Errorf("status: got %s", out)
	}
}
