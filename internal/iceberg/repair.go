package iceberg

import (
	"context"
	"errors"
	"slices"
)

// writerProperty says which version of our writer the files of a table have at least. It is not there while some of
// them may be of version 1, whose files other programs read wrongly or not at all (docs/decisions/0040).
const writerProperty = "sluice.writer-version"

// Repaired is what Repair did.
type Repaired struct {
	Files int   // written anew
	Rows  int64 // in them
	Left  int   // files that cannot be read, and so cannot be repaired
}

// Repair writes anew every file of the newest snapshots that Check finds wrong, with the rows that were stored, and ends
// the snapshots before, which list the wrong ones. Loading and reading go on meanwhile. Compact does the same for
// the files of earlier versions.
//
// Order: a file, then a commit that puts it in the place of the wrong one, for each; then a commit without older
// snapshots; then the wrong files are deleted. A crash leaves a table that is right but for the files that are not yet
// repaired; running it again finishes.
//
// Steps: T.repair, then those of a commit, for each file; T.forget; T.sweep.
func (t *Table[T]) Repair(ctx context.Context, progress func(done, total int)) (out Repaired, err error) {
	s, err := t.refresh(ctx)
	if err != nil {
		return out, err
	}
	var wrong []*dataFile
	for _, f := range s.files() {
		problems, damage := []string{"of an earlier version"}, error(nil)
		if f.old == nil {
			problems, damage = t.checkFile(f)
		}
		switch {
		case damage != nil:
			out.Left++
		case len(problems) > 0:
			wrong = append(wrong, f)
		}
	}
	for i, f := range wrong {
		err := t.repairFile(ctx, f)
		switch {
		case errors.Is(err, errUnreadable):
			out.Left++
		case errors.Is(err, errStale): // compaction or a deletion was faster
		case err != nil:
			return out, err
		default:
			out.Files++
			out.Rows += f.rows
		}
		progress(i+1, len(wrong))
	}
	if len(wrong) == 0 && t.upToDate() {
		return out, nil
	}
	return out, t.endRepair(ctx)
}

func (t *Table[T]) repairFile(ctx context.Context, f *dataFile) error {
	release, err := t.store.Share(ctx)
	if err != nil {
		return err
	}
	defer release()
	if err := t.at("repair"); err != nil {
		return err
	}
	made, err := t.rewrite(ctx, []*dataFile{f}, packedPage, nil, nil)
	if err != nil {
		return err
	}
	return t.replace(ctx, replaced, []*dataFile{f}, made)
}

// upToDate says whether no file of version 1 is left, in any snapshot.
func (t *table) upToDate() bool {
	return t.state.Load().meta.Properties[writerProperty] == writerVersion
}

// endRepair ends the snapshots that list wrong files, and deletes those. It does nothing while the newest snapshot
// still lists a file of version 1, which can only be one that cannot be read.
func (t *table) endRepair(ctx context.Context) error {
	if err := t.at("forget"); err != nil {
		return err
	}
	done := false
	// Twice, so that a damaged newest version can be done without: see load.
	for i := range 2 {
		_, err := t.update(ctx, func(s *state) (*change, error) {
			if slices.ContainsFunc(s.files(), func(p *dataFile) bool { return p.old != nil }) {
				return nil, nil
			}
			done = true
			c := &change{forget: true}
			if i > 0 { // else a crash between the two would leave it at one
				c.set = map[string]string{writerProperty: writerVersion}
			}
			return c, nil
		})
		if err != nil {
			return err
		}
	}
	if !done || t.remote { // what nothing lists goes with the sweep
		return nil
	}
	_, err := t.sweep(ctx, 2)
	return err
}

// oldFilesToMerge chooses files of version 1 to be written anew, merged as compaction would, nothing when there are none
// that can be read.
func (t *table) oldFilesToMerge(s *state) *merge {
	if t.upToDate() {
		return nil
	}
	var m *merge
	size := int64(0)
	for _, f := range s.files() {
		if f.old == nil || t.unreadable(f.name) {
			continue
		}
		if m == nil {
			m = &merge{day: f.day}
		}
		if f.day != m.day || len(m.files) > 0 && size+f.bytes > t.fileBytes || len(m.files) == mergeReaders {
			continue
		}
		m.files = append(m.files, f)
		size += f.bytes
	}
	if m != nil {
		m.packed = size >= t.fileBytes/mergeFiles
	}
	return m
}
