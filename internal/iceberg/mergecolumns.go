package iceberg

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"

	"sluice/internal/objectstore"
	"sluice/internal/throttle"
)

// columnMerge makes one file of sorted files, column by column: it reads the columns that rows are sorted by to learn which
// file each row comes from, and then copies the values of every column in that order. No row is made.
type columnMerge[T any] struct {
	t       *Table[T]
	files   []*dataFile
	objects []objectstore.Object
	sources [][]source // by file and column
	order   merger[T]
	runs    []run  // of the row group that is being written
	pages   []byte // memory for those of a column
	w       *fileWriter[T]
	job     *throttle.Job
}

// run is rows that come from the same file, one after the other.
type run struct{ file, rows int }

const (
	// copyRows is how many rows a column gets before its size is looked at: few beside a page.
	copyRows = 1024
	// mergeRows bounds a run, so that a pause comes in time.
	mergeRows = 4096
)

// openColumns begins a merge of columns. It answers nil where the files have to be merged by rows: those of earlier versions or
// other programs, and tables whose rows are folded.
func (t *Table[T]) openColumns(files []*dataFile, job *throttle.Job) (*columnMerge[T], error) {
	if t.schema.Fold != nil {
		return nil, nil
	}
	m := &columnMerge[T]{t: t, files: files, job: job, order: merger[T]{compare: t.schema.Compare}}
	sorted, _ := split(t.schema.Columns, t.schema.Order)
	for _, p := range files {
		o, err := t.openFile(p)
		if err != nil {
			m.close()
			return nil, err
		}
		m.objects = append(m.objects, o)
		f, err := openParquet(p, o)
		if err != nil {
			m.close()
			return nil, t.unreadableFile(p, err)
		}
		if !t.schema.wrote(f) {
			m.close()
			return nil, nil
		}
		list := make([]source, len(t.schema.Columns))
		for i := range list {
			list[i] = source{name: t.schema.Columns[i].name, leaf: i, groups: f.RowGroups()}
		}
		m.sources = append(m.sources, list)
		if err := m.order.open(t, p, o, sorted); err != nil {
			m.close()
			return nil, err
		}
	}
	return m, nil
}

// wrote says whether a file has the columns of the schema, as this version writes them.
func (s *Schema[T]) wrote(f *parquet.File) bool {
	have, want := f.Metadata().Schema, s.footer().Schema
	if !strings.HasPrefix(f.Metadata().CreatedBy, "sluice version "+writerVersion) || len(have) != len(want) {
		return false
	}
	for i := range want {
		a, b := have[i], want[i]
		if a.Name != b.Name || a.Type != b.Type || a.TypeLength != b.TypeLength || a.RepetitionType != b.RepetitionType ||
			a.NumChildren != b.NumChildren || a.FieldID != b.FieldID || !reflect.DeepEqual(a.LogicalType, b.LogicalType) {
			return false
		}
	}
	return true
}

func (m *columnMerge[T]) close() {
	for _, list := range m.sources {
		for i := range list {
			_ = list[i].close()
		}
	}
	m.order.close()
	for _, o := range m.objects {
		_ = o.Close()
	}
}

// write makes the new file. Nothing is committed.
func (m *columnMerge[T]) write(ctx context.Context, page int) (made []*dataFile, err error) {
	defer m.close()
	total := int64(0)
	for _, f := range m.files {
		total += f.rows
	}
	if m.w, err = createFile(m.t.store, m.t.schema, m.files[0].day, page, m.job); err != nil {
		return nil, err
	}
	per := m.groupRows(total)
	for left := total; left > 0 && err == nil; {
		n := min(left, per)
		left -= n
		err = m.group(ctx, int(n))
	}
	if err == nil {
		err = m.exhausted()
	}
	if err != nil {
		m.w.abandon()
		return nil, err
	}
	m.w.listed.unsorted = anyUnsorted(m.files)
	f, err := m.w.finish(ctx, nil)
	return []*dataFile{f}, err
}

