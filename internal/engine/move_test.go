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
