package parquetfile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/parquet-go/parquet-go"
)

// Input is a file to be read.
type Input interface {
	io.ReaderAt
	Size() int64
}

// readRows is how many rows are read at a time: enough to share the cost of a call, few enough to stay in cache.
const readRows = 256

// Selection is which rows of a file somebody wants: those that pass every stage. A stage, and then the rest of the
// columns, is read only where rows are left, so the cheapest and most selective one comes first.
type Selection[T any] struct {
	Stages []Stage[T]
	Rest   []Column[T]
	Equal  []Equal // row groups whose bounds exclude one are passed over
}

// Stage is what a row must meet, and the columns that it takes to know.
type Stage[T any] struct {
	Columns []Column[T]
	Match   func(row *T) bool // on what the columns up to here have set
}

// Equal is the value that a column of bytes must have.
type Equal struct {
	Column string
	Value  []byte
}

// Reads says whether a stage reads a column.
func (s *Selection[T]) Reads(name string) bool {
	return slices.ContainsFunc(s.Stages, func(st Stage[T]) bool {
		return slices.ContainsFunc(st.Columns, func(c Column[T]) bool { return c.Name == name })
	})
}

// ReadRows hands the chosen rows of a file of so many bytes to yield, in order, some at a time; they are valid until it
// returns. Its error ends the reading. A row group that cannot be read is left out, counted by damaged, and the next
// one is tried. What ctx has cut off is not damaged.
func ReadRows[T any](
	ctx context.Context, in Input, size int64, sel *Selection[T], damaged func(error), yield func(rows []T) error,
) error {
	file, err := open(in, size)
	if err != nil && ctx.Err() == nil {
		damaged(err)
	}
	if err != nil {
		return ctx.Err()
	}
	r := &rowReader[T]{sel: sel, rows: make([]T, readRows), keep: make([]int, readRows)}
	for _, g := range file.RowGroups() {
		if slices.ContainsFunc(sel.Equal, func(e Equal) bool { return !e.may(g) }) {
			continue
		}
		err := r.group(g, yield)
		if r.stop != nil {
			return r.stop
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			damaged(err)
		}
	}
	return nil
}

// open reads the footer of a file of so many bytes, and verifies it.
func open(in Input, size int64) (f *parquet.File, err error) {
	defer recovered(&err)
	if in.Size() != size {
		return nil, fmt.Errorf("%d bytes long instead of %d", in.Size(), size)
	}
	// The buffer is for page headers, one for each column; pages are read straight into their place.
	f, err = parquet.OpenFile(in, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true),
		parquet.ReadBufferSize(8<<10))
	if err != nil {
		return f, err
	}
	return f, verify(f, in)
}

// recovered turns the panic of a decoder that was given damaged bytes into an error. It keeps no value of it: a
// panic's text could quote what was being decoded.
func recovered(err *error) {
	if r := recover(); r != nil {
		*err = errors.New("decoder gave up")
	}
}

// may says whether a row group can hold the value, by what the footer says of it.
func (e *Equal) may(g parquet.RowGroup) bool {
	leaf, found := g.Schema().Lookup(e.Column)
	if !found {
		return true
	}
	chunk, isFile := g.ColumnChunks()[leaf.ColumnIndex].(*parquet.FileColumnChunk)
	if !isFile {
		return true
	}
	least, greatest, ok := chunk.Bounds()
	return !ok || bytes.Compare(e.Value, least.Bytes()) >= 0 && bytes.Compare(e.Value, greatest.Bytes()) <= 0
}

// rowReader reads row groups of one file. Every column has a cursor of its own; it follows only to where it is read.
type rowReader[T any] struct {
	sel  *Selection[T]
	rows []T
	keep []int // which of rows are wanted
	stop error // of yield, as opposed to one of the file
}

func (r *rowReader[T]) group(g parquet.RowGroup, yield func([]T) error) error {
	var steps [][]*cursor[T] // one for each stage, then the rest
	defer func() {
		for _, cursors := range steps {
			closeCursors(cursors)
		}
	}()
	for i := range len(r.sel.Stages) + 1 {
		columns := r.sel.Rest
		if i < len(r.sel.Stages) {
			columns = r.sel.Stages[i].Columns
		}
		cursors, err := openCursors(g, columns)
		steps = append(steps, cursors)
		if err != nil {
			return err
		}
	}
	total := g.NumRows()
	for at := int64(0); at < total; at += readRows {
		rows, err := r.chunk(steps, at, r.rows[:min(readRows, total-at)])
		if err != nil {
			return err
		}
		if len(rows) > 0 {
			if r.stop = yield(rows); r.stop != nil {
				return r.stop
			}
		}
	}
	for _, cursors := range steps {
		if err := r.exhausted(cursors, total); err != nil {
			return err
		}
	}
	return nil
}

// chunk reads rows from row at of the group on, and returns those that are wanted.
func (r *rowReader[T]) chunk(steps [][]*cursor[T], at int64, rows []T) ([]T, error) {
	keep := r.keep[:len(rows)]
	for i := range keep {
		keep[i] = i
	}
	for i, stage := range r.sel.Stages {
		if err := r.fill(steps[i], at, rows); err != nil {
			return nil, err
		}
		left := 0
		for _, k := range keep {
			if stage.Match(&rows[k]) {
				keep[left] = k
				left++
			}
		}
		if keep = keep[:left]; left == 0 {
			return nil, nil
		}
	}
	if err := r.fill(steps[len(steps)-1], at, rows); err != nil {
		return nil, err
	}
	for to, from := range keep {
		if to != from {
			rows[to] = rows[from]
		}
	}
	return rows[:len(keep)], nil
}

// exhausted says whether columns end with the group: if one does not, a damaged page header may have shifted it.
func (r *rowReader[T]) exhausted(cursors []*cursor[T], total int64) (err error) {
	defer recovered(&err)
	for _, c := range cursors {
		if c.row != total {
			continue // it was not read to the end
		}
		if c.left > 0 || !errors.Is(c.next(), io.ErrUnexpectedEOF) {
			return fmt.Errorf("column %s is longer than its row group", c.Name)
		}
	}
	return nil
}

func (r *rowReader[T]) fill(cursors []*cursor[T], at int64, rows []T) (err error) {
	defer recovered(&err)
	for _, c := range cursors {
		if err := c.read(at, rows); err != nil {
			return fmt.Errorf("column %s: %w", c.Name, err)
		}
	}
	return nil
}
