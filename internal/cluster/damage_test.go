package cluster

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"

	"sluice/internal/engine"
	"sluice/internal/enginetest"
)

// A file that one node could not read is known to every node, also after all were restarted, until it is whole again.
func TestDamageIsKnownToAll(t *testing.T) {
	srv := enginetest.Start(t, "")
	var whole, away atomic.Bool
	still := func(context.Context, string) (bool, error) {
		if away.Load() {
			return false, errors.New("the bucket does not answer")
		}
		return !whole.Load(), nil
	}
	open := func(still func(context.Context, string) (bool, error), found ...string) *Damage {
		t.Helper()
		e, err := engine.Open(t.Context(), engine.Options{URL: srv.URL(), Token: enginetest.Token})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { e.Close() })
		d, err := OpenDamage(t.Context(), DamageOptions{Engine: e, Found: func() []string { return found }, Still: still, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	look := func(d *Damage, again bool, want ...string) {
		t.Helper()
		if err := d.look(t.Context(), again); err != nil || !slices.Equal(d.Files(), want) {
			t.Errorf("got %v %v, want %v", d.Files(), err, want)
		}
	}
	blind := open(nil)
	look(open(still, "b.parquet"), true, "b.parquet")
	look(blind, true, "b.parquet")
	finder := open(still, "a.parquet")
	look(finder, false, "b.parquet", "a.parquet")
	if got := open(still).Files(); len(got) != 2 {
		t.Errorf("after a restart: got %v, want both", got)
	}
	away.Store(true) // what is known stays known, and nothing is added
	look(open(still, "c.parquet"), true, "b.parquet", "a.parquet")
	away.Store(false)
	whole.Store(true)
	look(open(still), true)
	look(finder, false) // it remembers a file that is whole
	look(blind, true)
}
