package hours

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/gob"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"slices"

	"sluice/internal/lake"
)

// savedVersion is that of a saved index. One of another version is not read.
const savedVersion = 3

// saved is what a saved index has after eight bytes that count the indexes that were saved: the highest is the newest.
// The datasets follow, one by one, and a checksum of everything.
type saved struct {
	Version int
	Files   map[int32][]string   // of the hours, by day, that it was made from
	Older   map[int32]lake.Print // the days before them that All has
	Keys    []seriesKey
	All     savedDataset
	Sets    int
}

type savedSet struct {
	ID             string
	Last           int64
	Totals, Recent []byte
	Large          bool
}

// savedDataset is all that a dataset has.
type savedDataset struct {
	Last   int64
	Keys   []seriesKey // of the series, in the order in which they follow the totals
	Packed []byte
}

// Save keeps the index with the tables, for a process that starts: it begins there and reads what has come since. What
// pends is not part of it. It runs between two calls of Read.
func (x *Index) Save(ctx context.Context) error {
	head, sets := x.saved()
	count := x.saves + 1
	err := x.lake.SaveNumbers(ctx, int(count%lake.NumbersSlots), func(w io.Writer) error {
		sum := crc32.New(castagnoli)
		out := bufio.NewWriterSize(io.MultiWriter(w, sum), 64<<10)
		_, _ = out.Write(binary.LittleEndian.AppendUint64(nil, count)) // Flush has its error
		e := gob.NewEncoder(out)
		if err := e.Encode(head); err != nil {
			return err
		}
		for i := range sets {
			if err := e.Encode(&sets[i]); err != nil {
				return err
			}
		}
		if err := out.Flush(); err != nil {
			return err
		}
		_, err := w.Write(binary.LittleEndian.AppendUint32(nil, sum.Sum32()))
		return err
	})
	if err != nil {
		return fmt.Errorf("save the numbers: %w", err)
	}
	x.saves = count
	return nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (x *Index) saved() (*saved, []savedSet) {
	x.mu.Lock()
	defer x.mu.Unlock()
	pending := x.pending
	x.pend(overlay{}, 0)
	defer x.pend(pending, 0)
	head := &saved{
		Version: savedVersion, Files: x.follower.Files(), Older: x.older, Keys: slices.Clone(x.keys.list),
		All: saveDataset(x.all),
	}
	sets := make([]savedSet, 0, len(x.sets))
	for id, p := range x.sets {
		if !x.deleted(id) || !x.empty(p) {
			sets = append(sets, savedSet{id, p.last, p.totals, p.recent, p.large})
		}
	}
	head.Sets = len(sets)
	return head, sets
}

// resume begins with the newest saved index that can be read, if there is one. Else the tables have everything.
func (x *Index) resume(ctx context.Context) error {
	var there []savedIndex
	defer func() {
		for _, s := range there {
			_ = s.Close()
		}
	}()
	for slot := range lake.NumbersSlots {
		in, err := x.lake.OpenNumbers(ctx, slot)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		there = append(there, savedIndex{in, in, in.Size(), countOf(in)})
	}
	slices.SortFunc(there, func(a, b savedIndex) int { return cmp.Compare(b.count, a.count) })
	for _, s := range there {
		if head, sets, err := s.read(); err == nil {
			x.begin(s.count, head, sets)
			return nil
		}
	}
	return ctx.Err()
}

func (x *Index) begin(count uint64, head *saved, sets []savedSet) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.saves = count
	x.follower.Resume(head.Files)
	x.older, x.all = head.Older, head.All.dataset()
	for _, k := range head.Keys {
		x.keys.of(k)
	}
	for _, s := range sets {
		x.sets[s.ID] = &packed{last: s.Last, totals: s.Totals, recent: s.Recent, large: s.Large}
	}
}

// savedIndex is an index that was saved, as the one of this count.
type savedIndex struct {
	io.ReaderAt
	io.Closer
	size  int64
	count uint64
}

// countOf is the count of a saved index, or 0.
func countOf(in io.ReaderAt) uint64 {
	var b [countBytes]byte
	if n, _ := in.ReadAt(b[:], 0); n < len(b) {
		return 0
	}
	return binary.LittleEndian.Uint64(b[:])
}

const countBytes = 8

func (s savedIndex) read() (*saved, []savedSet, error) {
	end := s.size - crc32.Size
	if end < countBytes {
		return nil, nil, io.ErrUnexpectedEOF
	}
	sum := crc32.New(castagnoli)
	body := bufio.NewReaderSize(io.TeeReader(io.NewSectionReader(s, 0, end), sum), 1<<20)
	if _, err := body.Discard(countBytes); err != nil {
		return nil, nil, err
	}
	d := gob.NewDecoder(body)
	head := &saved{}
	if err := d.Decode(head); err != nil {
		return nil, nil, err
	}
	if head.Version != savedVersion {
		return nil, nil, errors.New("of another version")
	}
	var sets []savedSet
	for range head.Sets {
		var s savedSet
		if err := d.Decode(&s); err != nil {
			return nil, nil, err
		}
		sets = append(sets, s)
	}
	if _, err := io.Copy(io.Discard, body); err != nil {
		return nil, nil, err
	}
	var want [crc32.Size]byte
	if _, err := s.ReadAt(want[:], end); err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, err
	}
	if binary.LittleEndian.Uint32(want[:]) != sum.Sum32() {
		return nil, nil, errors.New("checksum differs")
	}
	return head, sets, nil
}

func saveDataset(d *Dataset) savedDataset {
	d.filled()
	out := savedDataset{Last: d.last}
	var p packer
	put := func(s *series) {
		p.series(s, 0)
		p.days(s)
	}
	for i := range d.totals {
		put(&d.totals[i])
	}
	for key, s := range d.series {
		out.Keys = append(out.Keys, key)
		put(s)
	}
	out.Packed = p.b
	return out
}

func (s *savedDataset) dataset() *Dataset {
	d := newDataset()
	d.last = s.Last
	in := unpacker{b: s.Packed}
	get := func(s *series) {
		in.series(s)
		in.days(s)
	}
	for i := range d.totals {
		get(&d.totals[i])
	}
	for _, k := range s.Keys {
		one := &series{key: k}
		get(one)
		d.series[one.key] = one
	}
	return d
}
