package feed

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
	"unsafe"

	"sluice/event"
	"sluice/internal/erasure"
	"sluice/internal/purpose"
	"sluice/internal/stream"
	"sluice/internal/submission"
)

// frame is a frame of the stream with its rows as lines of JSON. Many followers share one: it never changes.
type frame struct {
	seq  uint64
	time time.Time
	rows []row
	text []byte
}

// row is a row of a frame. One that nobody may have keeps its place, and has no text.
type row struct {
	dataset   string
	purpose   purpose.Purpose
	at, end   uint32 // of its line in text
	eventType string
	campaign  string
}

// size is roughly what a frame takes in memory.
func (f *frame) size() int { return len(f.text) + len(f.rows)*int(unsafe.Sizeof(row{})) + 200 }

// run returns the lines of the chosen rows from a row on that stand side by side, how many they are, and the row to
// look at next. Rows without text do not part their neighbours.
func (f *frame) run(q *Query, from uint64) (lines []byte, rows int, next uint64) {
	next = from
	var at, end uint32
	for ; next < uint64(len(f.rows)) && rows < q.Limit && int(end-at) < q.Bytes; next++ {
		r := &f.rows[next]
		switch {
		case q.wants(r):
			if rows == 0 {
				at = r.at
			}
			rows++
			end = r.end
		case rows > 0 && r.end > r.at:
			return f.text[at:end], rows, next + 1 // it is not wanted, so it was looked at
		}
	}
	return f.text[at:end], rows, next
}

// encoder makes frames. One goroutine uses it.
type encoder struct {
	decoder submission.Decoder
	rows    []event.Row
	erased  *erasure.Set
	ids     map[string]string // datasets, types and campaigns, so that a row does not hold on to the memory of a frame
}

// encode makes lines of a frame's rows. A record that cannot be read has none: the loader keeps and reports it. What a
// later version has written is an error: a newer program has rows for it.
func (e *encoder) encode(partition uint8, f stream.Frame) (*frame, error) {
	if errors.Is(f.Damaged, stream.ErrVersion) {
		return nil, f.Damaged
	}
	out := &frame{seq: f.Seq, time: f.Time}
	var s submission.Submission
	for slot, record := range f.Records {
		text := unsafe.String(unsafe.SliceData(record), len(record)) // the frame is ours, and nobody writes to it
		rows, err := e.decoder.Decode(&s, e.rows[:0], text, partition, f.Seq, uint16(slot))
		e.rows = rows[:0]
		if errors.Is(err, submission.ErrVersion) {
			return nil, err
		}
		if err != nil {
			continue
		}
		id := e.intern(s.DatasetID)
		for i := range s.Rows {
			r := row{dataset: id, purpose: purpose.Of(&s.Rows[i]), at: uint32(len(out.text))}
			if e.erased.Erased(&s.Rows[i]) {
				r.purpose = 0
			}
			if r.purpose != 0 {
				r.eventType, r.campaign = e.intern(s.Rows[i].EventType), e.intern(s.Rows[i].CampaignID)
				out.text = append(event.AppendJSON(out.text, &s.Rows[i]), '\n')
			}
			r.end = uint32(len(out.text))
			out.rows = append(out.rows, r)
		}
	}
	clear(e.rows[:cap(e.rows)])
	return out, nil
}

func (e *encoder) intern(id string) string {
	if known, ok := e.ids[id]; ok {
		return known
	}
	if e.ids == nil || len(e.ids) > 10_000 {
		e.ids = map[string]string{}
	}
	known := string([]byte(id))
	e.ids[known] = known
	return known
}

const (
	// cacheBytes is how much the frames take that followers share. Followers that keep up read the same frames within
	// a second, so this holds some seconds of a busy stream.
	cacheBytes = 32 << 20
	// pageBytes is how much of a partition is read at a time. With many partitions it is less: one page of each is used
	// at once, and all must fit into the cache, in which lines are some four times as long as records.
	pageBytes    = 1 << 20
	leastBytes   = 32 << 10
	pageFrames   = 256 // arbitrary
	pagesInCache = 8
)

