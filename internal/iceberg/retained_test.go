package iceberg

import (
	"runtime"
	"testing"
	"time"
	"weak"

	"sluice/internal/metadata"
	"sluice/internal/objectstore"
	"sluice/internal/watermark"
)

// A table in memory holds nothing of the versions before: a snapshot stays for its retention, the array it was in does not.
func TestEarlierVersionsAreCollected(t *testing.T) {
	store, err := objectstore.OpenDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	now := noon
	table, err := open(t.Context(), sampleSchema, Options{
		Store: store, Now: func() time.Time { return now }, SnapshotRetention: 24 * time.Hour, FileBytes: 1 << 20,
	})
	if err != nil {
		t.Fatal(err)
	}
	var versions []weak.Pointer[metadata.Table]
	var arrays []weak.Pointer[metadata.Snapshot]
	const commits = 40
	for i := range commits {
		now = now.Add(5 * time.Second)
		rows := []sample{{At: now.Unix(), Set: "set"}}
		if err := table.Append(t.Context(), rows, watermark.Origin{Spans: []watermark.Span{{From: uint64(i), To: uint64(i + 1)}}}, nil); err != nil {
			t.Fatal(err)
		}
		meta := table.state.Load().meta
		versions = append(versions, weak.Make(meta))
		arrays = append(arrays, weak.Make(&meta.Snapshots[0]))
	}
	if n := len(table.state.Load().meta.Snapshots); n != commits {
		t.Fatalf("got %d snapshots, want %d", n, commits)
	}
	held := 0
	for range 3 { // a collection may have begun before the last commit
		runtime.GC()
	}
	for i := range commits - 1 {
		if versions[i].Value() != nil || arrays[i].Value() != nil {
			held++
		}
	}
	if held > 0 {
		t.Errorf("got %d of %d earlier versions in memory, want none", held, commits-1)
	}
	runtime.KeepAlive(table)
}
