package stream

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/engine"
)

// keyIndex decides which records with a key are stored where this process is the only writer: with the embedded engine.
// Such records share frames, and with them syncs, with all others. A frame holds its keys, so key and record are stored
// in one step; the index only finds them. With an external engine there are other writers, and the engine decides.
type keyIndex struct {
	s       *Stream
	table   keyTable
	journal keyJournal

	mu sync.Mutex
	// keys whose record was appended and is not in the table yet, and whether it may be stored or not: settle finds out
	open map[key]bool

	loading sync.Mutex
	loaded  atomic.Bool
	flushed time.Time // when the journal was last written; only watch touches it
	swept   time.Time // when memory was last given back; only watch touches it
}

const (
	// flushEvery is how often the journal is written: a start after a crash reads the frames of so much time (arbitrary).
	flushEvery = 10 * time.Second
	// sweepEvery is how often the index gives back what has aged out (arbitrary). New keys that wait for space are told to
	// come again after sweepSoon.
	sweepEvery = 10 * time.Minute
	sweepSoon  = time.Minute
	// settleAfter is how long a lost connection may still bring frames to the embedded engine: it has read them into
	// memory, and needs milliseconds to store them.
	settleAfter = 2 * time.Second
)

// defaultMaxKeys takes half a gibibyte of memory.
const defaultMaxKeys = 32 << 20

func newKeyIndex(s *Stream) *keyIndex {
	k := &keyIndex{s: s, open: map[key]bool{}}
	k.table.most, k.journal.dir, k.journal.stream = s.o.MaxKeys, filepath.Join(s.e.Dir(), "keys"), s.parts.ID
	return k
}

// unsettled are keys whose frame may or may not be stored.
type unsettled struct {
	keys []slotKey
	low  uint64 // the frame has a higher number, if it has one
	conn uint64 // the connection that it was sent over
	next uint64 // groups of a higher order were sent later
	at   time.Time
}

func (k *keyIndex) append(ctx context.Context, name *key, record []byte) (Position, error) {
	if err := k.reserve(ctx, name); err != nil {
		k.s.queued.Add(-int64(len(record)))
		return Position{}, err
	}
	return k.s.appendGroup(ctx, record, name)
}

func (k *keyIndex) read(ctx context.Context, name *key) ([]byte, Position, error) {
	if err := k.load(ctx); err != nil {
		return nil, Position{}, err
	}
	k.mu.Lock()
	unknown := k.open[*name]
	k.mu.Unlock()
	record, at, err := k.find(ctx, name)
	if unknown && errors.Is(err, ErrNotFound) {
		err = ErrTimeout
	}
	return record, at, err
}

// reserve gives a key out that no record has.
func (k *keyIndex) reserve(ctx context.Context, name *key) error {
	if err := k.claim(name); err != nil {
		return err
	}
	_, _, err := k.find(ctx, name)
	switch {
	case errors.Is(err, ErrNotFound) && !k.table.full():
		return nil
	case errors.Is(err, ErrNotFound), errors.Is(err, ErrTooManyKeys):
		err = ErrTooManyKeys
	case used(err):
		err = ErrExists
	default:
		err = translate(err)
	}
	k.release(slotKey{key: *name})
	return err
}

// claim takes a key for a record that is about to be appended. It returns ErrExists where another record has it, or
// may have it.
func (k *keyIndex) claim(name *key) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, taken := k.open[*name]; taken {
		return ErrExists
	}
	k.open[*name] = false
	return nil
}

// release gives up keys whose records are certainly not stored, or are in the table.
func (k *keyIndex) release(keys ...slotKey) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range keys {
		delete(k.open, keys[i].key)
	}
}

// stored notes the keys of a frame that is stored.
func (k *keyIndex) stored(partition uint8, seq uint64, keys []slotKey) {
	for i := range keys {
		at := Position{Partition: partition, Seq: seq, Slot: keys[i].slot}
		if k.loaded.Load() {
			k.table.insert(&keys[i].key, at) // there was space when it was claimed
		} else {
			k.table.load(keys[i].key[0], keys[i].key.sum(), at.pack())
		}
		k.journal.add(&keys[i].key, at)
	}
}

// answered notes what became of a group with keys, before its callers have their answer.
func (w *writer) answered(g *group, seq uint64, err error) {
	if len(g.keys) == 0 {
		return
	}
	k := w.index
	switch {
	case err == nil:
		k.stored(w.part, seq, g.keys)
		k.release(g.keys...)
	case errors.Is(err, ErrFull):
		k.release(g.keys...)
	default:
		k.mu.Lock()
		for i := range g.keys {
			k.open[g.keys[i].key] = true
		}
		k.mu.Unlock()
		low := g.low
		if errors.Is(err, errFellBack) { // it is stored, under a number that is not known here
			low = 0
		}
		w.mu.Lock()
		w.unsettled = append(w.unsettled, unsettled{g.keys, low, g.conn, w.taken, w.s.o.Now()})
		w.mu.Unlock()
	}
}

