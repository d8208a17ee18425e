package dataset

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/internal/engine"
	"sluice/internal/enginetest"
)

func TestMain(m *testing.M) { os.Exit(enginetest.Main(m)) }

func openEngine(t testing.TB, o engine.Options) *engine.Engine {
	t.Helper()
	e, err := engine.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

func openRegistry(t testing.TB, e *engine.Engine, now func() time.Time) *Registry {
	t.Helper()
	r, err := Open(t.Context(), e, Options{Now: now})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// onEveryEngine runs a test over the embedded engine and over a server of its own.
func onEveryEngine(t *testing.T, test func(t *testing.T, e *engine.Engine)) {
	t.Run("embedded", func(t *testing.T) { test(t, openEngine(t, engine.Options{Dir: t.TempDir()})) })
	t.Run("external", func(t *testing.T) {
		test(t, openEngine(t, engine.Options{URL: enginetest.Start(t, "").URL(), Token: enginetest.Token}))
	})
}

// run keeps a registry current until the test ends.
func run(t testing.TB, r *Registry) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := r.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
}

func create(t testing.TB, r *Registry, s Spec) (string, Key) {
	t.Helper()
	_, id, k, err := r.Create(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return id, k
}

// within waits for a condition that holds after so long at the latest.
func within(t testing.TB, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(limit)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("no %s within %v", what, limit)
		}
	}
}

func opens(r *Registry, k Key) bool {
	_, _, err := r.Authenticate(k.Reveal())
	return err == nil
}

func TestLifeOfAKey(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, e *engine.Engine) {
		now := time.Date(2026, 11, 14, 12, 0, 0, 0, time.UTC)
		r := openRegistry(t, e, func() time.Time { return now })
		ctx := t.Context()
		check := func(what string, k Key, want bool) {
			t.Helper()
			d, id, err := r.Authenticate(k.Reveal())
			switch {
			case err == nil != want:
				t.Errorf("%s: %v, want it to open: %v", what, err, want)
			case err == nil && (d.ID != "shop" || id == ""):
				t.Errorf("%s opens %q with key %q", what, d.ID, id)
			case err != nil && (err != ErrKey || d != nil || id != k.Reveal()[len(keyPrefix):][:idSize]):
				t.Errorf("%s: %v, %v, %q, want ErrKey, no dataset and the key's id", what, err, d, id)
			}
		}
		firstID, first := create(t, r, Spec{ID: "shop", Name: "Shop"})
		check("first", first, true)
		_, second, err := r.RotateKey(ctx, "shop", time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		check("first within the overlap", first, true)
		check("second", second, true)
		if _, _, err := r.IssueKey(ctx, "shop"); !errors.Is(err, ErrTwoKeys) {
			t.Errorf("third key: %v, want ErrTwoKeys", err)
		}
		if _, _, err := r.RotateKey(ctx, "shop", time.Hour); !errors.Is(err, ErrTwoKeys) {
			t.Errorf("rotation with two keys: %v, want ErrTwoKeys", err)
		}
		now = now.Add(time.Hour - time.Nanosecond)
		check("first at the end of the overlap", first, true)
		now = now.Add(time.Nanosecond)
		check("first after the overlap", first, false)
		thirdID, third, err := r.IssueKey(ctx, "shop")
		if err != nil {
			t.Fatal(err)
		}
		check("third", third, true)
		for range 2 { // the second time changes nothing
			if id, err := r.RevokeKey(ctx, thirdID); err != nil || id != "shop" {
				t.Fatalf("revoke: %q, %v", id, err)
			}
			check("third revoked", third, false)
		}
		if err := r.Disable(ctx, "shop"); err != nil {
			t.Fatal(err)
		}
		check("second of a disabled dataset", second, false)
		if err := r.Enable(ctx, "shop"); err != nil {
			t.Fatal(err)
		}
		check("second after enabling", second, true)
		check("third after enabling", third, false)
		d, err := r.Read(ctx, "shop")
		if err != nil || len(d.Keys) != 3 || d.Keys[0].ID != firstID || !d.Keys[2].Revoked.Equal(now) {
			t.Errorf("stored dataset %+v, %v", d, err)
		}
	})
}

