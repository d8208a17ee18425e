// Package feed hands accepted events out in order, to programs that follow them.
//
// It reads the stream, so a row is there as soon as it is acknowledged, and it keeps nothing about who follows: a
// follower says where it is with a cursor. Frames are read and encoded once for all followers; nothing runs while there
// are none.
package feed

import (
	"context"
	"crypto/cipher"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/dataset"
	"sluice/internal/erasure"
	"sluice/internal/lake"
	"sluice/internal/purpose"
	"sluice/internal/stream"
	"sluice/internal/submission"
)

// Source is the stream, as far as the feed knows it.
type Source interface {
	Partitions() int
	Bounds(ctx context.Context) ([]stream.Bounds, error)
	Page(ctx context.Context, partition uint8, from uint64, frames, bytes int) ([]stream.Frame, error)
}

// Tables is the lake, as far as the feed knows it.
type Tables interface {
	Snapshot(ctx context.Context, id int64) (lake.Snapshot, error)
}

// Readers knows the tokens of readers.
type Readers interface {
	Authenticate(token string) (*dataset.Reader, error)
}

// Options are what a feed needs. Readers is needed by Handler alone; without Erasures the feed knows of none. Secret
// encrypts cursors: all nodes, and a restored backup, must have the same.
type Options struct {
	Stream   Source
	Tables   Tables
	Readers  Readers
	Erasures *erasure.Tombstones
	Secret   []byte
	IDs      *submission.IDs // so that a row has the submission id that its sender got
	Log      *slog.Logger
	// Oldest is a time, in Unix seconds, before which no event was received that is still to be stored; it is not ok while
	// that is not known. nil is never known.
	Oldest func(context.Context) (int64, bool)
}

// Feed hands events out. Its methods may be called by many goroutines.
type Feed struct {
	o         Options
	seal      cipher.AEAD // of cursors
	pages     pages
	writeWait time.Duration
	scanTime  time.Duration

	lookMu    sync.Mutex // one look at the stream at a time
	now, then *look
	past      []*look // with a time, a second apart, the oldest first

	places   places
	rows     atomic.Uint64
	bytes    atomic.Uint64
	rejected atomic.Uint64
	cut      atomic.Uint64
	readers  readers
}

// New makes a feed. Nothing runs.
func New(o Options) *Feed {
	f := &Feed{o: o, seal: newSeal(o.Secret), writeWait: defaultWriteWait, scanTime: defaultScanTime}
	f.pages.stream, f.pages.erasures = o.Stream, o.Erasures
	f.places.own, f.readers.all = map[string]int{}, map[string]*ReaderStats{}
	for i := range f.pages.reading {
		f.pages.reading[i].decoder.IDs = o.IDs
	}
	return f
}

// settle is how long a frame of one partition may become visible after a frame of another one that was stored later.
// With several partitions, frames are handed out in the order in which they were stored, and one that another may still
// come before waits that long. Arbitrary: an fsync or two.
const settle = 100 * time.Millisecond

// ends are where the stream and the log of erased events begin and end.
type ends struct {
	bounds []stream.Bounds
	log    erasure.Bounds
}

// look is where they began and ended at a time.
type look struct {
	at time.Time
	ends
	oldest int64 // no event behind bounds was received before, Unix seconds; 0 is not known
}

// look returns where the stream and the log of erased events end, as known at most so long ago; and where the stream
// ended some time before that: rows up to there have their place in the order.
func (f *Feed) look(ctx context.Context, age time.Duration) (now *look, settled []stream.Bounds, err error) {
	begun := time.Now()
	f.lookMu.Lock()
	defer f.lookMu.Unlock()
	// A look that began after this call was made is as new as one can be.
	if f.now == nil || f.now.at.Before(begun.Add(-age)) {
		if err := f.lookAgain(ctx); err != nil {
			return nil, nil, err
		}
	}
	if len(f.now.bounds) == 1 {
		return f.now, f.now.bounds, nil
	}
	if f.then == nil || age == 0 && f.then.at.Before(begun) {
		f.then = f.now
		select {
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		case <-time.After(settle):
		}
		if err := f.lookAgain(ctx); err != nil {
			return nil, nil, err
		}
	}
	return f.now, f.then.bounds, nil
}

// ends asks where the stream and the log of erased events begin and end.
func (f *Feed) ends(ctx context.Context) (e ends, err error) {
	if e.bounds, err = f.o.Stream.Bounds(ctx); err != nil {
		return e, err
	}
	if f.o.Erasures == nil {
		e.log.First = 1
		return e, nil
	}
	l, err := f.o.Erasures.Log(ctx)
	if err == nil {
		e.log, err = l.Bounds(ctx)
	}
	return e, err
}