// groupRows is how many rows a row group has, so that it stays within its bytes.
func (m *columnMerge[T]) groupRows(total int64) int64 {
	size := int64(0)
	for _, f := range m.files {
		size += f.bytes
	}
	return max(writeRows, min(rowsPerGroup, groupBytes*total/max(size, 1)))
}

// group writes a row group, one column after the other. All of them use the same memory for their pages.
func (m *columnMerge[T]) group(ctx context.Context, rows int) error {
	if err := m.plan(ctx, rows); err != nil {
		return err
	}
	group, err := m.w.beginGroup()
	if err != nil {
		return err
	}
	for i := range m.w.chunks {
		c := &m.w.chunks[i]
		c.pages, m.pages = m.pages, nil
		if err := m.column(ctx, i); err != nil {
			return err
		}
		if err := m.w.endColumn(group, i); err != nil {
			return err
		}
		c.pages, m.pages = nil, c.pages
	}
	m.w.closeGroup(group, rows)
	return nil
}

// plan finds out from which files the next rows come.
func (m *columnMerge[T]) plan(ctx context.Context, rows int) error {
	m.runs = m.runs[:0]
	for n := range rows {
		row, err := m.order.next()
		if err != nil {
			return err
		}
		if row == nil {
			return fmt.Errorf("%w: files have fewer rows than the manifest lists", errUnreadable)
		}
		if n%mergeRows == 0 {
			if err := m.job.Pause(ctx); err != nil {
				return err
			}
		}
		file := m.order.heads[0].file
		if last := len(m.runs) - 1; last >= 0 && m.runs[last].file == file && m.runs[last].rows < copyRows {
			m.runs[last].rows++
			continue
		}
		m.runs = append(m.runs, run{file, 1})
	}
	return nil
}

// column copies the rows of a row group, of one column.
func (m *columnMerge[T]) column(ctx context.Context, i int) error {
	c := &m.w.chunks[i]
	rows, since := 0, 0
	for k, r := range m.runs {
		if err := m.sources[r.file][i].copy(c, r.rows); err != nil {
			return m.t.unreadableFile(m.files[r.file], err)
		}
		if rows += r.rows; rows < copyRows && k < len(m.runs)-1 {
			continue
		}
		if err := c.end(rows); err != nil {
			return err
		}
		if since += rows; since >= mergeRows {
			since = 0
			if err := m.job.Pause(ctx); err != nil {
				return err
			}
		}
		rows = 0
	}
	return nil
}

// exhausted says whether every file was read to its end.
func (m *columnMerge[T]) exhausted() error {
	row, err := m.order.next()
	if err == nil && row != nil {
		err = fmt.Errorf("%w: files have more rows than the manifest lists", errUnreadable)
	}
	for f, list := range m.sources {
		for i := range list {
			if e := list[i].exhausted(); e != nil {
				err = errors.Join(err, m.t.unreadableFile(m.files[f], e))
			}
		}
	}
	return err
}

// unreadableFile notes that a file cannot be read to its end, and why.
func (t *table) unreadableFile(p *dataFile, why error) error {
	t.markUnreadable(p.name)
	return fmt.Errorf("%w: %s: %w", errUnreadable, p.name, why)
}

// openFile opens a file of the table.
func (t *table) openFile(p *dataFile) (objectstore.Object, error) {
	o, err := t.store.Open(p.name)
	if isMissing(err) {
		return nil, t.unreadableFile(p, errors.New("missing"))
	}
	return o, err
}

// mergeSorted makes one file of sorted ones, by columns where it can. Nothing is committed.
func (t *Table[T]) mergeSorted(ctx context.Context, files []*dataFile, page int, job *throttle.Job) ([]*dataFile, error) {
	m, err := t.openColumns(slices.Clone(files), job)
	if err != nil {
		return nil, err
	}
	if m == nil {
		return t.rewrite(ctx, files, page, nil, job)
	}
	return m.write(ctx, page)
}
