package erasure

import (
	"testing"
	"time"

	"sluice/event"
)

// The tombstone of a dataset concerns everything of it until its id is free, whatever a row carries, and nothing of others.
func TestDeletedDataset(t *testing.T) {
	stones := open(t)
	free := noon.Add(100 * time.Hour)
	for range 2 { // once more changes nothing
		if err := stones.AddDataset(t.Context(), "shop", noon, free); err != nil {
			t.Fatal(err)
		}
	}
	all, err := stones.All(t.Context())
	if err != nil || len(all) != 1 || all[0].Due(noon) || !all[0].Due(noon.Add(time.Second)) || !all[0].Unfinished() {
		t.Fatalf("got %+v, %v, want one that is due", all, err)
	}
	set, err := stones.Current(t.Context())
	if err != nil || !set.Datasets() {
		t.Fatalf("got %v, want a set with a dataset", err)
	}
	for _, c := range []struct {
		dataset string
		at      time.Time
		want    bool
	}{{"shop", noon.Add(-time.Hour), true}, {"shop", free.Add(-time.Second), true}, {"shop", free, false}, {"other", noon.Add(-time.Hour), false}} {
		r := event.Row{DatasetID: c.dataset, ReceivedAt: c.at.Unix()}
		if got := set.Erased(&r); got != c.want || set.Deleted(c.dataset, c.at.Unix()) != c.want {
			t.Errorf("%s at %v: got %v, want %v", c.dataset, c.at, got, c.want)
		}
	}
	if err := stones.Finish(t.Context(), all[0], noon); err != nil {
		t.Fatal(err)
	}
	if err := stones.AddDataset(t.Context(), "shop", noon, free); err != nil {
		t.Fatal(err)
	}
	if all, err := stones.All(t.Context()); err != nil || all[0].Unfinished() {
		t.Errorf("got %+v, %v, want that it stays finished", all, err)
	}
	if (*Set)(nil).Deleted("shop", 0) {
		t.Error("no set says that a dataset was deleted")
	}
}
