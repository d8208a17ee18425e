package iceberg

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"sluice/internal/objectstore"
	"sluice/internal/parquetfile"
	"sluice/internal/throttle"
)

// How files are merged. Files of like size are merged sixteen at a time, so a row is rewritten once for every
// sixteenfold growth of its file: two or three times in all. Days that are over are merged whatever their number.
const (
	mergeFiles = 16
	// mergeReaders bounds memory: each file that is being read holds a page of every column, 4 MB or so.
	mergeReaders = 16
	// mergeMemory bounds the dictionaries of all of them. Those of usual events are some 100 KiB for each file.
	mergeMemory = 16 << 20
	// settledAfter is when a day's files are taken to be complete: a loader that was away may still bring some. Seconds.
	settledAfter = 3600
)

// merge is files of one day to be made one.
type merge struct {
	files  []*dataFile
	packed bool // what comes out is to stay
}

// filesToMerge chooses what to compact, nothing when all is well. Days are looked at from the newest on: small files
// there cost readers most.
func (t *table) filesToMerge(s *state) *merge {
	days := map[int32][]*dataFile{}
	for _, p := range s.files() {
		if small(p, t.fileBytes) && !t.avoided(p) {
			days[p.day] = append(days[p.day], p)
		}
	}
	now := t.now().Unix()
	for _, day := range slices.Backward(slices.Sorted(maps.Keys(days))) {
		settled := now > int64(day+1)*secondsPerDay+settledAfter
		if m := choose(days[day], t.fileBytes, settled); m != nil {
			return m
		}
	}
	return nil
}

// choose takes the smallest files together, oldest first, as many as are of like size.
func choose(files []*dataFile, fileBytes int64, settled bool) *merge {
	slices.SortFunc(files, func(a, b *dataFile) int {
		return cmp.Or(cmp.Compare(tier(a), tier(b)), cmp.Compare(a.sequence, b.sequence))
	})
	for i := 0; i < len(files); {
		end := i
		for end < len(files) && tier(files[end]) == tier(files[i]) {
			end++
		}
		if settled || end-i >= mergeFiles {
			j := &merge{packed: settled}
			size := int64(0)
			for _, p := range files[i:] {
				if len(j.files) == mergeReaders || size+p.bytes > fileBytes {
					break
				}
				if !settled && tier(p) != tier(files[i]) {
					break
				}
				j.files = append(j.files, p)
				size += p.bytes
			}
			if len(j.files) >= 2 {
				j.packed = j.packed || size >= fileBytes/mergeFiles
				return j
			}
		}
		i = end
	}
	return nil
}

// small files are compacted. Larger ones would be rewritten for little.
func small(p *dataFile, fileBytes int64) bool { return p.bytes < fileBytes/4 }

// tier is the size class of a file, by factors of sixteen.
func tier(p *dataFile) int {
	n := 0
	for size := p.bytes >> 18; size > 0; size >>= 4 { // the first class ends at 256 KiB
		n++
	}
	return n
}

// Compact does one piece of compaction and says whether there was anything to do. Commits go on meanwhile.
//
// Steps: T.compact, then those of a commit. A crash leaves new files that nobody lists, and the old ones listed.
func (t *Table[T]) Compact(ctx context.Context, job *throttle.Job) (bool, error) {
	release, err := t.lockShared(ctx)
	if err != nil {
		return false, err
	}
	defer release()
	s, err := t.lately(ctx)
	if err != nil {
		return false, err
	}
	if t.remote && s.version != t.hintedVersion.Load() {
		t.hint(ctx, s.version) // the last commit may have been too soon after the one before
	}
	m := t.filesToMerge(s)
	if m == nil {
		return false, nil
	}
	if err := t.at("compact"); err != nil {
		return false, err
	}
	made, err := t.merge(ctx, m, job)
	if errors.Is(err, errUnreadable) {
		err = t.passOver(ctx, m.files, err)
		return err == nil, err // without that file the next merge is another
	}
	if err != nil {
		return false, err
	}
	err = t.replace(ctx, replaced, m.files, made, "")
	if errors.Is(err, errStale) {
		return true, nil
	}
	return err == nil, err
}

// merge makes one file of those of m in the cheapest way, and commits nothing. It may leave some of them out of m.
func (t *Table[T]) merge(ctx context.Context, m *merge, job *throttle.Job) ([]*dataFile, error) {
	made, err := t.copyGroups(ctx, m.files, job)
	if err != nil || made != nil {
		return made, err
	}
	page := parquetfile.FreshPage
	if m.packed {
		page = parquetfile.PackedPage
	}
	m.files = t.lighten(ctx, m.files)
	return t.mergeSorted(ctx, m.files, page, job)
}

// passOver tells of a damaged file among some that were to be compacted, unless another program has replaced them: what
// it replaced may be gone. Of one whose bytes the store does not give now nobody knows: it is tried again later.
func (t *Table[T]) passOver(ctx context.Context, files []*dataFile, damage error) error {
	t.doubt()
	s, err := t.refresh(ctx)
	if err != nil || !s.lists(namesOf(files)) {
		return err
	}
	for _, f := range files {
		switch damaged, err := t.damaged(ctx, f); {
		case err != nil:
			for _, f := range slices.DeleteFunc(files, func(f *dataFile) bool { return !t.avoided(f) }) {
				t.bad.Store(f.name, t.now().Add(avoidFor))
			}
			return err
		case damaged:
			t.damagedFiles.Store(f.name, true)
		}
	}
	t.log.Error("file is damaged and cannot be compacted", "error", damage)
	return nil
}

// errStale says that the files somebody worked on have been replaced meanwhile.
var errStale = errors.New("files were replaced meanwhile")

// lighten leaves out the last of the files that would take too much memory together: a reader holds the dictionary, and
// values of kilobytes are all in it if they are so few that parquet-go looks at its size only at the end.
func (t *table) lighten(ctx context.Context, files []*dataFile) []*dataFile {
	sum := int64(0)
	for i, p := range files {
		if sum += t.dictionaries(ctx, p); sum > mergeMemory && i >= 2 {
			return files[:i]
		}
	}
	return files
}

// dictionaries is about how many bytes those of a file's columns are; 0 when that cannot be read, which the merge will
// find out again and tell.
func (t *table) dictionaries(ctx context.Context, p *dataFile) (sum int64) {
	o, err := t.store.Open(ctx, p.name)
	if err != nil {
		return 0
	}
	defer o.Close()
	sum, _ = parquetfile.DictionaryBytes(o, p.bytes)
	return sum
}

// replace commits files in the place of others, unless one of those is gone.
func (t *table) replace(ctx context.Context, operation string, old, made []*dataFile, mark string) error {
	remove := namesOf(old)
	_, err := t.update(ctx, func(s *state) (*change, error) {
		if !s.lists(remove) {
			return nil, errStale
		}
		return &change{operation: operation, add: made, remove: remove, progress: s.marked(mark)}, nil
	})
	if err != nil && !errors.Is(err, objectstore.ErrUncertain) {
		t.discard(ctx, made)
	}
	return err
}

func (t *table) discard(ctx context.Context, files []*dataFile) {
	for _, p := range files {
		_ = t.store.Remove(ctx, p.name) // else the sweep finds it
	}
}
