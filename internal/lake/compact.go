package lake

import (
	"cmp"
	"context"
	"errors"
	"slices"
)

// How parts are merged. Parts of like size are merged sixteen at a time, so a row is rewritten once for every
// sixteenfold growth of its part: two or three times in all. Days that are over are merged whatever their number.
const (
	mergeParts = 16
	// mergeReaders bounds memory: each part that is being read holds a page of every column, 4 MB or so.
	mergeReaders = 16
	// mergeMemory bounds the dictionaries of all of them. Those of usual events are some 100 KiB for each part.
	mergeMemory = 16 << 20
	// settledAfter is when a day's parts are taken to be complete: a loader that was away may still bring some. Seconds.
	settledAfter = 3600
)

// job is parts of one day to be made one.
type job struct {
	day    int32
	parts  []*part
	packed bool // what comes out is to stay
}

// nextJob chooses what to compact, nothing when all is well. Days are looked at from the newest on: small parts
// there cost readers most.
func (t *table) nextJob(s *state, partBytes int64) *job {
	days := map[int32][]*part{}
	for _, p := range s.parts() {
		if small(p, partBytes) && !t.unreadable(p.name) {
			days[p.day] = append(days[p.day], p)
		}
	}
	now := t.now().Unix()
	order := make([]int32, 0, len(days))
	for day := range days {
		order = append(order, day)
	}
	slices.SortFunc(order, func(a, b int32) int { return cmp.Compare(b, a) })
	for _, day := range order {
		settled := now > int64(day+1)*secondsPerDay+settledAfter
		if j := choose(days[day], partBytes, settled); j != nil {
			j.day = day
			return j
		}
	}
	return nil
}

// choose takes the smallest parts together, oldest first, as many as are of like size.
func choose(parts []*part, partBytes int64, settled bool) *job {
	slices.SortFunc(parts, func(a, b *part) int {
		return cmp.Or(cmp.Compare(tier(a), tier(b)), cmp.Compare(a.sequence, b.sequence))
	})
	least := mergeParts
	if settled {
		least = 2
	}
	for i := 0; i < len(parts); {
		end := i
		for end < len(parts) && tier(parts[end]) == tier(parts[i]) {
			end++
		}
		if settled || end-i >= least {
			j := &job{packed: settled}
			size := int64(0)
			for _, p := range parts[i:] {
				if len(j.parts) == mergeReaders || size+p.bytes > partBytes {
					break
				}
				if !settled && tier(p) != tier(parts[i]) {
					break
				}
				j.parts = append(j.parts, p)
				size += p.bytes
			}
			if len(j.parts) >= 2 {
				j.packed = j.packed || size >= partBytes/mergeParts
				return j
			}
		}
		i = end
	}
	return nil
}

// small parts are compacted. Larger ones would be rewritten for little.
func small(p *part, partBytes int64) bool { return p.bytes < partBytes/4 }

// tier is the size class of a part, by factors of sixteen.
func tier(p *part) int {
	n := 0
	for size := p.bytes >> 18; size > 0; size >>= 4 { // the first class ends at 256 KiB
		n++
	}
	return n
}

// Compact does one piece of compaction and says whether there was anything to do. Commits go on meanwhile.
//
// Steps: T.compact, then those of a commit. A crash leaves new parts that nobody lists, and the old ones listed.
func (l *Lake) Compact(ctx context.Context) (bool, error) { return l.compact(ctx, nil) }

func (l *Lake) compact(ctx context.Context, pace *Pace) (bool, error) {
	tables := [...]func() (bool, error){
		func() (bool, error) { return compactTable(ctx, l, l.events, eventSchema, pace) },
		func() (bool, error) { return compactTable(ctx, l, l.hours, hourSchema, pace) },
		func() (bool, error) { return compactTable(ctx, l, l.rejections, rejectionSchema, pace) },
	}
	first := l.turn.Add(1)
	for i := range tables {
		if did, err := tables[(int(first)+i)%len(tables)](); did || err != nil {
			return did, err
		}
	}
	return false, nil
}

// errStale says that the parts somebody worked on have been replaced meanwhile.
var errStale = errors.New("parts were replaced meanwhile")

