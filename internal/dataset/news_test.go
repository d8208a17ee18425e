package dataset

import (
	"context"
	"crypto/rand"
	"testing"
	"time"

	"sluice/internal/engine"
)

// What a command changes holds on a running server when the command returns: nobody has to wait before using a key.
func TestChangeHoldsAtOnce(t *testing.T) {
	e, err := engine.Open(t.Context(), engine.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	open := func() *Registry {
		r, err := Open(t.Context(), e, Options{Now: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	server, command := open(), open()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx) }()
	for { // until Run listens
		before := server.Stats().Loads
		if _, _, _, err := command.Create(t.Context(), Spec{ID: rand.Text()}); err != nil {
			t.Fatal(err)
		}
		if server.Stats().Loads > before {
			break
		}
	}
	for range 20 {
		_, keyID, key, err := command.Create(t.Context(), Spec{ID: time.Now().Format("150405.000000000")})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := server.Authenticate(key.Reveal()); err != nil {
			t.Fatalf("right after the key was made: got %v", err)
		}
		if _, err := command.RevokeKey(t.Context(), keyID); err != nil {
			t.Fatal(err)
		}
		if _, _, err := server.Authenticate(key.Reveal()); err == nil {
			t.Fatal("right after the key was revoked it still opens")
		}
	}
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
