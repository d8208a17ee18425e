package hours

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/gob"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"

	"sluice/internal/lake"
)

// savedVersion is that of a saved index. One of another version is not read.
const savedVersion = 2

// saved is what a saved index begins with. The datasets follow, one by one, and a checksum of everything.
type saved struct {
	Version int
	Count   uint64               // of the indexes that were saved: the highest is the newest
	Files   map[int32][]string   // of the hours, by day, that it was made from
	Older   map[int32]lake.Print // the days before them that All has
	Keys    []savedKey
	All     savedDataset
	Sets    int
}

type savedKey struct{ Kind, Name, Field string }

func (k savedKey) key() seriesKey { return seriesKey{keep(k.Kind), keep(k.Name), keep(k.Field)} }

type savedSet struct {
	ID             string
	Last           int64
	Totals, Recent []byte
	Large          bool
}

type savedDataset struct {
	Last   int64
	Totals []savedSeries
	Series []savedSeries
}

type savedSeries struct {
	Key         savedKey
	Hours, Days []savedPoint
	Values      map[int64]float64
}

type savedPoint struct {
	At, Count   int64
	First, Last int32
}

// Save keeps the index with the tables, for a process that starts: it begins there and reads what has come since. What
// pends is not part of it. It runs between two calls of Read.
func (x *Index) Save(ctx context.Context) error {
	head, sets := x.saved()
	err := x.lake.SaveNumbers(ctx, int(head.Count%lake.NumbersSlots), func(w io.Writer) error {
		sum := crc32.New(castagnoli)
		out := bufio.NewWriterSize(io.MultiWriter(w, sum), 64<<10)
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
	x.saves = head.Count
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
		Version: savedVersion, Count: x.saves + 1, Files: x.follower.Files(), Older: x.older,
		All: saveDataset(x.all),
	}
	for _, k := range x.keys.list {
		head.Keys = append(head.Keys, savedKey{k.kind, k.name, k.field})
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

// resume begins with a saved index, if there is one that can be read.
func (x *Index) resume(ctx context.Context) error {
	var head *saved
	var sets []savedSet
	for slot := range lake.NumbersSlots {
		in, err := x.lake.OpenNumbers(ctx, slot)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		least := uint64(0)
		if head != nil {
			least = head.Count
		}
		if h, s, err := readSaved(in, in.Size(), least); err == nil { // else the tables have everything
			head, sets = h, s
		}
		_ = in.Close()
	}
	if head == nil {
		return ctx.Err()
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.saves = head.Count
	x.follower.Resume(head.Files)
	x.older, x.all = head.Older, head.All.dataset()
	for _, k := range head.Keys {
		x.keys.of(k.key())
	}
	for _, s := range sets {
		x.sets[s.ID] = &packed{last: s.Last, totals: s.Totals, recent: s.Recent, large: s.Large}
	}
	return nil
}

// readSaved reads a saved index that is newer than another one.
func readSaved(in io.ReaderAt, size int64, than uint64) (*saved, []savedSet, error) {
	if size < 4 {
		return nil, nil, io.ErrUnexpectedEOF
	}
	sum := crc32.New(castagnoli)
	body := io.TeeReader(io.NewSectionReader(in, 0, size-4), sum)
	d := gob.NewDecoder(bufio.NewReaderSize(body, 1<<20))
	head := &saved{}
	if err := d.Decode(head); err != nil {
		return nil, nil, err
	}
	if head.Version != savedVersion || head.Count <= than {
		return nil, nil, errors.New("of another version, or older")
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
	var want [4]byte
	if _, err := in.ReadAt(want[:], size-4); err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, err
	}
	if binary.LittleEndian.Uint32(want[:]) != sum.Sum32() {
		return nil, nil, errors.New("checksum differs")
	}
	return head, sets, nil
}

func saveDataset(d *Dataset) savedDataset {
	out := savedDataset{Last: d.last}
	for i := range d.totals {
		out.Totals = append(out.Totals, saveSeries(&d.totals[i]))
	}
	for _, s := range d.each() {
		out.Series = append(out.Series, saveSeries(s))
	}
	return out
}

func saveSeries(s *series) savedSeries {
	out := savedSeries{Key: savedKey{s.key.kind, s.key.name, s.key.field}, Values: s.values}
	for _, p := range s.hours {
		out.Hours = append(out.Hours, savedPoint{p.at, p.count, p.first, p.last})
	}
	for _, p := range s.days {
		out.Days = append(out.Days, savedPoint{p.at, p.count, p.first, p.last})
	}
	return out
}

func (s *savedDataset) dataset() *Dataset {
	d := newDataset()
	d.last = s.Last
	for i := range min(len(s.Totals), totalCount) {
		d.totals[i] = *s.Totals[i].series()
	}
	for i := range s.Series {
		one := s.Series[i].series()
		d.series[one.key] = one
	}
	return d
}

func (s *savedSeries) series() *series {
	out := &series{key: s.Key.key(), values: s.Values}
	for _, p := range s.Hours {
		out.hours = append(out.hours, point{p.At, p.Count, p.First, p.Last})
	}
	for _, p := range s.Days {
		out.days = append(out.days, point{p.At, p.Count, p.First, p.Last})
	}
	return out
}
