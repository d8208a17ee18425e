package deletion

import (
	"context"
	"errors"
	"testing"
	"time"

	"sluice/event"
	"sluice/internal/dataset"
	"sluice/internal/engine"
	"sluice/internal/erasure"
	"sluice/internal/lake"
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

// A batch that another node has read before the tombstone was written may be committed after it: a deletion is finished only
// when everything is loaded that the stream held at its beginning.
func TestApplyWaitsForBatchesUnderWay(t *testing.T) {
	now := time.Now()
	e, err := engine.Open(t.Context(), engine.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	stones, err := erasure.Open(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	l, err := lake.OpenDir(t.Context(), t.TempDir(), lake.Options{Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	commit := func(seq uint64) error { // a batch of one event
		from := lake.Watermarks{Events: seq - 1, Rejections: seq - 1, Hours: seq - 1}
		return l.Commit(t.Context(), lake.Batch{Spans: []lake.Span{{From: from, To: seq}}, Events: []event.Row{
			{EventID: event.ID{byte(seq)}, ReceivedAt: now.Unix(), EventTime: now.Unix(), DatasetID: "gone", EventType: "purchase", SchemaVersion: "1.0"},
		}}, 0)
	}
	if err := commit(1); err != nil {
		t.Fatal(err)
	}
	if err := stones.AddDataset(t.Context(), "gone", now, now.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	since := now.Add(time.Minute)
	away := errors.New("nobody loads")
	if _, err := Apply(t.Context(), stones, l, since, func(context.Context) error { return away }); !errors.Is(err, away) {
		t.Errorf("got %v, want that it is not finished", err)
	}
	settled := 0
	settle := func(context.Context) error { settled++; return commit(2) }
	done, err := Apply(t.Context(), stones, l, since, settle)
	if err != nil || done.Rows != 2 || settled != 1 {
		t.Errorf("got %d rows after waiting %d times, %v, want both rows, and one wait", done.Rows, settled, err)
	}
	if _, err := Apply(t.Context(), stones, l, since, settle); err != nil || settled != 1 {
		t.Errorf("got %d waits, %v, want none when it is finished", settled, err)
	}
}
