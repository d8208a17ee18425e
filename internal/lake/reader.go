package lake

import (
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"
)

// readRows is how many rows are read at a time: enough to share the cost of a call, few enough to stay in cache.
const readRows = 1024

// selection is which rows of a part somebody wants.
type selection[T any] struct {
	filter []column[T]         // read first
	match  func(row *T) bool   // on what filter has set; nil takes every row
	rest   []column[T]         // read where rows match
	skip   func(g *group) bool // row groups that cannot hold a match; nil reads all
}

// group is what the footer of a part says of one row group.
type group struct {
	rows  int64
	bound func(column string) (least, greatest parquet.Value, ok bool)
}

// readRowsOf hands the chosen rows of a part to yield, in order, some at a time; they are valid until it returns.
// A row group that cannot be read is left out, counted by damaged, and the next one is tried.
func readRowsOf[T any](
	p *part, o object, sel *selection[T], damaged func(error), yield func(rows []T) error,
) error {
	file, err := openParquet(p, o)
	if err != nil {
		damaged(err)
		return nil
	}
	r := &rowReader[T]{sel: sel, rows: make([]T, readRows), values: make([]parquet.Value, readRows)}
	for _, g := range file.RowGroups() {
		if sel.skip != nil && sel.skip(describe(g)) {
			continue
		}
		err := r.group(g, yield)
		if stop, ok := errors.AsType[*stopError](err); ok {
			return stop.err
		}
		if err != nil {
			damaged(err)
		}
	}
	return nil
}

// stopError is an error of yield, as opposed to one of the file.
type stopError struct{ err error }

func (e *stopError) Error() string { return e.err.Error() }

func openParquet(p *part, o object) (f *parquet.File, err error) {
	defer recovered(&err)
	if err := p.verify(o); err != nil {
		return nil, err
	}
	return parquet.OpenFile(o, o.Size(), parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true), parquet.ReadBufferSize(64<<10))
}

// recovered turns the panic of a decoder that was given damaged bytes into an error. It keeps no value of it: a
// panic's text could quote what was being decoded.
func recovered(err *error) {
	if r := recover(); r != nil {
		*err = errors.New("decoder gave up")
	}
}

func describe(g parquet.RowGroup) *group {
	chunks, schema := g.ColumnChunks(), g.Schema()
	return &group{rows: g.NumRows(), bound: func(name string) (least, greatest parquet.Value, ok bool) {
		leaf, found := schema.Lookup(name)
		if !found {
			return least, greatest, false
		}
		chunk, isFile := chunks[leaf.ColumnIndex].(*parquet.FileColumnChunk)
		if !isFile {
			return least, greatest, false
		}
		return chunk.Bounds()
	}}
}

// rowReader reads row groups of one part. Every column has a cursor of its own; those of the rest follow only
// where the filter has found something.
type rowReader[T any] struct {
	sel    *selection[T]
	rows   []T
	values []parquet.Value
}

func (r *rowReader[T]) group(g parquet.RowGroup, yield func([]T) error) error {
	filter, err := openCursors(g, r.sel.filter)
	defer closeCursors(filter)
	if err != nil {
		return err
	}
	rest, err := openCursors(g, r.sel.rest)
	defer closeCursors(rest)
	if err != nil {
		return err
	}
	total := g.NumRows()
	for at := int64(0); at < total; {
		n := int(min(readRows, total-at))
		rows := r.rows[:n]
		if err := r.fill(filter, at, rows); err != nil {
			return err
		}
		keep := r.matching(rows)
		if len(keep) > 0 || r.sel.match == nil {
			if err := r.fill(rest, at, rows); err != nil {
				return err
			}
			if err := yield(r.compact(rows, keep)); err != nil {
				return &stopError{err}
			}
		}
		at += int64(n)
	}
	if err := r.exhausted(filter, total); err != nil {
		return err
	}
	return r.exhausted(rest, total)
}

// exhausted says whether columns end with the group: if one does not, a damaged page header may have shifted it.
func (r *rowReader[T]) exhausted(cursors []*cursor[T], total int64) (err error) {
	defer recovered(&err)
	for _, c := range cursors {
		if c.row != total {
			continue // it was not read to the end
		}
		if _, err := c.next(r.values[:1]); !errors.Is(err, io.ErrUnexpectedEOF) || len(c.ahead) > 0 {
			return fmt.Errorf("column %s is longer than its row group", c.name)
		}
	}
	return nil
}

