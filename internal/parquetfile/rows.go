package parquetfile

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/parquet-go/parquet-go/format"

	"sluice/internal/throttle"
)

// Rows are rows on their way into a file, taken apart into columns as they come. They hold no pointer into the rows,
// nothing for the garbage collector to follow, and less memory than rows. One goroutine uses them.
type Rows[T any] struct {
	schema  *Schema[T]
	columns []chunk // each one page that does not end
}

// NewRows returns an empty collection.
func (s *Schema[T]) NewRows() *Rows[T] {
	r := &Rows[T]{schema: s, columns: make([]chunk, len(s.columns))}
	for i := range s.columns {
		r.columns[i].leafType = s.columns[i].leaf()
	}
	r.Reset()
	return r
}

// Reset forgets the rows and keeps the memory, unless that was for unusually long rows.
func (r *Rows[T]) Reset() {
	for i := range r.columns {
		if c := &r.columns[i]; cap(c.plain) > largeColumn {
			c.plain = nil
		}
		r.columns[i].begin()
	}
}

// largeColumn is the most memory that a column keeps for the next rows: 64,000 values of 64 bytes.
const largeColumn = 4 << 20

// Len is how many rows there are.
func (r *Rows[T]) Len() int { return r.columns[0].rows }

// Add adds rows. It keeps nothing of them.
func (r *Rows[T]) Add(rows []T) {
	for some := range slices.Chunk(rows, writeRows) {
		for i := range r.columns {
			c := &r.columns[i]
			r.schema.columns[i].put(c, some)
			c.rows += len(some)
			if c.useDict && len(c.values.data) > dictionaryBytes {
				c.spellOut()
			}
		}
	}
}

// groupRows is how many rows a row group has, so that it stays within its bytes. Compressed, columns shrink to a
// quarter or less where they are long.
func (r *Rows[T]) groupRows() int {
	size := 1
	for i := range r.columns {
		size += r.columns[i].size()
	}
	return max(writeRows, min(rowsPerGroup, 4*groupBytes*r.Len()/size))
}

// WriteRows writes some rows of r: those at these places, in this order.
func (w *Writer[T]) WriteRows(ctx context.Context, r *Rows[T], places []int32) error {
	for group := range slices.Chunk(places, r.groupRows()) {
		if err := w.fillGroup(ctx, r, group); err != nil {
			return err
		}
		w.group = len(group)
		if err := w.endGroup(); err != nil {
			return err
		}
	}
	return nil
}

// fillGroup fills the chunks of a row group. A job that is in a hurry, because there is a backlog, encodes columns side
// by side; else one processor stays free for requests.
func (w *Writer[T]) fillGroup(ctx context.Context, r *Rows[T], places []int32) error {
	var next atomic.Int64
	work := func(job *throttle.Job) error {
		var at []int32
		for {
			i := int(next.Add(1)) - 1
			if i >= len(w.chunks) {
				return nil
			}
			from := &r.columns[i]
			at = from.locate(at)
			if err := w.chunks[i].appendRows(ctx, from, at, places, job); err != nil {
				return fmt.Errorf("column %s: %w", w.schema.columns[i].Name, err)
			}
		}
	}
	if w.job.Sleeps() || len(places) < copyRows {
		return work(w.job)
	}
	var wg sync.WaitGroup
	var other error
	wg.Go(func() { other = work(nil) }) // no more: zstd encodes two pages at a time
	err := work(nil)
	wg.Wait()
	return errors.Join(err, other)
}

// locate finds the values of all rows: for each the number of its value, or for texts that are not in a dictionary the
// place in plain, or for lists that of its first level; -1 where there is none. A column that has every value or none
// needs no places.
func (c *chunk) locate(at []int32) []int32 {
	at = at[:0]
	if c.maxRep > 0 {
		for i, rep := range c.reps {
			if rep == 0 {
				at = append(at, int32(i))
			}
		}
		return append(at, int32(len(c.reps)))
	}
	spelled := c.width == 0 && !c.useDict
	if _, nulls := c.count(); nulls == c.rows || nulls == 0 && !spelled {
		return at
	}
	next := int32(0)
	for i := range c.rows {
		if c.maxDef > 0 && c.defs[i] == 0 {
			at = append(at, -1)
			continue
		}
		at = append(at, next)
		if spelled {
			next += 4 + int32(binary.LittleEndian.Uint32(c.plain[next:]))
		} else {
			next++
		}
	}
	return at
}