// sent is a frame that is stored.
type sent struct {
	seq   uint64
	conn  uint64 // the connection that it was sent over
	order uint64 // see group
}

// settle finds out about the frames with keys that may or may not be stored. The engine stores in the order in which it
// gets, so once a frame behind them is stored, they are before it or nowhere. An idle stream writes an empty one, at
// most one a second.
func (w *writer) settle(ctx context.Context) error {
	now, conn := w.s.o.Now(), w.s.e.Connection()
	w.mu.Lock()
	n, low := 0, uint64(0)
	for _, u := range w.unsettled {
		if age := now.Sub(u.at); u.conn != conn && age >= 0 && age < settleAfter {
			break
		}
		if n++; n == 1 || u.low < low {
			low = u.low
		}
	}
	open, newest := slices.Clone(w.unsettled[:n]), w.newest
	w.mu.Unlock()
	if n == 0 {
		return nil
	}
	end := newest.seq
	if newest.conn != conn || newest.order <= open[n-1].next {
		if since := now.Sub(w.probed); since >= 0 && since < time.Second {
			return nil
		}
		w.probed = now
		var err error
		if end, err = w.write(ctx, AppendFrame(nil)); err != nil {
			return err
		}
	}
	if end <= low { // the engine has lost frames: the next probe fills their numbers
		return errFellBack
	}
	if err := w.index.readFrames(ctx, w.part, low+1, end, nil); err != nil {
		return err
	}
	w.mu.Lock()
	w.unsettled = slices.Delete(w.unsettled, 0, n)
	w.mu.Unlock()
	for _, u := range open {
		w.index.release(u.keys...)
	}
	return nil
}

var errRead = errors.New("the frames to read are read")

// readFrames puts the keys of a partition's frames into the table, from one sequence number to another. After each
// frame it calls then, if given.
func (k *keyIndex) readFrames(ctx context.Context, partition uint8, from, to uint64,
	then func(seq uint64) error,
) error {
	if from > to {
		return nil
	}
	err := k.s.Scan(ctx, partition, from, func(fr Frame) error {
		k.stored(partition, fr.Seq, fr.keys)
		if then != nil {
			if err := then(fr.Seq); err != nil {
				return err
			}
		}
		if fr.Seq >= to {
			return errRead
		}
		return nil
	})
	if errors.Is(err, errRead) {
		return nil
	}
	return err
}

// load fills the index, once: from the journal, and from the frames behind it. Only the process that runs the engine
// has an index, and so takes records.
func (k *keyIndex) load(ctx context.Context) error {
	s := k.s
	k.loading.Lock()
	defer k.loading.Unlock()
	switch {
	case k.loaded.Load():
		return nil
	case s.e.Mode() != engine.Embedded:
		return fmt.Errorf("%w: another process writes", ErrUnavailable)
	}
	start := s.o.Now()
	k.journal.entries = nil
	last := make([]uint64, len(s.writers))
	for p, w := range s.writers {
		st, err := w.log.State(ctx)
		if err != nil {
			return err
		}
		k.table.first[p].Store(st.FirstSeq)
		last[p] = st.LastSeq
	}
	ends, err := k.loadJournal(len(s.writers))
	if err != nil {
		return err
	}
	behind, err := k.loadFrames(ctx, ends, last)
	if err != nil {
		return err
	}
	if behind > 0 && k.table.full() {
		// Keys of these frames may have been left out, and are the newest. With the journal the oldest are.
		if err := k.journal.close(ends); err != nil {
			k.notWritten(err)
		} else if _, err = k.loadJournal(len(s.writers)); err != nil {
			return err
		}
	}
	k.loaded.Store(true)
	if took := s.o.Now().Sub(start); took > time.Second {
		s.o.Log.Info("idempotency keys read", "keys", k.table.len(), "frames", behind, "duration", took.String())
	}
	if !k.table.complete() {
		s.o.Log.Warn("more idempotency keys are in use than may be in memory: the oldest are left out, and no new ones are "+
			"taken until they have aged out",
			"most", s.o.MaxKeys)
	}
	return nil
}

// loadJournal fills the table from the journal, and says up to where the journal has every key.
func (k *keyIndex) loadJournal(partitions int) ([]uint64, error) {
	k.table.clear()
	ends, err := k.journal.load(&k.table, partitions)
	if err != nil {
		return nil, fmt.Errorf("read the journal of idempotency keys: %w", err)
	}
	return ends, nil
}

