package dataset

import (
	"context"
	"testing"
	"time"

	"sluice/internal/engine"
)

var noon = time.Date(2026, 11, 14, 12, 0, 0, 0, time.UTC)

// usesOf is what the engine has about the use of a key, read by a registry that knows nothing else.
func usesOf(t *testing.T, e *engine.Engine, id string) Use {
	t.Helper()
	r := openRegistry(t, e, nil)
	if err := r.ReadUse(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r.Used()[id]
}

func TestUseIsKeptInTheEngine(t *testing.T) {
	now := noon
	e := openEngine(t, engine.Options{Dir: t.TempDir()})
	r := openRegistry(t, e, func() time.Time { return now })
	id, k := create(t, r, Spec{ID: "shop"})
	if used := r.Used(); len(used) != 0 {
		t.Errorf("got %v before any use, want nothing", used)
	}
	opens(r, k)
	create(t, r, Spec{ID: "other"}) // a new copy takes over what the old one knew
	for _, step := range []struct {
		after    time.Duration
		use      bool
		inEngine time.Duration // since noon
	}{
		{after: 0, inEngine: 0},                                            // the first use is written at once
		{after: 30 * time.Second, use: true, inEngine: 0},                  // within a minute it is not written again
		{after: 59 * time.Second, inEngine: 0},                             //
		{after: 60 * time.Second, inEngine: 30 * time.Second},              // also if the key is silent since
		{after: 300 * time.Second, use: true, inEngine: 300 * time.Second}, //
	} {
		now = noon.Add(step.after)
		if step.use {
			opens(r, k)
		}
		if err := r.writeUse(t.Context(), useEvery); err != nil {
			t.Fatal(err)
		}
		if got, want := usesOf(t, e, id).Accepted, noon.Add(step.inEngine); !got.Equal(want) {
			t.Errorf("after %v: the engine has %v, want %v", step.after, got, want)
		}
	}
}

func TestUseIsWrittenWhenTheRegistryStops(t *testing.T) {
	e := openEngine(t, engine.Options{Dir: t.TempDir()})
	r := openRegistry(t, e, func() time.Time { return noon })
	id, k := create(t, r, Spec{ID: "shop"})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	opens(r, k)
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got := usesOf(t, e, id).Accepted; !got.Equal(noon) {
		t.Errorf("got %v, want %v", got, noon)
	}
}

func TestUseOfAnEndedKeyIsKnown(t *testing.T) {
	now := noon
	e := openEngine(t, engine.Options{Dir: t.TempDir()})
	r := openRegistry(t, e, func() time.Time { return now })
	id, k := create(t, r, Spec{ID: "shop"})
	opens(r, k)
	if _, err := r.RevokeKey(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	now = noon.Add(time.Hour)
	if opens(r, k) {
		t.Fatal("a revoked key opens its dataset")
	}
	if err := r.writeUse(t.Context(), useEvery); err != nil {
		t.Fatal(err)
	}
	if got, want := usesOf(t, e, id), (Use{Accepted: noon, Rejected: now}); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestNodesShareUse has two nodes that write the same record, and one key that only one of them has seen.
func TestNodesShareUse(t *testing.T) {
	e := openEngine(t, engine.Options{Dir: t.TempDir()})
	first := openRegistry(t, e, func() time.Time { return noon })
	id, k := create(t, first, Spec{ID: "shop"})
	second := openRegistry(t, e, func() time.Time { return noon.Add(time.Hour) })
	opens(first, k)
	opens(second, k)
	for _, r := range []*Registry{second, first} { // the older use is written last
		if err := r.writeUse(t.Context(), useEvery); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := usesOf(t, e, id).Accepted, noon.Add(time.Hour); !got.Equal(want) {
		t.Errorf("got %v, want the newest use %v", got, want)
	}
	if err := first.ReadUse(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, want := first.Used()[id].Accepted, noon.Add(time.Hour); !got.Equal(want) {
		t.Errorf("the first node knows %v, want %v", got, want)
	}
}

func TestUseOfForgottenKeysIsDeleted(t *testing.T) {
	e := openEngine(t, engine.Options{Dir: t.TempDir()})
	r := openRegistry(t, e, func() time.Time { return noon })
	id, k := create(t, r, Spec{ID: "shop"})
	old, recent := noon.Add(-2*useForget).Unix(), noon.Add(-time.Hour).Unix()
	group := id[:1]
	uses := map[string][2]int64{group + "old": {old, 0}, group + "recent": {0, recent}}
	if err := r.mergeUse(t.Context(), group, uses, nil); err != nil {
		t.Fatal(err)
	}
	opens(r, k)
	if err := r.writeUse(t.Context(), useEvery); err != nil {
		t.Fatal(err)
	}
	record, err := r.uses.Get(t.Context(), group)
	if err != nil {
		t.Fatal(err)
	}
	stored, err := decodeUse(record.Value)
	if err != nil {
		t.Fatal(err)
	}
	if _, has := stored.Keys[group+"old"]; has || stored.Keys[group+"recent"] != [2]int64{0, recent} || stored.Keys[id][0] != noon.Unix() {
		t.Errorf("got %v, want the recent one and %s", stored.Keys, id)
	}
}
