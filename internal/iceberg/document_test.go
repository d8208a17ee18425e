package iceberg

import (
	"testing"
	"time"

	"sluice/internal/objectstore"
)

// asBucket is a directory of which a table knows no more than of a bucket: it remembers what it last found for a while.
type asBucket struct{ objectstore.Store }

func (asBucket) Grace() time.Duration { return time.Hour }

// The document is never behind an erasure, also not by what a table in a bucket remembers: readers would be led to files that
// are gone.
func TestDocumentAfterAnErasureElsewhere(t *testing.T) {
	dir := t.TempDir()
	open := func() *Table[sample] {
		store, err := objectstore.OpenDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		table, err := open(t.Context(), sampleSchema, Options{Store: asBucket{store}, Now: func() time.Time { return noon }, SnapshotRetention: 24 * time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		return table
	}
	here := open()
	appendOne(t, here, 1)
	before, err := here.Document(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	gone, err := open().Delete(t.Context(), Condition[sample]{Match: func(*sample) bool { return true }}, nobody[sample]{})
	if err != nil || gone.Files == 0 {
		t.Fatalf("got %+v, %v, want files deleted", gone, err)
	}
	after, err := here.Document(t.Context(), before)
	if err != nil {
		t.Fatal(err)
	}
	newest, err := open().Document(t.Context(), nil)
	if err != nil || after.Version != newest.Version || after.Version == before.Version {
		t.Errorf("got version %d, %v, want %d, that of the erasure", after.Version, err, newest.Version)
	}
	if again, err := here.Document(t.Context(), after); err != nil || again != after {
		t.Errorf("got %v, %v, want the same document as before", again, err)
	}
}
