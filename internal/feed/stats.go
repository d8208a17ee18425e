package feed

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// readersMost is how many readers have numbers of their own; those that were silent longest are forgotten first.
// Arbitrary: an installation has a handful.
const readersMost = 64

// Stats are the feed's numbers on this node since New.
type Stats struct {
	Followers int64         // requests that are being answered now
	Rows      uint64        // handed out
	Bytes     uint64        // of their lines
	Rejected  uint64        // requests over the limit of followers
	Cut       uint64        // requests that ended because the follower did not read
	Readers   []ReaderStats // by name
}

// ReaderStats are the numbers of one reader. Programs that use the same token are one reader.
type ReaderStats struct {
	Name  string
	Rows  uint64 // handed out
	Bytes uint64 // of lines
	// Lag is how old the last row of the last answer was, if more rows were there to be read; else 0. It is known only
	// while the reader asks: see Last.
	Lag  time.Duration
	Last time.Time // when the last answer ended
}

// readers adds numbers up by reader.
type readers struct {
	mu  sync.Mutex
	all map[string]*ReaderStats
}

// places are those of requests that are being answered, by reader.
type places struct {
	mu  sync.Mutex
	all int
	own map[string]int
}

// enter takes a place for a reader. A reader without one gets one, however many others have: there are no more readers
// than operators make.
func (p *places) enter(reader string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := p.own[reader]; n >= readerPlaces || n > 0 && p.all >= maxFollowers {
		return false
	}
	p.own[reader]++
	p.all++
	return true
}

func (p *places) leave(reader string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all--
	if p.own[reader]--; p.own[reader] == 0 {
		delete(p.own, reader)
	}
}

func (p *places) count() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return int64(p.all)
}

// answered adds an answer.
func (r *readers) answered(name string, rows, bytes int, lag time.Duration, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.all[name]
	if s == nil {
		if len(r.all) >= readersMost {
			r.forget()
		}
		s = &ReaderStats{Name: name}
		r.all[name] = s
	}
	s.Rows += uint64(rows)
	s.Bytes += uint64(bytes)
	s.Lag, s.Last = max(0, lag), now
}

func (r *readers) forget() {
	var oldest *ReaderStats
	for _, s := range r.all {
		if oldest == nil || s.Last.Before(oldest.Last) {
			oldest = s
		}
	}
	delete(r.all, oldest.Name)
}

// Stats answers from memory.
func (f *Feed) Stats() Stats {
	out := Stats{
		Followers: f.places.count(), Rows: f.rows.Load(), Bytes: f.bytes.Load(), Rejected: f.rejected.Load(),
		Cut: f.cut.Load(),
	}
	f.readers.mu.Lock()
	defer f.readers.mu.Unlock()
	for _, s := range f.readers.all {
		out.Readers = append(out.Readers, *s)
	}
	slices.SortFunc(out.Readers, func(a, b ReaderStats) int { return cmp.Compare(a.Name, b.Name) })
	return out
}