func (f *Feed) lookAgain(ctx context.Context) error {
	at := time.Now()
	oldest := int64(0)
	if f.o.Oldest != nil { // before the stream is looked at: what is stored meanwhile lies before its end
		if t, ok := f.o.Oldest(ctx); ok {
			oldest = t
		}
	}
	now, err := f.ends(ctx)
	if err != nil {
		return err
	}
	if f.now != nil && at.Sub(f.now.at) >= settle {
		f.then = f.now
	}
	f.now = &look{at, now, oldest}
	if n := len(f.past); oldest > 0 && (n == 0 || at.Sub(f.past[n-1].at) >= time.Second) {
		f.past = append(f.past[max(0, n-pastLooks):], f.now)
	}
	return nil
}

// pastLooks is how many looks are remembered. Arbitrary: a follower may be that many seconds behind, and still learn up
// to when its rows are complete.
const pastLooks = 300

// complete notes in a cursor up to when its rows are complete: as of the newest look at the stream that the cursor is
// behind. What it says never goes back.
func (f *Feed) complete(c *Cursor) {
	f.lookMu.Lock()
	defer f.lookMu.Unlock()
	for _, l := range append(slices.Clone(f.past), f.then, f.now) {
		if l != nil && l.oldest > c.complete && c.behind(l.bounds) {
			c.complete = l.oldest
		}
	}
}

// ErrCursor says that a text is not a cursor.
var ErrCursor = errors.New("feed: not a cursor")

// errTable says that it is the table that cannot be read.
var errTable = errors.New("feed: the table events cannot be read")

// Expired says that the stream no longer holds what follows a cursor, and where to go on: read the table at Snapshot,
// then follow from Cursor. Nothing is missed, and nothing comes twice. Without a snapshot both are zero.
type Expired struct {
	Snapshot int64
	Cursor   string
}

func (e *Expired) Error() string {
	return "feed: the stream no longer holds what follows the cursor"
}

// Cursor returns the cursor of a text: "" is from now on, Earliest from the oldest the stream holds. A cursor that the
// stream no longer holds is an *Expired error.
func (f *Feed) Cursor(ctx context.Context, text string) (*Cursor, error) {
	if text != "" && text != Earliest {
		c, err := f.parse(text)
		if err != nil {
			return nil, err
		}
		return c, f.check(ctx, c)
	}
	e, err := f.ends(ctx)
	if err != nil {
		return nil, err
	}
	c := &Cursor{stream: e.stream(), log: e.log.ID, erased: position{seq: e.log.Last + 1}}
	if text == Earliest {
		c.erased.seq = e.log.First
	}
	for _, b := range e.bounds {
		at := b.Last + 1
		if text == Earliest {
			at = b.First
		}
		c.parts = append(c.parts, position{seq: at})
	}
	return c, nil
}

// check says whether the stream holds what follows a cursor, and lets the cursor grow with the stream.
func (f *Feed) check(ctx context.Context, c *Cursor) error {
	now, _, err := f.look(ctx, lookAge)
	if err != nil {
		return err
	}
	e := now.ends
	if !c.held(e) { // another node may have seen more than our last look
		if e, err = f.ends(ctx); err != nil {
			return err
		}
		if !c.held(e) {
			return f.expired(ctx, e)
		}
	}
	c.grow(len(e.bounds))
	return nil
}

// expired makes the error of a cursor that the stream no longer holds.
func (f *Feed) expired(ctx context.Context, e ends) error {
	snap, err := f.o.Tables.Snapshot(ctx, 0)
	if errors.Is(err, lake.ErrNotFound) {
		return &Expired{}
	}
	if err != nil {
		return fmt.Errorf("%w: newest snapshot: %w", errTable, err)
	}
	return &Expired{snap.ID, f.Text(atSnapshot(e, &snap))}
}

// AtSnapshot returns the cursor that continues exactly after a snapshot of the table of events. One that is not kept is
// lake.ErrNotFound.
func (f *Feed) AtSnapshot(ctx context.Context, id int64) (*Cursor, error) {
	snap, err := f.o.Tables.Snapshot(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("%w: snapshot %d: %w", errTable, id, err)
	}
	e, err := f.ends(ctx)
	if err != nil {
		return nil, err
	}
	return atSnapshot(e, &snap), nil
}