// loadFrames adds the keys of the frames between ends, which it moves on, and last. It says how many frames these are.
func (k *keyIndex) loadFrames(ctx context.Context, ends, last []uint64) (behind uint64, err error) {
	for p, w := range k.s.writers {
		w.raise(ends[p]) // numbers that were given out and are not there any more are not given out again
		from := max(ends[p]+1, k.table.first[p].Load())
		if from <= last[p] {
			behind += last[p] - from + 1
		}
		err = k.readFrames(ctx, uint8(p), from, last[p], func(seq uint64) error {
			ends[p] = seq
			return k.journal.flushLarge(ends)
		})
		if err != nil {
			return behind, err
		}
	}
	return behind, nil
}

// tend writes the journal and gives memory back, when it is time.
func (k *keyIndex) tend(ctx context.Context) {
	s := k.s
	if !k.loaded.Load() {
		return
	}
	now := s.o.Now()
	if d := now.Sub(k.flushed); d >= flushEvery || d < 0 {
		k.flushed = now
		k.notWritten(k.journal.flush(k.ends()))
	}
	every := sweepEvery
	if k.table.full() || !k.table.complete() {
		every = sweepSoon
	}
	if d := now.Sub(k.swept); d >= every || d < 0 {
		k.swept = now
		if err := k.sweep(ctx); err != nil {
			s.o.Log.Warn("idempotency keys that have aged out stay in memory", "error", err)
		}
	}
}

// close writes the journal for the last time.
func (k *keyIndex) close() {
	if k.loaded.Load() {
		k.notWritten(k.journal.close(k.ends()))
	}
}

// notWritten logs an error of the journal, if it is one.
func (k *keyIndex) notWritten(err error) {
	if err != nil {
		k.s.o.Log.Warn("journal of idempotency keys not written: the next start takes longer", "error", err)
	}
}

// sweep forgets the keys whose frames have aged out.
func (k *keyIndex) sweep(ctx context.Context) error {
	first := make([]uint64, len(k.s.writers))
	for p, w := range k.s.writers {
		st, err := w.log.State(ctx)
		if err != nil {
			return err
		}
		first[p] = st.FirstSeq
		k.table.first[p].Store(st.FirstSeq)
	}
	k.table.sweep()
	return k.journal.expire(first)
}

// ends returns up to where the table has every key of each partition.
func (k *keyIndex) ends() []uint64 {
	ends := make([]uint64, len(k.s.writers))
	for p, w := range k.s.writers {
		w.mu.Lock() // no group is taken from here on
		ends[p] = w.high.Load()
		for _, g := range w.flying {
			if len(g.keys) > 0 {
				ends[p] = min(ends[p], g.low)
			}
		}
		for _, u := range w.unsettled {
			ends[p] = min(ends[p], u.low)
		}
		w.mu.Unlock()
	}
	return ends
}

// find returns the record of a key, or ErrNotFound. ErrTooManyKeys means that it may be a key that was left out of the
// index, a RestoredError that only the key came here.
func (k *keyIndex) find(ctx context.Context, name *key) ([]byte, Position, error) {
	var few [4]Position
	var restored error
	for _, at := range k.table.find(name, few[:0]) {
		if int(at.Partition) >= len(k.s.writers) {
			continue
		}
		m, err := k.s.writers[at.Partition].log.Get(ctx, at.Seq)
		if errors.Is(err, engine.ErrNotFound) {
			continue // it has aged out
		}
		if err != nil {
			return nil, Position{}, err
		}
		records, keys, err := decodeFrame(m.Data)
		if err != nil {
			return nil, Position{}, ErrDamaged
		}
		for _, k := range keys {
			switch {
			case k.key != *name:
			case int(k.slot) < len(records):
				return records[k.slot], Position{at.Partition, at.Seq, k.slot}, nil
			case len(records) == 0:
				restored = &RestoredError{m.Time}
			}
		}
	}
	if restored != nil {
		return nil, Position{}, restored
	}
	if !k.table.complete() {
		return nil, Position{}, ErrTooManyKeys
	}
	return nil, Position{}, ErrNotFound
}

// messageKey returns the key of a message that was published with one, as an external engine has it: it belongs to the
// one record of the frame, or to none.
func messageKey(m engine.Message) []slotKey {
	var k slotKey
	if n, err := base64.RawURLEncoding.Decode(k.key[:], []byte(m.Key)); err != nil || n != len(k.key) {
		return nil
	}
	return []slotKey{k}
}
