package iceberg

import (
	"sync/atomic"
	"time"
)

// counters are what a table counts since it was opened.
type counters struct {
	damage                     atomic.Int64
	commits, retries           atomic.Int64
	compactions, compactedRows atomic.Int64
	took                       atomic.Int64 // nanoseconds of the last commit
}

// Stats is the state of a table.
type Stats struct {
	Name            string
	Version         int64 // of its metadata
	Rows            int64
	Files           int
	Bytes           int64
	Manifests       int
	Snapshots       int
	Commits         int64         // since Open, by this process
	Retries         int64         // commits that another one came before
	Damaged         int64         // metadata found damaged since Open
	DamagedFiles    int64         // files that could not be read since Open
	Compactions     int64         // since Open
	CompactedRows   int64         // since Open
	Updated         time.Time     // when its metadata changed; it never goes back
	LastCommit      time.Time     // of anybody; zero before the first
	LastCommitTook  time.Duration // of this process
	OldestDay       time.Time     // zero when empty
	Held            Held          // back by retention
	SmallFiles      int           // waiting for compaction
	LatestWatermark map[uint8]uint64
}

// Stats answers from memory.
func (t *table) Stats() Stats {
	s := t.state.Load()
	if s == nil {
		return Stats{Name: t.layout.name}
	}
	out := Stats{
		Name: t.layout.name, Version: s.version, Manifests: len(s.manifests), Snapshots: len(s.meta.Snapshots),
		Commits: t.commits.Load(), Retries: t.retries.Load(), Compactions: t.compactions.Load(),
		CompactedRows: t.compactedRows.Load(), Damaged: t.damage.Load(), DamagedFiles: int64(len(t.damagedFiles.list())),
		Updated: time.UnixMilli(s.meta.LastUpdatedMS).UTC(), LastCommitTook: time.Duration(t.took.Load()),
		LatestWatermark: s.progress.Watermarks, Held: s.held(t.layout),
	}
	if cur := s.meta.Current(); cur != nil {
		out.LastCommit = time.UnixMilli(cur.TimestampMS).UTC()
	}
	oldest := int32(0)
	for i, f := range s.files() {
		out.Rows += f.rows
		out.Bytes += f.bytes
		out.Files++
		if small(f, t.fileBytes) {
			out.SmallFiles++
		}
		if i == 0 || f.day < oldest {
			oldest = f.day
		}
	}
	if out.Files > 0 {
		out.OldestDay = dayTime(oldest)
	}
	return out
}