func (r *rowReader[T]) matching(rows []T) (keep []int) {
	if r.sel.match == nil {
		return nil
	}
	for i := range rows {
		if r.sel.match(&rows[i]) {
			keep = append(keep, i)
		}
	}
	return keep
}

func (r *rowReader[T]) compact(rows []T, keep []int) []T {
	if r.sel.match == nil {
		return rows
	}
	for to, from := range keep {
		rows[to] = rows[from]
	}
	return rows[:len(keep)]
}

func (r *rowReader[T]) fill(cursors []*cursor[T], at int64, rows []T) (err error) {
	defer recovered(&err)
	for _, c := range cursors {
		if err := c.read(at, rows, r.values); err != nil {
			return fmt.Errorf("column %s: %w", c.name, err)
		}
	}
	return nil
}

// cursor walks through one column of a row group.
type cursor[T any] struct {
	column[T]
	chunk parquet.ColumnChunk
	pages parquet.Pages
	page  parquet.Page
	in    parquet.ValueReader
	row   int64           // of the row group, the next to come
	ahead []parquet.Value // of a list: values of the row that begins next
}

func openCursors[T any](g parquet.RowGroup, columns []column[T]) (out []*cursor[T], err error) {
	defer recovered(&err)
	schema, chunks := g.Schema(), g.ColumnChunks()
	for _, c := range columns {
		path := []string{c.name}
		if c.list {
			path = []string{c.name, "list", "element"}
		}
		leaf, ok := schema.Lookup(path...)
		if !ok {
			continue // written before there was such a column: it stays empty
		}
		chunk := chunks[leaf.ColumnIndex]
		out = append(out, &cursor[T]{column: c, chunk: chunk, pages: chunk.Pages()})
	}
	return out, nil
}

func closeCursors[T any](list []*cursor[T]) {
	for _, c := range list {
		c.drop()
		_ = c.pages.Close()
	}
}

func (c *cursor[T]) drop() {
	if c.page != nil {
		parquet.Release(c.page)
		c.page, c.in = nil, nil
	}
}

// read sets the column's member of rows, the first of which is row at of the group.
func (c *cursor[T]) read(at int64, rows []T, values []parquet.Value) error {
	if at != c.row {
		if err := c.seek(at); err != nil {
			return err
		}
	}
	c.row += int64(len(rows))
	if c.list {
		return c.readLists(rows)
	}
	for len(rows) > 0 {
		n, err := c.next(values[:len(rows)])
		if err != nil {
			return err
		}
		c.set(rows[:n], values[:n])
		rows = rows[n:]
	}
	return nil
}

// readLists reads values until the row after rows begins, and keeps those for the next call.
func (c *cursor[T]) readLists(rows []T) error {
	var all []parquet.Value
	begun := 0
	buf := make([]parquet.Value, readRows)
	for {
		some := c.ahead
		c.ahead = nil
		if len(some) == 0 {
			n, err := c.next(buf)
			if errors.Is(err, io.ErrUnexpectedEOF) && begun == len(rows) {
				break // the end of the group
			}
			if err != nil {
				return err
			}
			some = buf[:n]
		}
		end := len(some)
		for i := range some {
			if some[i].RepetitionLevel() == 0 {
				if begun == len(rows) {
					end = i
					break
				}
				begun++
			}
		}
		all = append(all, some[:end]...)
		if end < len(some) {
			c.ahead = append([]parquet.Value(nil), some[end:]...)
			break
		}
	}
	c.set(rows, all)
	return nil
}

func (c *cursor[T]) seek(at int64) error {
	// Without its index a column would be walked from the start of the group.
	if _, err := c.chunk.OffsetIndex(); err != nil {
		return err
	}
	c.drop()
	c.row, c.ahead = at, nil
	return c.pages.SeekToRow(at)
}

// next reads some values, at least one.
func (c *cursor[T]) next(values []parquet.Value) (int, error) {
	for {
		if c.in == nil {
			page, err := c.pages.ReadPage()
			if errors.Is(err, io.EOF) {
				return 0, io.ErrUnexpectedEOF
			}
			if err != nil {
				return 0, err
			}
			c.page, c.in = page, page.Values()
		}
		n, err := c.in.ReadValues(values)
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		if n > 0 {
			return n, nil
		}
		c.drop()
	}
}
