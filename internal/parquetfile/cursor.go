package parquetfile

import (
	"errors"
	"io"
	"sort"

	"github.com/parquet-go/parquet-go"
)

// cursor walks through one column of a row group.
type cursor[T any] struct {
	Column[T]
	columnPages
	chunk parquet.ColumnChunk
	row   int64      // of the row group, the next to come
	lists pageValues // the elements of lists, in place of those of a page
}

func openCursors[T any](g parquet.RowGroup, columns []Column[T]) (out []*cursor[T], err error) {
	defer recovered(&err)
	schema, chunks := g.Schema(), g.ColumnChunks()
	for _, c := range columns {
		leaf, ok := schema.Lookup(c.path()...)
		if !ok {
			continue // written before there was such a column: it stays empty
		}
		chunk := chunks[leaf.ColumnIndex]
		pages := columnPages{
			pages: chunk.Pages(), physical: kinds[c.Type].leaf.physical, maxDef: byte(leaf.MaxDefinitionLevel),
		}
		out = append(out, &cursor[T]{Column: c, columnPages: pages, chunk: chunk})
	}
	return out, nil
}

func closeCursors[T any](list []*cursor[T]) {
	for _, c := range list {
		_ = c.close()
	}
}

// read sets the column's member of rows, the first of which is row at of the group.
func (c *cursor[T]) read(at int64, rows []T) error {
	if err := c.seek(at); err != nil {
		return err
	}
	for len(rows) > 0 {
		places, values, err := c.take(len(rows))
		if err != nil {
			return err
		}
		c.load(rows[:len(places)], places, values)
		rows = rows[len(places):]
	}
	return nil
}

// seek goes on to a row of the group. Without an index of pages it walks there.
func (c *cursor[T]) seek(at int64) error {
	if at == c.row {
		return nil
	}
	index, err := c.chunk.OffsetIndex()
	switch {
	case err == nil:
		page := sort.Search(index.NumPages(), func(i int) bool { return index.FirstRowIndex(i) > at }) - 1
		if first := index.FirstRowIndex(page); first > c.row {
			c.drop()
			if err := c.pages.SeekToRow(first); err != nil {
				return err
			}
			c.row = first
		}
	case !errors.Is(err, parquet.ErrMissingOffsetIndex):
		return err
	}
	for c.row < at {
		if _, _, err := c.take(int(min(at-c.row, readRows))); err != nil {
			return err
		}
	}
	return nil
}

// take goes on by some rows, at least one and at most n. It returns the place of each row's value among values, -1 for
// null; of a list, up to where the elements before its end are. All of it is valid until the next call.
func (c *cursor[T]) take(n int) (places []int32, values *pageValues, err error) {
	if c.Element != 0 {
		places, err = c.takeLists(n)
		values = &c.lists
	} else {
		for c.left == 0 && err == nil {
			err = c.next()
		}
		from := c.at
		places, values = c.places(min(n, c.left)), &c.values
		if c.Type == TypeText {
			c.spell(from)
		}
	}
	c.row += int64(len(places))
	return places, values, err
}

// takeLists reads until the row after n others begins: a page of another program may end inside of a row.
func (c *cursor[T]) takeLists(n int) (ends []int32, err error) {
	ends = c.memory[:0]
	c.lists.int32s = nil // rows keep it
	for {
		if len(c.reps) == 0 {
			err := c.next()
			if errors.Is(err, io.ErrUnexpectedEOF) && len(ends) == n {
				break
			}
			if err != nil {
				return nil, err
			}
			continue
		}
		if c.reps[0] == 0 {
			if len(ends) == n {
				break
			}
			ends = append(ends, int32(len(c.lists.int32s)))
			c.left--
		}
		if place := c.place(); place >= 0 {
			c.lists.int32s = append(c.lists.int32s, c.values.int32s[place])
			ends[len(ends)-1]++
		}
		c.reps = c.reps[1:]
	}
	c.memory = ends
	return ends, nil
}
