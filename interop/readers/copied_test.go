package readers

import (
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/parquet/file"
)

// A large dataset fills whole files, and compaction copies their row groups as they are. Every reader finds the same rows,
// before and after an erasure, which writes such a file anew.
func TestCopiedRowGroups(t *testing.T) {
	h := newHistory(t, setting(t, "SEED", 7))
	l, err := openLake(t.Context(), settings{dir: h.dir, now: func() time.Time { return h.now }, retain: retain, bytes: 16 << 20})
	h.must(err)
	h.lake = l
	const commits = 4
	for range commits {
		events := h.make.events(12_000, 1, 1, h.now)
		for i := range events {
			row := eventRow(&events[i])
			h.rows[row["event_id"].(string)] = row
		}
		h.sent = append(h.sent, events...)
		h.must(commit(t.Context(), h.lake, events, nil, nil))
	}
	h.check("committed")
	h.now = h.now.Add(72 * time.Hour) // the day is over, so its files are merged whatever their number
	h.compact()
	files := source(t, h.lake, h.dir).Files["events"]
	if len(files) != 1 {
		t.Fatalf("got %d files, want one", len(files))
	}
	f, err := file.OpenParquetFile(files[0], false)
	h.must(err)
	defer f.Close()
	if f.NumRowGroups() != commits {
		t.Fatalf("got %d row groups, want those of %d commits", f.NumRowGroups(), commits)
	}
	h.check("copied")
	h.erase()
	h.check("erased")
}
