package console

import (
	"testing"
	"time"

	"sluice/internal/lake"
)

// A commit is known exactly, or it is not known: never by a later commit that also covers it.
func TestCommitLog(t *testing.T) {
	at := func(minute int) time.Time { return noon.Add(time.Duration(minute) * time.Minute) }
	feed := func(c *commitLog, all ...lake.Commit) {
		c.look(func(after int64) (out []lake.Commit) {
			for _, one := range all {
				if one.Sequence > after {
					out = append(out, one)
				}
			}
			return out
		})
	}
	check := func(c *commitLog, p uint8, seq uint64, want time.Time) {
		t.Helper()
		if got := c.at(p, seq); !got.Equal(want) {
			t.Errorf("partition %d, frame %d: got %v, want %v", p, seq, got, want)
		}
	}
	var c commitLog
	first := lake.Commit{Sequence: 7, At: at(0), Watermarks: map[uint8]uint64{0: 10}, First: true}
	second := lake.Commit{Sequence: 8, At: at(1), Watermarks: map[uint8]uint64{0: 20, 1: 5}}
	feed(&c, first, second)
	feed(&c, first, second, lake.Commit{Sequence: 9, At: at(2), Watermarks: map[uint8]uint64{0: 20, 1: 6}})
	check(&c, 0, 10, time.Time{}) // earlier commits are not kept
	check(&c, 0, 11, at(1))
	check(&c, 0, 20, at(1))
	check(&c, 0, 21, time.Time{}) // not yet
	check(&c, 1, 5, at(1))
	check(&c, 1, 6, at(2))
	// A gap: snapshots were dropped meanwhile.
	feed(&c, lake.Commit{Sequence: 20, At: at(50), Watermarks: map[uint8]uint64{0: 40, 1: 6}, First: true}, lake.Commit{Sequence: 21, At: at(51), Watermarks: map[uint8]uint64{0: 50, 1: 6}})
	check(&c, 0, 15, at(1))
	check(&c, 0, 30, time.Time{})
	check(&c, 0, 41, at(51))
}

func TestCommitLogIsBounded(t *testing.T) {
	var c commitLog
	const many = 3 * commitsMost
	for i := range uint64(many) {
		c.add(uint8(i%2), commit{i + 1, noon.UnixMilli() + int64(i)})
	}
	if c.total > commitsMost || len(c.parts[0])+len(c.parts[1]) != c.total {
		t.Errorf("got %d commits, counted as %d", len(c.parts[0])+len(c.parts[1]), c.total)
	}
	if got := c.at(1, many); !got.Equal(time.UnixMilli(noon.UnixMilli() + many - 1)) {
		t.Errorf("the newest: got %v", got)
	}
	if got := c.at(0, 1); !got.IsZero() {
		t.Errorf("a dropped one: got %v", got)
	}
}
