package lake

import (
	"sync/atomic"
	"time"
)

// counters are what a lake counts since it was opened.
type counters struct {
	damagedParts, compactions, compactedRows, troubles atomic.Int64
}

// TableStats is the state of one table.
type TableStats struct {
	Name            string
	Version         int64 // of its metadata
	Rows            int64
	Parts           int
	Bytes           int64
	Manifests       int
	Snapshots       int
	Commits         int64         // since Open, by this process
	Retries         int64         // commits that another one came before
	Damaged         int64         // metadata found damaged since Open
	LastCommit      time.Time     // of anybody; zero before the first
	LastCommitTook  time.Duration // of this process
	OldestDay       time.Time     // of receipt; zero when empty
	SmallParts      int           // waiting for compaction
	LatestWatermark map[uint8]uint64
}

// Stats is the state of a lake.
type Stats struct {
	Tables       []TableStats // rejections, hours, events
	DamagedParts int64        // parts, or row groups of parts, that could not be read since Open

	Compactions, CompactedRows int64 // since Open
	Troubles                   int64 // times upkeep did not work since Open
}

// Stats answers from memory.
func (l *Lake) Stats() Stats {
	c := &l.counters
	out := Stats{
		DamagedParts: c.damagedParts.Load(), Compactions: c.compactions.Load(), CompactedRows: c.compactedRows.Load(),
		Troubles: c.troubles.Load(),
	}
	for _, t := range l.tables() {
		out.Tables = append(out.Tables, t.stats(l.o.PartBytes))
	}
	return out
}

func (t *table) stats(partBytes int64) TableStats {
	s := t.state.Load()
	out := TableStats{
		Name: t.layout.name, Version: s.version, Manifests: len(s.manifests), Snapshots: len(s.meta.Snapshots),
		Commits: t.commits.Load(), Retries: t.retries.Load(), Damaged: t.damage.Load(),
		LastCommitTook: time.Duration(t.took.Load()), LatestWatermark: s.marks,
	}
	if cur := s.meta.current(); cur != nil {
		out.LastCommit = time.UnixMilli(cur.TimestampMS).UTC()
	}
	oldest := int32(0)
	for i, p := range s.parts() {
		out.Rows += p.rows
		out.Bytes += p.bytes
		out.Parts++
		if small(p, partBytes) {
			out.SmallParts++
		}
		if i == 0 || p.day < oldest {
			oldest = p.day
		}
	}
	if out.Parts > 0 {
		out.OldestDay = time.Unix(int64(oldest)*secondsPerDay, 0).UTC()
	}
	return out
}
