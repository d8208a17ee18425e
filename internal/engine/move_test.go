package engine

import (
	"strings"
	"testing"
	"time"

	"sluice/internal/enginetest"
)

// Move takes both connections to another server, and they stand there.
func TestMove(t *testing.T) {
	var urls []string
	for range 2 {
		urls = append(urls, enginetest.Start(t, "").URL())
	}
	e, err := Open(t.Context(), Options{URL: strings.Join(urls, ","), Token: enginetest.Token})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	reader, err := e.dialReader()
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if !e.Settled() {
		t.Fatal("got connections that do not stand")
	}
	write, read := e.nc.ConnectedUrl(), reader.ConnectedUrl()
	e.Move()
	for deadline := time.Now().Add(10 * time.Second); ; <-time.After(5 * time.Millisecond) {
		if e.Settled() && e.nc.ConnectedUrl() != write && reader.ConnectedUrl() != read {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("got connections to %s and %s, want others than before: %s and %s", e.nc.ConnectedUrl(), reader.ConnectedUrl(), write, read)
		}
	}
	if err := e.Health(); err != nil {
		t.Errorf("got %v after the move, want a healthy engine", err)
	}
}

// A server that is stopped keeps its connections open. Once somebody suspects it, they go to another one within seconds.
func TestSilentServerIsLeft(t *testing.T) {
	servers := map[string]*enginetest.Server{}
	var urls []string
	for range 2 {
		srv := enginetest.Start(t, "")
		servers[srv.URL()], urls = srv, append(urls, srv.URL())
	}
	e := open(t, Options{URL: strings.Join(urls, ","), Token: enginetest.Token})
	go func() { _ = e.Run(t.Context()) }()
	at := e.nc.ConnectedUrl()
	servers[at].Pause()
	defer servers[at].Resume()
	begun := time.Now()
	e.Suspect()
	for e.nc.ConnectedUrl() == at || !e.nc.IsConnected() {
		if time.Since(begun) > 6*time.Second {
			t.Fatal("got a connection to a server that has been stopped for 6 s, want another one")
		}
		<-time.After(5 * time.Millisecond)
	}
	t.Logf("left after %v", time.Since(begun).Round(time.Millisecond))
}