// place names the frame that follows a position: the one at that sequence number, or the next one there is.
type place struct {
	partition uint8
	from      uint64
}

// pages reads frames for all followers, each once, and keeps the newest.
type pages struct {
	stream   Source
	erasures *erasure.Tombstones // nil knows of none

	looking sync.Mutex // for erasures: one at a time
	looked  time.Time
	knows   uint64 // the tombstones of everything in the log of erased events up to here are among erased
	erased  *erasure.Set

	mu      sync.Mutex
	kept    map[place]*frame
	order   []place // of kept, oldest first
	bytes   int
	without *erasure.Set // is in none of kept

	reading [stream.MaxPartitions]struct {
		sync.Mutex // one page of a partition at a time
		encoder
	}
}

// next returns the first frame of a partition at a sequence number or behind it, or nil at the end. It has no row that
// the log of erased events names up to told.
func (p *pages) next(ctx context.Context, partition uint8, from, told uint64) (*frame, error) {
	erased, err := p.look(ctx, told)
	if err != nil {
		return nil, err
	}
	at := place{partition, from}
	if f := p.cached(at); f != nil {
		return f, nil
	}
	r := &p.reading[partition]
	r.Lock()
	defer r.Unlock()
	r.erased = erased
	if f := p.cached(at); f != nil { // somebody else read it meanwhile
		return f, nil
	}
	bytes := max(leastBytes, min(pageBytes, cacheBytes/pagesInCache/p.stream.Partitions()))
	frames, err := p.stream.Page(ctx, partition, from, pageFrames, bytes)
	if err != nil || len(frames) == 0 {
		return nil, err
	}
	var first *frame
	for _, raw := range frames {
		f, err := r.encode(partition, raw)
		if err != nil && first == nil {
			return nil, fmt.Errorf("frame %d: %w", raw.Seq, err)
		}
		if err != nil {
			break
		}
		if first == nil {
			first = f
		}
		p.keep(place{partition, from}, f, erased)
		from = f.seq + 1
	}
	return first, nil
}

// eraseAfter is how long an erased row may be handed out after the erasure began. Arbitrary: asking costs a question to
// the engine.
const eraseAfter = time.Second

// look returns what was erased, and drops the frames of before when that has changed. A tombstone is written before the
// log names the rows: so what is looked at now is as new as every entry that was seen before.
func (p *pages) look(ctx context.Context, told uint64) (*erasure.Set, error) {
	if p.erasures == nil {
		return nil, nil
	}
	p.looking.Lock()
	defer p.looking.Unlock()
	if p.erased != nil && p.knows >= told && time.Since(p.looked) < eraseAfter {
		return p.erased, nil
	}
	now, err := p.erasures.Current(ctx)
	if err != nil {
		return nil, err
	}
	p.looked, p.knows = time.Now(), max(p.knows, told)
	if now != p.erased {
		p.erased = now
		p.mu.Lock()
		p.kept, p.order, p.bytes, p.without = nil, nil, 0, now
		p.mu.Unlock()
	}
	return now, nil
}

func (p *pages) cached(at place) *frame {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.kept[at]
}

// keep adds a frame that was made without what was erased; one that was made before the last erasure is not kept.
func (p *pages) keep(at place, f *frame, without *erasure.Set) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if without != p.without {
		return
	}
	if p.kept == nil {
		p.kept = map[place]*frame{}
	}
	if p.kept[at] != nil {
		return
	}
	p.kept[at] = f
	p.order = append(p.order, at)
	p.bytes += f.size()
	for p.bytes > cacheBytes && len(p.order) > 1 {
		oldest := p.order[0]
		p.order = p.order[1:]
		p.bytes -= p.kept[oldest].size()
		delete(p.kept, oldest)
	}
}
