package deletion

import (
	"errors"
	"testing"
	"time"

	"sluice/internal/dataset"
	"sluice/internal/engine"
	"sluice/internal/erasure"
)

// A tombstone of a newer backup keeps the id taken also in a registry that is too old to know the dataset, or that knows only an
// earlier one of the id: a new dataset would lose what it accepts.
func TestMendTakesIDs(t *testing.T) {
	now := time.Date(2026, 11, 17, 12, 0, 0, 0, time.UTC)
	e, err := engine.Open(t.Context(), engine.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	reg, err := dataset.Open(t.Context(), e, dataset.Options{Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	stones, err := erasure.Open(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := reg.Create(t.Context(), dataset.Spec{ID: "twice"}); err != nil {
		t.Fatal(err)
	}
	if _, err := reg.Delete(t.Context(), "twice", nil); err != nil {
		t.Fatal(err)
	}
	now = now.Add(30 * 24 * time.Hour)
	free := now.Add(4 * 24 * time.Hour).Truncate(24 * time.Hour)
	for _, id := range []string{"unknown", "twice"} {
		if err := stones.AddDataset(t.Context(), id, now, free); err != nil {
			t.Fatal(err)
		}
	}
	if err := Mend(t.Context(), reg, stones, now); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"unknown", "twice"} {
		_, _, _, err := reg.Create(t.Context(), dataset.Spec{ID: id})
		if taken, ok := errors.AsType[*dataset.DeletedError](err); !ok || !taken.Free.Equal(free) {
			t.Errorf("%s: got %v, want that the id is taken until %v", id, err, free)
		}
	}
	now = free
	if err := Mend(t.Context(), reg, stones, now); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"unknown", "twice"} {
		if _, _, _, err := reg.Create(t.Context(), dataset.Spec{ID: id}); err != nil {
			t.Errorf("%s: got %v, want that the id is free", id, err)
		}
	}
	if err := Mend(t.Context(), reg, stones, now); err != nil {
		t.Fatal(err)
	}
	if all, err := reg.List(t.Context()); err != nil || len(all) != 2 {
		t.Errorf("got %d datasets, %v, want that the new ones stay", len(all), err)
	}
}