// Query chooses rows.
type Query struct {
	Purpose   purpose.Purpose
	Dataset   string        // "" means all
	Types     []string      // only rows of one of these event types; none means all
	Campaigns []string      // only rows with one of these campaigns; none means all
	Limit     int           // rows, and lines of erased ones
	Bytes     int           // of lines, and one line more
	Time      time.Duration // after which no other frame is looked at; 0 means any
}

// covers says whether a row with a purpose and a dataset may be handed out.
func (q *Query) covers(p purpose.Purpose, dataset string) bool {
	return p >= q.Purpose && (q.Dataset == "" || q.Dataset == dataset)
}

func (q *Query) wants(r *row) bool {
	return q.covers(r.purpose, r.dataset) && (len(q.Types) == 0 || slices.Contains(q.Types, r.eventType)) &&
		(len(q.Campaigns) == 0 || slices.Contains(q.Campaigns, r.campaign))
}

// lookAge is how old a look at the stream may be for a follower that waits. The rows of a busy stream gather meanwhile:
// a question for each frame would cost the engine as much as storing it.
const lookAge = 100 * time.Millisecond

// Read hands the chosen rows that follow the cursor to emit, as lines of JSON, some at a time, and moves the cursor
// behind them, at least past one frame. It returns how many there were, and whether the cursor is now at the end of the
// stream, as of age ago at most. Lines are valid until emit returns. After an error of emit the cursor is of no use;
// after any other one it is behind the rows that emit got.
//
// The rows of a partition come in the order in which they were stored; those of several partitions are merged by the
// time at which their frames were stored. So the same cursor gives the same rows in the same order. Before them come
// lines of rows that were erased. None of these rows follows them: they are withheld from there on.
func (f *Feed) Read(
	ctx context.Context, c *Cursor, q Query, age time.Duration, emit func(lines []byte, rows int) error,
) (rows int, caughtUp bool, err error) {
	now, settled, err := f.look(ctx, age)
	if err != nil {
		return 0, false, err
	}
	visible := now.bounds
	c.grow(len(visible))
	begun := time.Now()
	told, err := f.tell(ctx, c, &q, now.log, emit)
	rows += told
	if err != nil {
		return rows, false, err
	}
	m := merge{f: f, c: c, visible: visible, heads: make([]*frame, len(visible))}
	for q.Limit > 0 && q.Bytes > 0 {
		p, head, err := m.next(ctx)
		if err != nil {
			return rows, false, err
		}
		if head == nil || len(visible) > 1 && head.seq > settled[p].Last {
			return rows, true, nil
		}
		at := &c.parts[p]
		for at.rows < uint64(len(head.rows)) && q.Limit > 0 && q.Bytes > 0 {
			lines, n, next := head.run(&q, at.rows)
			at.rows = next
			if n == 0 {
				continue
			}
			if err := emit(lines, n); err != nil {
				return rows, false, err
			}
			rows += n
			c.read = head.time
			f.rows.Add(uint64(n))
			f.bytes.Add(uint64(len(lines)))
			q.Limit -= n
			q.Bytes -= len(lines)
		}
		if at.rows >= uint64(len(head.rows)) {
			*at = position{seq: head.seq + 1}
			m.heads[p] = nil
		}
		if q.Time > 0 && time.Since(begun) >= q.Time {
			break
		}
	}
	return rows, false, nil
}

// merge finds the next frame of all partitions.
type merge struct {
	f       *Feed
	c       *Cursor
	visible []stream.Bounds
	heads   []*frame // the next frame of each partition, where it was read
}

// next returns the frame that was stored first among those that follow the cursor, or nil when there is none.
func (m *merge) next(ctx context.Context) (partition int, first *frame, err error) {
	for p := range m.heads {
		at := &m.c.parts[p]
		if m.heads[p] == nil && at.seq <= m.visible[p].Last {
			if m.heads[p], err = m.read(ctx, uint8(p), at); err != nil {
				return 0, nil, err
			}
		}
		if h := m.heads[p]; h != nil && (first == nil || h.time.Before(first.time)) {
			partition, first = p, h
		}
	}
	return partition, first, nil
}

// read reads the frame at a position. Where there is none, but one behind it, either frames were lost, and there is
// nothing to hand out, or they have aged out since the cursor was checked.
func (m *merge) read(ctx context.Context, p uint8, at *position) (*frame, error) {
	h, err := m.f.pages.next(ctx, p, at.seq, m.c.told())
	if err != nil || h == nil || h.seq == at.seq {
		return h, err
	}
	e, err := m.f.ends(ctx)
	if err != nil {
		return nil, err
	}
	if at.seq < e.bounds[p].First {
		return nil, m.f.expired(ctx, e)
	}
	*at = position{seq: h.seq}
	return h, nil
}
