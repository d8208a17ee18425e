package dataset

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"sluice/internal/engine"
)

func openReaders(t *testing.T, e *engine.Engine) *Readers {
	t.Helper()
	r, err := OpenReaders(t.Context(), e, Options{Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func testEngine(t *testing.T) *engine.Engine {
	t.Helper()
	e, err := engine.Open(t.Context(), engine.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

func TestReaderLife(t *testing.T) {
	r := openReaders(t, testEngine(t))
	made, token, err := r.Create(t.Context(), ReaderSpec{Name: "optimizer", Allow: []string{"feed", "catalog", "feed"}, DatasetID: "shop"})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(made.Allow, ","); got != "catalog,feed" {
		t.Errorf("allow: got %q, want each once, in order", got)
	}
	got, err := r.Authenticate(token.Reveal())
	if err != nil || got.Name != "optimizer" || got.DatasetID != "shop" || !got.Allowed(AllowFeed) || !got.Allowed(AllowCatalog) {
		t.Fatalf("authenticate: got %+v, %v", got, err)
	}
	if _, _, err := r.Create(t.Context(), ReaderSpec{Name: "optimizer", Allow: []string{"feed"}}); !errors.Is(err, ErrReaderExists) {
		t.Errorf("create again: got %v, want ErrReaderExists", err)
	}
	if err := r.Revoke(t.Context(), "optimizer"); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Authenticate(token.Reveal()); !errors.Is(err, ErrToken) {
		t.Errorf("a revoked token: got %v, want ErrToken", err)
	}
	if err := r.Revoke(t.Context(), "nobody"); !errors.Is(err, ErrNoReader) {
		t.Errorf("revoke an unknown reader: got %v, want ErrNoReader", err)
	}
	_, again, err := r.Create(t.Context(), ReaderSpec{Name: "optimizer", Allow: []string{"feed"}})
	if err != nil {
		t.Fatalf("the name of a revoked reader: %v", err)
	}
	if _, err := r.Authenticate(token.Reveal()); !errors.Is(err, ErrToken) {
		t.Errorf("the old token under the new name: got %v, want ErrToken", err)
	}
	if got, err := r.Authenticate(again.Reveal()); err != nil || got.DatasetID != "" {
		t.Errorf("the new token: got %+v, %v", got, err)
	}
	all, err := r.All(t.Context())
	if err != nil || len(all) != 1 {
		t.Errorf("all: got %d, %v, want 1", len(all), err)
	}
}

func TestReaderSpec(t *testing.T) {
	for name, s := range map[string]ReaderSpec{
		"no name": {Allow: []string{"feed"}}, "a space": {Name: "a b", Allow: []string{"feed"}},
		"too long": {Name: strings.Repeat("a", 65), Allow: []string{"feed"}}, "nothing allowed": {Name: "a"},
		"unknown": {Name: "a", Allow: []string{"write"}},
	} {
		if s.Validate() == nil {
			t.Errorf("%s: got no error", name)
		}
	}
}

// A key is no token and a token is no key, whatever is done to its prefix.
func TestTokenIsNoKey(t *testing.T) {
	e := testEngine(t)
	readers := openReaders(t, e)
	keys, err := Open(t.Context(), e, Options{Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	_, token, err := readers.Create(t.Context(), ReaderSpec{Name: "a", Allow: []string{"feed"}})
	if err != nil {
		t.Fatal(err)
	}
	_, _, key, err := keys.Create(t.Context(), Spec{ID: "shop"})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		token.Reveal(), keyPrefix + strings.TrimPrefix(token.Reveal(), tokenPrefix), "",
	} {
		if _, _, err := keys.Authenticate(text); err == nil {
			t.Error("a token opens a dataset")
		}
	}
	for _, text := range []string{key.Reveal(), tokenPrefix + strings.TrimPrefix(key.Reveal(), keyPrefix), "", token.Reveal() + "a"} {
		if _, err := readers.Authenticate(text); err == nil {
			t.Error("a key opens the feed")
		}
	}
}

// A reader that a command revokes is out on every running server within 5 s, also where the announcement did not come.
func TestRevocationHolds(t *testing.T) {
	e := testEngine(t)
	servers, command := []*Readers{openReaders(t, e), openReaders(t, e), openReaders(t, e)}, openReaders(t, e)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	for _, s := range servers {
		go s.Run(ctx)
	}
	_, token, err := command.Create(t.Context(), ReaderSpec{Name: "a", Allow: []string{"feed"}})
	if err != nil {
		t.Fatal(err)
	}
	await := func(what string, want bool) {
		t.Helper()
		for deadline := time.Now().Add(5 * time.Second); ; {
			agree := 0
			for _, s := range servers {
				if _, err := s.Authenticate(token.Reveal()); (err == nil) == want {
					agree++
				}
			}
			if agree == len(servers) {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: after 5 s %d of %d servers know", what, agree, len(servers))
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	await("create", true)
	if err := command.Revoke(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	await("revoke", false)
}