func compactTable[T any](ctx context.Context, l *Lake, t *table, k *schema[T], pace *Pace) (bool, error) {
	release, err := t.store.Share(ctx)
	if err != nil {
		return false, err
	}
	defer release()
	s, err := t.refresh(ctx)
	if err != nil {
		return false, err
	}
	j := t.oldJob(s, l.o.PartBytes)
	if j != nil {
		l.o.Log.Info("writing files of an earlier version anew", "table", t.layout.name, "files", len(j.parts), "left", s.oldParts())
	} else if !t.upToDate() {
		release() // the sweep at its end waits for everybody who may be writing
		return true, t.endRepair(ctx)
	} else {
		j = t.nextJob(s, l.o.PartBytes)
	}
	if j == nil {
		return false, nil
	}
	if err := t.at("compact"); err != nil {
		return false, err
	}
	codec, page := fresh, freshPage
	if j.packed {
		codec, page = packed, packedPage
	}
	j.parts = t.lighten(j.parts)
	made, err := rewrite(ctx, t, k, j.parts, codec, page, nil, pace)
	if errors.Is(err, errUnreadable) {
		l.counters.damagedParts.Add(1)
		l.o.Log.Error("part is damaged and cannot be compacted", "table", t.layout.name, "error", err)
		return true, nil // without that part the next job is another
	}
	if err != nil {
		return false, err
	}
	err = t.replace(ctx, replaced, j.parts, made)
	if errors.Is(err, errStale) {
		return true, nil
	}
	if err == nil {
		l.counters.compactions.Add(1)
		for _, p := range j.parts {
			l.counters.compactedRows.Add(p.rows)
		}
	}
	return err == nil, err
}

// lighten leaves out the last of the parts that would take too much memory together: values of kilobytes, few enough
// for parquet-go to look at the size of its dictionary only at the end, are all in the dictionary, which a reader holds.
func (t *table) lighten(parts []*part) []*part {
	sum := int64(0)
	for i, p := range parts {
		if sum += t.dictionaries(p); sum > mergeMemory && i >= 2 {
			return parts[:i]
		}
	}
	return parts
}

// dictionaries is about how many bytes those of a part's columns are; 0 when that cannot be read, which the merge will
// find out again and tell.
func (t *table) dictionaries(p *part) (sum int64) {
	o, err := t.store.Open(p.name)
	if err != nil {
		return 0
	}
	defer o.Close()
	f, err := openParquet(p, o)
	if err != nil {
		return 0
	}
	for _, g := range f.Metadata().RowGroups {
		for i := range g.Columns {
			c := &g.Columns[i].MetaData
			if c.DictionaryPageOffset > 0 && c.TotalCompressedSize > 0 {
				share := float64(c.DataPageOffset-c.DictionaryPageOffset) / float64(c.TotalCompressedSize)
				sum += int64(share * float64(c.TotalUncompressedSize))
			}
		}
	}
	return sum
}

// replace commits parts in the place of others, unless one of those is gone.
func (t *table) replace(ctx context.Context, operation string, old, made []*part) error {
	remove := map[string]bool{}
	for _, p := range old {
		remove[p.name] = true
	}
	_, err := t.update(ctx, func(s *state) (*change, error) {
		n := 0
		for _, p := range s.parts() {
			if remove[p.name] {
				n++
			}
		}
		if n != len(remove) {
			return nil, errStale
		}
		return &change{operation: operation, add: made, remove: remove}, nil
	})
	if err != nil && !errors.Is(err, errUncertain) {
		t.discard(made)
	}
	return err
}

func (t *table) discard(parts []*part) {
	for _, p := range parts {
		_ = t.store.Remove(p.name) // else the sweep finds it
	}
}

// rewrite merges sorted parts into new ones, leaving out the rows drop chooses. Nothing is committed.
func rewrite[T any](
	ctx context.Context, t *table, k *schema[T], parts []*part, codec *codec, page int, drop func(*T) bool,
	pace *Pace,
) (made []*part, err error) {
	var in merger[T]
	in.compare = k.compare
	defer in.close()
	for _, p := range parts {
		if err := in.open(t, k, p); err != nil {
			return nil, err
		}
	}
	out := &folding[T]{schema: k, at: t.store, day: parts[0].day, codec: codec, page: page, pace: pace}
	for n := 0; ; n++ {
		row, err := in.next()
		if err != nil {
			out.abandon()
			return nil, err
		}
		if row == nil {
			break
		}
		if n%readRows == 0 && ctx.Err() != nil {
			out.abandon()
			return nil, ctx.Err()
		}
		if drop != nil && drop(row) {
			continue
		}
		if err := out.add(row); err != nil {
			out.abandon()
			return nil, err
		}
	}
	return out.finish()
}

// folding writes rows into a part that begins with the first of them, and adds up those that can be one.
type folding[T any] struct {
	schema *schema[T]
	at     storage
	day    int32
	codec  *codec
	page   int
	pace   *Pace
	w      *partWriter[T]
}

func (f *folding[T]) add(row *T) (err error) {
	if f.w == nil {
		f.w, err = createPart(f.at, f.schema, f.day, f.codec, f.page, f.pace)
		if err != nil {
			return err
		}
	}
	if f.schema.fold != nil {
		if last := f.w.last(); last != nil && f.schema.fold(last, row) {
			return nil
		}
	}
	return f.w.add(row)
}

func (f *folding[T]) abandon() {
	if f.w != nil {
		f.w.abandon()
	}
}

func (f *folding[T]) finish() ([]*part, error) {
	if f.w == nil {
		return nil, nil
	}
	p, err := f.w.finish()
	if err != nil {
		return nil, err
	}
	return []*part{p}, nil
}
