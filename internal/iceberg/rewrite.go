package iceberg

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"sluice/internal/objectstore"
	"sluice/internal/parquetfile"
	"sluice/internal/throttle"
)

// errUnreadable says that a file could not be read to its end.
var errUnreadable = errors.New("file cannot be read")

// unreadableFile notes that a file cannot be read to its end, and why, unless ctx has cut it off.
func (t *table) unreadableFile(ctx context.Context, p *dataFile, why error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	t.bad.Store(p.name, time.Time{})
	return fmt.Errorf("%w: %s: %w", errUnreadable, p.name, why)
}

// avoidFor is how long a merge leaves out a file that the store does not give, and merges others. Arbitrary.
const avoidFor = 10 * time.Minute

// avoided says whether merges leave a file out: it could not be read, or cannot be at the moment.
func (t *table) avoided(p *dataFile) bool {
	until, bad := t.bad.Load(p.name)
	return bad && (until.(time.Time).IsZero() || t.now().Before(until.(time.Time)))
}

// inputs are files of the table that are open to be read.
type inputs struct {
	files   []*dataFile
	objects []objectstore.Object
	sources []parquetfile.Source
}

// openFiles opens files. The caller closes them.
func (t *table) openFiles(ctx context.Context, files []*dataFile) (*inputs, error) {
	in, gone, err := t.openThere(ctx, files)
	if len(gone) > 0 {
		in.close()
		return nil, t.unreadableFile(ctx, gone[0], errors.New("missing"))
	}
	return in, err
}

// openThere opens those of files that are there, and returns the others. The caller closes them.
func (t *table) openThere(ctx context.Context, files []*dataFile) (in *inputs, gone []*dataFile, err error) {
	in = &inputs{}
	for _, p := range files {
		o, err := t.store.Open(ctx, p.name)
		if isMissing(err) {
			gone = append(gone, p)
			continue
		}
		if err != nil {
			in.close()
			return nil, nil, err
		}
		in.files, in.objects = append(in.files, p), append(in.objects, o)
		in.sources = append(in.sources, parquetfile.Source{In: o, Bytes: p.bytes, Rows: p.rows})
	}
	return in, gone, nil
}

func (in *inputs) close() {
	for _, o := range in.objects {
		_ = o.Close()
	}
}

// readRows is parquetfile.ReadRows of a file of the table. A missing one is damaged.
func (t *Table[T]) readRows(
	ctx context.Context, f *dataFile, sel *parquetfile.Selection[T], damaged func(error), yield func([]T) error,
) error {
	o, err := t.store.Open(ctx, f.name)
	if isMissing(err) {
		damaged(err)
		return nil
	}
	if err != nil {
		return err
	}
	defer o.Close()
	return parquetfile.ReadRows(ctx, o, f.bytes, sel, damaged, yield)
}

// blame notes which file an error is about, if it is about one.
func (t *table) blame(ctx context.Context, in *inputs, err error) error {
	if source, ok := errors.AsType[*parquetfile.SourceError](err); ok {
		return t.unreadableFile(ctx, in.files[source.Source], source.Err)
	}
	return err
}

// copyGroups makes one file of others whose row groups are large, and follow one another in the first column that rows
// are sorted by: it copies the row groups as they are. By the other columns, rows are sorted inside of each row group
// only, so the file does not say that it is sorted; a merge of such a file still sorts by the first one. It answers nil
// where that cannot be. Nothing is committed.
func (t *Table[T]) copyGroups(ctx context.Context, files []*dataFile, job *throttle.Job) (made []*dataFile, err error) {
	if t.schema.Fold != nil || !largeGroups(files, t.fileBytes) {
		return nil, nil
	}
	in, err := t.openFiles(ctx, files)
	if err != nil {
		return nil, err
	}
	defer in.close()
	plan, err := t.schema.file.PlanCopy(ctx, in.sources, t.schema.Order[0])
	if plan == nil || err != nil {
		return nil, t.blame(ctx, in, err)
	}
	made, err = t.makeFile(ctx, files[0].day, parquetfile.PackedPage, job, nil, func(w *parquetfile.Writer[T]) error {
		return t.blame(ctx, in, w.CopyGroups(ctx, plan))
	})
	for _, f := range made {
		f.unsorted = true
	}
	return made, err
}

// largeGroups says whether row groups are large enough to stay as they are: each costs readers a look at every column.
func largeGroups(files []*dataFile, fileBytes int64) bool {
	size, groups := int64(0), int64(0)
	for _, p := range files {
		size += p.bytes
		groups += int64(len(p.splits))
	}
	return groups > 0 && size/groups >= fileBytes/groupsPerFile
}

// groupsPerFile is how many row groups a file of full size may have: 2 MiB each, or 20,000 usual events.
const groupsPerFile = 96

// mergeSorted makes one file of sorted ones, by columns where it can. Nothing is committed.
func (t *Table[T]) mergeSorted(
	ctx context.Context, files []*dataFile, page int, job *throttle.Job,
) (made []*dataFile, err error) {
	if t.schema.Fold == nil {
		made, err = t.mergeColumns(ctx, files, page, job)
	}
	if made == nil && err == nil {
		made, err = t.rewrite(ctx, files, page, nil, job)
	}
	return made, err
}

// mergeColumns answers nil where files have to be merged by rows.
func (t *Table[T]) mergeColumns(
	ctx context.Context, files []*dataFile, page int, job *throttle.Job,
) ([]*dataFile, error) {
	in, err := t.openFiles(ctx, files)
	if err != nil {
		return nil, err
	}
	defer in.close()
	m, err := t.schema.file.OpenMerge(ctx, in.sources, t.schema.Order, t.schema.Compare, job)
	if m == nil || err != nil {
		return nil, t.blame(ctx, in, err)
	}
	defer m.Close()
	return t.makeSorted(ctx, files, page, job, func(w *parquetfile.Writer[T]) error {
		return t.blame(ctx, in, m.Write(ctx, w))
	})
}

// makeSorted is makeFile for rows of files. What comes out is as sorted as they are.
func (t *Table[T]) makeSorted(
	ctx context.Context, files []*dataFile, page int, job *throttle.Job, write func(w *parquetfile.Writer[T]) error,
) ([]*dataFile, error) {
	made, err := t.makeFile(ctx, files[0].day, page, job, nil, write)
	for _, f := range made {
		f.unsorted = slices.ContainsFunc(files, func(p *dataFile) bool { return p.unsorted })
	}
	return made, err
}

// mergeRows hands all rows of sorted files to yield, in order, valid until it returns; its error ends the merge.
func (t *Table[T]) mergeRows(ctx context.Context, files []*dataFile, yield func(*T) error) error {
	in, err := t.openFiles(ctx, files)
	if err != nil {
		return err
	}
	defer in.close()
	err = parquetfile.MergeRows(ctx, in.sources, t.schema.Columns, t.schema.Compare, nil, yield)
	return t.blame(ctx, in, err)
}

// rewrite merges sorted files into new ones, leaving out the rows drop chooses. Nothing is committed.
func (t *Table[T]) rewrite(
	ctx context.Context, files []*dataFile, page int, drop func(*T) bool, job *throttle.Job,
) ([]*dataFile, error) {
	return t.makeSorted(ctx, files, page, job, func(w *parquetfile.Writer[T]) error {
		return t.mergeRows(ctx, files, func(row *T) error {
			if drop != nil && drop(row) {
				return nil
			}
			if t.schema.Fold != nil {
				if last := w.Last(); last != nil && t.schema.Fold(last, row) {
					return nil
				}
			}
			return w.Add(ctx, row)
		})
	})
}
