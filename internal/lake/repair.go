package lake

import (
	"context"
	"errors"
	"slices"

	"sluice/event"
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
// the snapshots before, which list the wrong ones. Loading and reading go on meanwhile. Run does the same for the files
// of earlier versions, without being asked.
//
// Order: a file, then a commit that puts it in the place of the wrong one, for each; then a commit without older
// snapshots; then the wrong files are deleted. A crash leaves a table that is right but for the files that are not yet
// repaired; running it again finishes.
//
// Steps: T.repair, then those of a commit, for each file; T.forget; T.sweep.
func (l *Lake) Repair(ctx context.Context, progress func(done, total int)) (Repaired, error) {
	var out Repaired
	var wrong []checkedFile
	for _, t := range l.tables() {
		s, err := t.refresh(ctx)
		if err != nil {
			return out, err
		}
		for _, p := range s.parts() {
			problems, damage := []string{"of an earlier version"}, error(nil)
			if p.old == nil {
				problems, damage = l.checkFile(t, p)
			}
			switch {
			case damage != nil:
				out.Left++
			case len(problems) > 0:
				wrong = append(wrong, checkedFile{t, p})
			}
		}
	}
	for i, f := range wrong {
		err := l.repairFile(ctx, f)
		switch {
		case errors.Is(err, errUnreadable):
			out.Left++
		case errors.Is(err, errStale): // compaction or an erasure was faster
		case err != nil:
			return out, err
		default:
			out.Files++
			out.Rows += f.p.rows
		}
		progress(i+1, len(wrong))
	}
	for _, t := range l.tables() {
		if len(wrong) > 0 && slices.ContainsFunc(wrong, func(f checkedFile) bool { return f.t == t }) || !t.upToDate() {
			if err := t.endRepair(ctx); err != nil {
				return out, err
			}
		}
	}
	return out, nil
}

func (l *Lake) repairFile(ctx context.Context, f checkedFile) error {
	release, err := f.t.store.Share(ctx)
	if err != nil {
		return err
	}
	defer release()
	if err := f.t.at("repair"); err != nil {
		return err
	}
	made, err := l.rewriteAny(ctx, f.t, []*part{f.p}, packed, packedPage, nil)
	if err != nil {
		return err
	}
	return f.t.replace(ctx, replaced, []*part{f.p}, made)
}

// rewriteAny is rewrite for a table whose rows are not known at compile time.
func (l *Lake) rewriteAny(ctx context.Context, t *table, parts []*part, codec *codec, page int, pace *Pace) ([]*part, error) {
	switch t {
	case l.events:
		return rewrite[event.Row](ctx, t, eventSchema, parts, codec, page, nil, pace)
	case l.hours:
		return rewrite[Hour](ctx, t, hourSchema, parts, codec, page, nil, pace)
	default:
		return rewrite[Rejection](ctx, t, rejectionSchema, parts, codec, page, nil, pace)
	}
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
			if slices.ContainsFunc(s.parts(), func(p *part) bool { return p.old != nil }) {
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
	if !done {
		return nil
	}
	_, err := t.sweep(ctx, 2)
	return err
}

// oldJob chooses files of version 1 to be written anew, merged as compaction would, nothing when there are none.
func (t *table) oldJob(s *state, partBytes int64) *job {
	if t.upToDate() {
		return nil
	}
	var j *job
	size := int64(0)
	for _, p := range s.parts() {
		if p.old == nil || t.unreadable(p.name) {
			continue
		}
		if j == nil {
			j = &job{day: p.day}
		}
		if p.day != j.day || len(j.parts) > 0 && size+p.bytes > partBytes || len(j.parts) == mergeReaders {
			continue
		}
		j.parts = append(j.parts, p)
		size += p.bytes
	}
	if j != nil {
		j.packed = size >= partBytes/mergeParts
	}
	return j
}
