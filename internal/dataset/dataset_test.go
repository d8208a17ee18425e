package dataset

import (
	"errors"
	"testing"
	"time"

	"sluice/internal/engine"
)

func openRegistry(t testing.TB, now func() time.Time) *Registry {
	t.Helper()
	e, err := engine.Open(t.Context(), engine.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	r, err := Open(t.Context(), e, Options{Now: now})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestLifeOfAKey(t *testing.T) {
	now := time.Date(2026, 11, 14, 12, 0, 0, 0, time.UTC)
	r := openRegistry(t, func() time.Time { return now })
	ctx := t.Context()
	_, firstID, first, err := r.Create(ctx, Spec{ID: "shop", Name: "Shop"})
	if err != nil {
		t.Fatal(err)
	}
	opens := func(what string, k Key, want bool) {
		t.Helper()
		d, _, err := r.Authenticate(k.Reveal())
		if got := err == nil; got != want || got && d.ID != "shop" {
			t.Errorf("%s: opens %v (%v), want %v", what, got, err, want)
		}
	}
	opens("first", first, true)
	_, second, err := r.RotateKey(ctx, "shop", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	opens("first within the overlap", first, true)
	opens("second", second, true)
	if _, _, err := r.IssueKey(ctx, "shop"); !errors.Is(err, ErrTwoKeys) {
		t.Errorf("third key: %v, want ErrTwoKeys", err)
	}
	now = now.Add(time.Hour)
	opens("first after the overlap", first, false)
	thirdID, third, err := r.IssueKey(ctx, "shop")
	if err != nil {
		t.Fatal(err)
	}
	opens("third", third, true)
	if _, err := r.RevokeKey(ctx, thirdID); err != nil {
		t.Fatal(err)
	}
	opens("third revoked", third, false)
	if err := r.Disable(ctx, "shop"); err != nil {
		t.Fatal(err)
	}
	opens("second of a disabled dataset", second, false)
	if err := r.Enable(ctx, "shop"); err != nil {
		t.Fatal(err)
	}
	opens("second after enabling", second, true)
	if _, err := r.RevokeKey(ctx, "nosuchkey"); !errors.Is(err, ErrNoKey) {
		t.Errorf("revoke an unknown key: %v, want ErrNoKey", err)
	}
	if _, used := r.Used()[firstID]; !used {
		t.Error("first key was used, but it is not known when")
	}
}

func TestAuthenticateAllocatesNothing(t *testing.T) {
	r := openRegistry(t, nil)
	_, _, k, err := r.Create(t.Context(), Spec{ID: "shop"})
	if err != nil {
		t.Fatal(err)
	}
	text := k.Reveal()
	if n := testing.AllocsPerRun(100, func() {
		if _, _, err := r.Authenticate(text); err != nil {
			t.Error(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}
