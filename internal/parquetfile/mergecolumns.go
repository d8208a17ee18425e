package parquetfile

import (
	"context"
	"errors"

	"sluice/internal/throttle"
)

// Merge makes one file of sorted files, column by column: it reads the columns that rows are sorted by to learn which
// file each row comes from, and then copies the values of every column in that order. No row is made. One goroutine
// uses it.
type Merge[T any] struct {
	files   []Source
	sources [][]source // by file and column
	sorted  merger[T]
	runs    []run  // of the row group that is being written
	pages   []byte // memory for those of a column
	w       *Writer[T]
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

// OpenMerge begins a merge of files that are sorted by some columns, which is a part of job. It answers nil where the
// files have to be merged by rows: those of other programs or with other columns. A *SourceError says which file cannot
// be read. The caller ends it with Close; the files stay open until then.
func (s *Schema[T]) OpenMerge(
	ctx context.Context, files []Source, by []string, compare func(a, b *T) int, job *throttle.Job,
) (*Merge[T], error) {
	m := &Merge[T]{files: files, job: job, sorted: merger[T]{compare: compare}}
	columns := Named(s.columns, by)
	for i := range files {
		f, err := open(files[i].In, files[i].Bytes)
		if err != nil {
			m.Close()
			return nil, sourceError(ctx, i, err)
		}
		if !s.wrote(f) {
			m.Close()
			return nil, nil
		}
		list := make([]source, len(s.columns))
		for k := range list {
			list[k] = source{name: s.columns[k].Name, leaf: k, groups: f.RowGroups()}
		}
		m.sources = append(m.sources, list)
		if err := m.sorted.open(ctx, &files[i], columns); err != nil {
			m.Close()
			return nil, err
		}
	}
	return m, nil
}

// Close ends the merge.
func (m *Merge[T]) Close() {
	for _, list := range m.sources {
		for i := range list {
			_ = list[i].close()
		}
	}
	m.sorted.close()
}

// Write writes all rows to w, which has no rows yet. A *SourceError says which file cannot be read.
func (m *Merge[T]) Write(ctx context.Context, w *Writer[T]) error {
	m.w = w
	rows, size := int64(0), int64(0)
	for i := range m.files {
		rows += m.files[i].Rows
		size += m.files[i].Bytes
	}
	// How many rows a row group has, so that it stays within its bytes.
	per := max(writeRows, min(rowsPerGroup, groupBytes*rows/max(size, 1)))
	for left := rows; left > 0; {
		n := min(left, per)
		left -= n
		if err := m.group(ctx, int(n)); err != nil {
			return err
		}
	}
	return m.exhausted(ctx)
}

// group writes a row group, one column after the other. All of them use the same memory for their pages.
func (m *Merge[T]) group(ctx context.Context, rows int) error {
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
func (m *Merge[T]) plan(ctx context.Context, rows int) error {
	m.runs = m.runs[:0]
	for n := range rows {
		row, err := m.sorted.next()
		if err != nil {
			return err
		}
		if row == nil {
			return errors.New("files have fewer rows than they should")
		}
		if n%mergeRows == 0 {
			if err := m.job.Pause(ctx); err != nil {
				return err
			}
		}
		file := m.sorted.heads[0].file
		if last := len(m.runs) - 1; last >= 0 && m.runs[last].file == file && m.runs[last].rows < copyRows {
			m.runs[last].rows++
			continue
		}
		m.runs = append(m.runs, run{file, 1})
	}
	return nil
}

// column copies the rows of a row group, of one column.
func (m *Merge[T]) column(ctx context.Context, i int) error {
	c := &m.w.chunks[i]
	rows, since := 0, 0
	for k, r := range m.runs {
		if err := m.sources[r.file][i].copy(c, r.rows); err != nil {
			return sourceError(ctx, r.file, err)
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
func (m *Merge[T]) exhausted(ctx context.Context) error {
	row, err := m.sorted.next()
	if err == nil && row != nil {
		err = errors.New("files have more rows than they should")
	}
	for f, list := range m.sources {
		for i := range list {
			if e := list[i].exhausted(); e != nil {
				err = errors.Join(err, sourceError(ctx, f, e))
			}
		}
	}
	return err
}
