package engine

import (
	"bytes"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/internal/enginetest"
)

// words is a log that is read while it is written.
type words struct {
	mu sync.Mutex
	bytes.Buffer
}

func (w *words) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.Buffer.Write(b)
}

func (w *words) count(text string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Count(w.String(), text)
}

// awaitHealth waits for a state of health; want is part of the error, "" is none.
func awaitHealth(t *testing.T, e *Engine, want string) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for {
		err := e.Health()
		if err == nil && want == "" || err != nil && want != "" && strings.Contains(err.Error(), want) {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("got health %v, want %q", err, want)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// A password that is wrong for a while ends no connection for good: both come back when the server takes it again.
func TestWrongPasswordForAWhile(t *testing.T) {
	with := func(password string) string {
		return fmt.Sprintf("max_payload: 8MB\naccounts: {A: {jetstream: enabled, users: [{user: sluice, password: %q}]}}\n", password)
	}
	srv := enginetest.Start(t, with("right"))
	srv.Restart()
	log := &words{}
	e := open(t, Options{URL: strings.Replace(srv.URL(), "://", "://sluice:right@", 1), Log: slog.New(slog.NewTextHandler(log, nil))})
	p := partitions(t, e, PartitionOptions{})
	put(t, e, "before")
	if _, err := p.List[0].State(t.Context()); err != nil {
		t.Fatal(err)
	}

	srv.Reload(with("wrong"))
	awaitHealth(t, e, "rejects the credentials")
	attempts := func() int { return strings.Count(srv.Log(), "authentication error") }
	for deadline := time.Now().Add(30 * time.Second); attempts() < 12; { // several of each connection
		if time.Now().After(deadline) {
			t.Fatalf("got %d attempts, want it to go on", attempts())
		}
		<-time.After(10 * time.Millisecond)
	}
	if n := log.count("credentials"); n == 0 || n > 2 {
		t.Errorf("got %d lines about the credentials, want one for each connection", n)
	}

	srv.Reload(with("right"))
	awaitHealth(t, e, "")
	put(t, e, "after")
	if _, err := p.List[0].State(t.Context()); err != nil {
		t.Error(err)
	}
}

// A credentials file that was renewed after its user ran out is read again.
func TestRenewedCredentials(t *testing.T) {
	operator := enginetest.NewOperator(t)
	srv := enginetest.Start(t, "max_payload: 8MB\n"+operator.Config)
	file := filepath.Join(t.TempDir(), "sluice.creds")
	operator.Write(file, time.Now().Add(5*time.Second))
	e := open(t, Options{URL: srv.URL(), Credentials: file})
	partitions(t, e, PartitionOptions{})
	put(t, e, "before")
	awaitHealth(t, e, "rejects the credentials")
	operator.Write(file, time.Now().Add(time.Hour))
	awaitHealth(t, e, "")
	put(t, e, "after")
}
