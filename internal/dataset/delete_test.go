package dataset

import (
	"errors"
	"testing"
	"time"

	"sluice/internal/engine"
)

// A deleted dataset is gone with its keys, from every copy of the registry. Its id cannot be used again before the stream holds
// nothing of it, and the error says when that is. Then it is another dataset.
func TestDeletedDataset(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, e *engine.Engine) {
		now := time.Date(2026, 11, 17, 12, 0, 0, 0, time.UTC)
		clock := func() time.Time { return now }
		server, command := openRegistry(t, e, clock), openRegistry(t, e, clock)
		_, key := create(t, command, Spec{ID: "shop"})
		_, other := create(t, command, Spec{ID: "other"})
		run(t, server)
		within(t, 5*time.Second, "the server knows the keys", func() bool { return opens(server, key) && opens(server, other) })

		left, err := command.Delete(t.Context(), "shop", nil)
		if err != nil || !left.At.Equal(now) || left.Free.Before(now.Add(engine.DefaultStreamRetention)) || left.Free.Hour() != 0 {
			t.Fatalf("got %+v, %v, want a day after the stream has let go", left, err)
		}
		within(t, 5*time.Second, "the key has ended", func() bool { return !opens(server, key) && opens(server, other) })
		if server.Known("shop") || !server.Known("other") {
			t.Error("the copy in memory has the deleted dataset, or lacks the other one")
		}
		all, err := command.List(t.Context())
		if err != nil || len(all) != 1 || all[0].ID != "other" {
			t.Errorf("got %d datasets, %v, want the other one", len(all), err)
		}
		_, err = command.Read(t.Context(), "shop")
		if _, _, issued := command.IssueKey(t.Context(), "shop"); !errors.Is(err, ErrNotFound) || !errors.Is(issued, ErrNotFound) {
			t.Errorf("got %v and %v, want that there is no such dataset", err, issued)
		}
		now = now.Add(time.Hour)
		if again, err := command.Delete(t.Context(), "shop", nil); err != nil || again != left {
			t.Errorf("deleted again: got %+v, %v, want %+v", again, err, left)
		}
		if _, err := command.Delete(t.Context(), "never", nil); !errors.Is(err, ErrNotFound) {
			t.Errorf("got %v for a dataset that never was", err)
		}

		_, _, _, err = command.Create(t.Context(), Spec{ID: "shop"})
		if taken, ok := errors.AsType[*DeletedError](err); !ok || taken.Deletion != left {
			t.Fatalf("got %v, want that the id is taken", err)
		}
		now = left.Free
		_, fresh := create(t, command, Spec{ID: "shop"})
		if opens(command, key) || !opens(command, fresh) {
			t.Error("the old key opens the new dataset, or its own does not")
		}
		if deleted, err := command.Deleted(t.Context()); err != nil || len(deleted) != 0 {
			t.Errorf("got %v, %v, want nothing deleted any more", deleted, err)
		}
	})
}
