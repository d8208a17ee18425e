package iceberg

import "time"

// Stats is the state of a table.
type Stats struct {
	Name       string
	Version    int64 // of its metadata
	Rows       int64
	Files      int
	Bytes      int64
	Snapshots  int
	Damaged    int64     // metadata found damaged since Open
	Updated    time.Time // when its metadata changed; it never goes back
	LastCommit time.Time // of anybody; zero before the first
	OldestDay  time.Time // zero when empty
	Held       Held      // back by retention
	SmallFiles int       // waiting for compaction
}

// Stats answers from memory.
func (t *table) Stats() Stats {
	s := t.state.Load()
	if s == nil {
		return Stats{Name: t.layout.name}
	}
	out := Stats{
		Name: t.layout.name, Version: s.version, Snapshots: len(s.meta.Snapshots), Damaged: t.damage.Load(),
		Updated: time.UnixMilli(s.meta.LastUpdatedMS).UTC(), Held: s.held(t.layout),
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
