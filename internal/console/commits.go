package console

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"sluice/internal/lake"
)

// commitsMost is how many commits are known: at one every five seconds, those of five days. Arbitrary.
const commitsMost = 100_000

// commitLog knows when each part of the stream was committed: since the start exactly, before it as far as the table
// has kept its snapshots.
type commitLog struct {
	mu    sync.Mutex
	after int64              // sequence number of the last snapshot that was seen
	parts map[uint8][]commit // in order
	total int
}

// commit says that frames up to a sequence number were committed, and when; 0 is not known.
type commit struct {
	seq uint64
	ms  int64
}

// look takes over new commits.
func (c *commitLog) look(commits func(after int64) []lake.Commit) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range commits(c.after) {
		c.after = one.Sequence
		for p, seq := range one.Watermarks {
			last := commit{}
			if all := c.parts[p]; len(all) > 0 {
				last = all[len(all)-1]
			}
			if seq <= last.seq {
				continue
			}
			now := commit{seq, one.At.UnixMilli()}
			if one.First { // commits before it may be missing
				now.ms = 0
			}
			c.add(p, now)
		}
	}
}

func (c *commitLog) add(p uint8, one commit) {
	if c.parts == nil {
		c.parts = map[uint8][]commit{}
	}
	c.parts[p] = append(c.parts[p], one)
	if c.total++; c.total <= commitsMost {
		return
	}
	c.total = 0
	for p, all := range c.parts {
		c.parts[p] = slices.Clone(all[len(all)/4:])
		c.parts[p][0].ms = 0 // it also stands for what was dropped
		c.total += len(c.parts[p])
	}
}

// at is when a frame was committed, or zero.
func (c *commitLog) at(p uint8, seq uint64) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.parts[p]
	i, _ := slices.BinarySearchFunc(all, seq, func(one commit, seq uint64) int { return cmp.Compare(one.seq, seq) })
	if i == len(all) || all[i].ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(all[i].ms).UTC()
}