func TestRotationShortensButNeverExtends(t *testing.T) {
	now := time.Date(2026, 11, 14, 12, 0, 0, 0, time.UTC)
	r := openRegistry(t, openEngine(t, engine.Options{Dir: t.TempDir()}), func() time.Time { return now })
	_, first := create(t, r, Spec{ID: "shop"})
	secondID, _, err := r.RotateKey(t.Context(), "shop", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.RevokeKey(t.Context(), secondID); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.RotateKey(t.Context(), "shop", 100*time.Hour); err != nil {
		t.Fatal(err)
	}
	now = now.Add(time.Hour)
	if opens(r, first) {
		t.Error("a second rotation gave an expiring key more time")
	}
	if _, _, err := r.RotateKey(t.Context(), "shop", -time.Second); err == nil {
		t.Error("a negative overlap was taken")
	}
}

func TestCreateRejects(t *testing.T) {
	r := openRegistry(t, openEngine(t, engine.Options{Dir: t.TempDir()}), nil)
	create(t, r, Spec{ID: "taken"})
	for name, c := range map[string]struct {
		s    Spec
		want error
	}{
		"taken":     {Spec{ID: "taken"}, ErrExists},
		"empty":     {Spec{}, ErrID},
		"space":     {Spec{ID: "a b"}, ErrID},
		"control":   {Spec{ID: "a\n"}, ErrID},
		"not ASCII": {Spec{ID: "ä"}, ErrID},
		"too long":  {Spec{ID: strings.Repeat("x", 129)}, ErrID},
		"limit":     {Spec{ID: "a", EventsPerSecond: -1}, nil},
		"name":      {Spec{ID: "a", Name: strings.Repeat("x", 513)}, nil},
	} {
		_, _, _, err := r.Create(t.Context(), c.s)
		if err == nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	for _, id := range []string{"x", strings.Repeat("~", 128), "a.b", "*", ">", "..", "$KV.x/y\\\"'"} {
		create(t, r, Spec{ID: id})
		if d, err := r.Read(t.Context(), id); err != nil || d.ID != id {
			t.Errorf("id %q: %v, %v", id, d, err)
		}
	}
	if _, err := r.Read(t.Context(), "missing"); !errors.Is(err, ErrNotFound) {
		t.Errorf("read: %v, want ErrNotFound", err)
	}
	if err := r.Disable(t.Context(), "missing"); !errors.Is(err, ErrNotFound) {
		t.Errorf("disable: %v, want ErrNotFound", err)
	}
	if _, err := r.RevokeKey(t.Context(), "missing"); !errors.Is(err, ErrNoKey) {
		t.Errorf("revoke: %v, want ErrNoKey", err)
	}
}

// TestCommandBesideAServer changes things through another process's eyes: an engine attached to the server's.
func TestCommandBesideAServer(t *testing.T) {
	dir := t.TempDir()
	server := openRegistry(t, openEngine(t, engine.Options{Dir: dir, Listen: true}), nil)
	run(t, server)
	command := openRegistry(t, openEngine(t, engine.Options{Dir: dir}), nil)
	id, k := create(t, command, Spec{ID: "shop", SuppressOptOut: true, RequestsPerSecond: 5, EventsPerSecond: 50})
	const promise = 5 * time.Second
	within(t, promise, "new dataset", func() bool { return opens(server, k) })
	d, _, err := server.Authenticate(k.Reveal())
	if err != nil || !d.SuppressOptOut || d.RequestsPerSecond != 5 || d.EventsPerSecond != 50 {
		t.Errorf("server sees %+v, %v", d, err)
	}
	// The command sees what others stored, without Run.
	create(t, server, Spec{ID: "other"})
	if all, err := command.List(t.Context()); err != nil || len(all) != 2 || all[0].ID != "other" {
		t.Errorf("command lists %d datasets, %v, want two by id", len(all), err)
	}
	if _, err := command.RevokeKey(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	within(t, promise, "revocation", func() bool { return !opens(server, k) })
}

func TestLastCopyStaysInForce(t *testing.T) {
	srv := enginetest.Start(t, "")
	r := openRegistry(t, openEngine(t, engine.Options{URL: srv.URL(), Token: enginetest.Token}), nil)
	run(t, r)
	_, k := create(t, r, Spec{ID: "shop"})
	srv.Kill()
	within(t, 10*time.Second, "failure", func() bool { return r.Stats().Failures > 0 })
	if !opens(r, k) {
		t.Error("the key was rejected while the engine was away")
	}
	srv.Restart()
	other := openRegistry(t, openEngine(t, engine.Options{URL: srv.URL(), Token: enginetest.Token}), nil)
	if err := other.Disable(t.Context(), "shop"); err != nil {
		t.Fatal(err)
	}
	within(t, 5*time.Second, "disabling after the engine came back", func() bool { return !opens(r, k) })
}

// A server whose disk was replaced may answer before it has a copy: a valid key is not rejected because of that.
func TestOlderAnswerIsNotBelieved(t *testing.T) {
	srv := enginetest.Start(t, "")
	r := openRegistry(t, openEngine(t, engine.Options{URL: srv.URL(), Token: enginetest.Token}), nil)
	run(t, r)
	_, k := create(t, r, Spec{ID: "shop"})
	srv.Replace()
	openRegistry(t, openEngine(t, engine.Options{URL: srv.URL(), Token: enginetest.Token}), nil) // makes the bucket, empty
	before := r.Stats().Failures
	within(t, 10*time.Second, "answers of the empty bucket", func() bool { return r.Stats().Failures > before+2 || !opens(r, k) })
	if !opens(r, k) {
		t.Error("got a key rejected after an answer that is older than the copy, want it to stay valid")
	}
}

func TestRestartedEngine(t *testing.T) {
	e := openEngine(t, engine.Options{Dir: t.TempDir()})
	r := openRegistry(t, e, nil)
	run(t, r)
	_, k := create(t, r, Spec{ID: "shop"})
	if err := e.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !opens(r, k) {
		t.Error("the key was lost over a restart")
	}
	if err := r.Disable(t.Context(), "shop"); err != nil {
		t.Fatal(err)
	}
	if opens(r, k) {
		t.Error("a change after the restart did not take hold")
	}
}

// TestNeverMoreThanTwoLiveKeys lets many issue at once: it is the engine that lets only one change win.
func TestNeverMoreThanTwoLiveKeys(t *testing.T) {
	e := openEngine(t, engine.Options{Dir: t.TempDir()})
	one, two := openRegistry(t, e, nil), openRegistry(t, e, nil)
	create(t, one, Spec{ID: "shop"})
	var wg sync.WaitGroup
	var mu sync.Mutex
	issued, rejected := 0, 0
	for i := range 16 {
		wg.Go(func() {
			r := one
			if i%2 == 0 {
				r = two
			}
			_, _, err := r.IssueKey(t.Context(), "shop")
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				issued++
			case errors.Is(err, ErrTwoKeys):
				rejected++
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if issued != 1 || rejected != 15 {
		t.Errorf("%d issued, %d rejected, want 1 and 15", issued, rejected)
	}
}

func TestManyReadersOneWriter(t *testing.T) {
	r := openRegistry(t, openEngine(t, engine.Options{Dir: t.TempDir()}), nil)
	run(t, r)
	_, steady := create(t, r, Spec{ID: "steady"})
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if !opens(r, steady) {
					t.Error("a key was rejected while others changed")
					return
				}
				r.Stats()
				r.Used()
			}
		})
	}
	for i := range 20 {
		id, k := create(t, r, Spec{ID: fmt.Sprint("d", i)})
		if _, err := r.RevokeKey(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if opens(r, k) {
			t.Error("a revoked key opens where it was revoked")
		}
	}
	close(stop)
	wg.Wait()
	if st := r.Stats(); st.Datasets != 21 || st.LiveKeys != 1 || st.Synced.IsZero() {
		t.Errorf("stats %+v", st)
	}
}

func TestOldKeysAreForgotten(t *testing.T) {
	r := openRegistry(t, openEngine(t, engine.Options{Dir: t.TempDir()}), nil)
	_, k := create(t, r, Spec{ID: "shop"})
	for range maxKeys + 5 {
		id, _, err := r.IssueKey(t.Context(), "shop")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.RevokeKey(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	d, err := r.Read(t.Context(), "shop")
	if err != nil || len(d.Keys) != maxKeys {
		t.Errorf("%d keys remembered, %v, want %d", len(d.Keys), err, maxKeys)
	}
	if !opens(r, k) {
		t.Error("the live key was forgotten")
	}
}

// TestKeyIsNotOnDisk looks through every file for the key and its secret.
func TestKeyIsNotOnDisk(t *testing.T) {
	dir := t.TempDir()
	e := openEngine(t, engine.Options{Dir: dir})
	_, k := create(t, openRegistry(t, e, nil), Spec{ID: "shop"})
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	secret := k.Reveal()[len(keyPrefix)+secretAt : len(keyPrefix)+sumAt]
	files := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files++
		data, err := os.ReadFile(path)
		if strings.Contains(string(data), secret) {
			t.Errorf("%s holds the secret", path)
		}
		return err
	})
	if err != nil || files < 3 {
		t.Errorf("looked through %d files: %v", files, err)
	}
}
