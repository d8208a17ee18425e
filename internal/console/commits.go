package console

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"sluice/internal/durable"
	"sluice/internal/lake"
)

// commitsMost is how many commits are known: at one every five seconds, those of five days. The file is at most twice as long,
// some 5 MB. Arbitrary.
const commitsMost = 100_000

// commitsName is the file in which they outlive a restart. It is no ledger: a crash loses a minute of it, and the newest ones
// are read from the table again.
const commitsName = "commits.log"

// commitLog knows when each part of the stream was committed, for longer than the table keeps its snapshots.
type commitLog struct {
	mu    sync.Mutex
	after int64              // sequence number of the last snapshot that was seen
	parts map[uint8][]commit // in order
	total int
	lines int    // of the file
	fresh []byte // lines that are not in the file yet
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
			c.fresh = fmt.Appendf(c.fresh, "%d %d %d\n", p, now.seq, now.ms)
			c.lines++
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
	i, _ := slices.BinarySearchFunc(all, seq, func(one commit, seq uint64) int {
		if one.seq < seq {
			return -1
		}
		return 1
	})
	if i == len(all) || all[i].ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(all[i].ms).UTC()
}

// restore reads the file of an earlier run. A line that cannot be read ends it: a crash may leave half a line.
func (c *commitLog) restore(dir string) error {
	f, err := os.Open(filepath.Join(dir, commitsName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var p uint8
		var one commit
		if _, err := fmt.Sscanf(lines.Text(), "%d %d %d", &p, &one.seq, &one.ms); err != nil {
			break
		}
		c.lines++
		if all := c.parts[p]; len(all) == 0 || all[len(all)-1].seq < one.seq {
			c.add(p, one)
		}
	}
	return lines.Err()
}

// keep writes the new commits to the file. A file that has grown too long, or that does not end with a whole line, is written
// anew.
func (c *commitLog) keep(dir string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.fresh) == 0 {
		return nil
	}
	name := filepath.Join(dir, commitsName)
	if c.lines > 2*commitsMost || !endsWhole(name) {
		var b []byte
		c.lines = 0
		for p, all := range c.parts {
			for _, one := range all {
				b = fmt.Appendf(b, "%d %d %d\n", p, one.seq, one.ms)
				c.lines++
			}
		}
		c.fresh = c.fresh[:0]
		return durable.WriteFile(name, b)
	}
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(c.fresh)
	c.fresh = c.fresh[:0]
	return errors.Join(err, f.Close())
}

// endsWhole says whether a file is empty, is not there, or ends with a whole line.
func endsWhole(name string) bool {
	f, err := os.Open(name)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return err == nil
	}
	var last [1]byte
	_, err = f.ReadAt(last[:], info.Size()-1)
	return err == nil && last[0] == '\n'
}