// appendRows adds these rows of another chunk, in this order. at is where it has its values: see locate. Both use the
// same dictionary until the row group ends.
func (c *chunk) appendRows(ctx context.Context, from *chunk, at, rows []int32, job *throttle.Job) error {
	c.useDict, c.values = from.useDict, from.values
	var elements []int32 // of lists: for each level the number of its value
	if c.maxRep > 0 {
		elements = from.elements()
	}
	for some := range slices.Chunk(rows, copyRows) {
		switch {
		case c.maxRep > 0:
			c.appendLists(from, at, elements, some)
		case len(at) == 0:
			c.appendAlike(from, some)
		default:
			c.appendValues(from, c.appendLevels(at, some))
		}
		c.rows += len(some)
		if c.size() >= c.pageBytes {
			if err := c.endPage(); err != nil {
				return err
			}
		}
		if err := job.Pause(ctx); err != nil {
			return err
		}
	}
	return c.endPage()
}

// appendAlike adds rows which all have a value, or none has.
func (c *chunk) appendAlike(from *chunk, rows []int32) {
	if c.maxDef > 0 {
		c.defs = append(c.defs, from.defs[:len(rows)]...)
		if from.defs[0] == 0 {
			return
		}
	}
	c.appendValues(from, rows)
}

// appendLevels adds the levels of rows, and returns the places of those that have a value.
func (c *chunk) appendLevels(at, rows []int32) []int32 {
	c.scratch = c.scratch[:0]
	for _, row := range rows {
		place := at[row]
		if place >= 0 {
			c.scratch = append(c.scratch, place)
		}
		if c.maxDef > 0 {
			c.defs = append(c.defs, byte(1+place>>31)) // 0 where there is none
		}
	}
	return c.scratch
}

// appendValues adds the values at these places.
func (c *chunk) appendValues(from *chunk, places []int32) {
	switch {
	case c.useDict:
		for _, i := range places {
			c.numbers = append(c.numbers, from.numbers[i])
		}
	case c.encoding == format.DeltaBinaryPacked:
		for _, i := range places {
			c.integers = append(c.integers, from.integers[i])
		}
	case c.width == 1:
		for _, i := range places {
			c.plain = append(c.plain, from.plain[i])
		}
	case c.width > 0:
		for _, i := range places {
			c.plain = append(c.plain, from.plain[int(i)*c.width:(int(i)+1)*c.width]...)
		}
	default:
		for _, i := range places {
			end := i + 4 + int32(binary.LittleEndian.Uint32(from.plain[i:]))
			c.plain = append(c.plain, from.plain[i:end]...)
		}
	}
}

// elements are the numbers of the values at all levels of a column of lists.
func (c *chunk) elements() []int32 {
	c.scratch = c.scratch[:0]
	n := int32(0)
	for _, def := range c.defs {
		c.scratch = append(c.scratch, n)
		if def == c.maxDef {
			n++
		}
	}
	return c.scratch
}

func (c *chunk) appendLists(from *chunk, at, elements, rows []int32) {
	for _, row := range rows {
		begin, end := at[row], at[row+1]
		c.reps, c.defs = append(c.reps, from.reps[begin:end]...), append(c.defs, from.defs[begin:end]...)
		if from.defs[begin] == c.maxDef {
			c.appendValues(from, span(&c.scratch, elements[begin], end-begin))
		}
	}
}

// span is n numbers from one on.
func span(memory *[]int32, from, n int32) []int32 {
	*memory = (*memory)[:0]
	for i := range n {
		*memory = append(*memory, from+i)
	}
	return *memory
}
