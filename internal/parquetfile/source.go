package parquetfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"unsafe"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding"
	"github.com/parquet-go/parquet-go/format"
)

// source is one column of a file that is being merged: it hands its values to the chunk of a new file, in order,
// without making rows of them. Numbers of a dictionary become numbers of the new one.
type source struct {
	name   string
	leaf   int // of the file
	groups []parquet.RowGroup

	rows  int64 // of the row group that are not read yet, those of the page not counted
	pages parquet.Pages
	page  parquet.Page

	// The page, from where it was read to. What is absent has a level and no value.
	left       int // rows
	reps, defs []byte
	at         int  // the next value
	typed      bool // values are those of this page
	values     pageValues

	dictionary sourceDictionary
}

// pageValues are the values of a page, in the one form that the page has.
type pageValues struct {
	numbers []int32 // in the dictionary
	int32s  []int32
	int64s  []int64
	floats  []float64
	data    []byte   // of a column of bytes or flags
	offsets []uint32 // in data, if values have any length
}

// sourceDictionary is the dictionary of a row group in a file.
type sourceDictionary struct {
	of     parquet.Dictionary
	values pageValues
	known  []int32 // by number here, that in the dictionary of the new row group; -1 is not known yet
	group  int     // of the new file, to which known belongs
}

// errLong says that a column does not end with its row group: a damaged page header may have shifted it.
var errLong = errors.New("longer than its row group")

// copy hands the next n rows to c.
func (s *source) copy(c *chunk, n int) (err error) {
	defer recovered(&err)
	for n > 0 {
		if s.left == 0 {
			if err := s.next(c); err != nil {
				return fmt.Errorf("column %s: %w", s.name, err)
			}
		}
		some := min(n, s.left)
		s.left -= some
		n -= some
		s.put(c, some)
	}
	return nil
}

// next opens the next page, of this row group or of the next one.
func (s *source) next(c *chunk) error {
	s.drop()
	if s.rows == 0 {
		if err := s.end(); err != nil {
			return err
		}
		if len(s.groups) == 0 {
			return io.ErrUnexpectedEOF
		}
		s.pages = s.groups[0].ColumnChunks()[s.leaf].Pages()
		s.rows, s.groups, s.dictionary.of = s.groups[0].NumRows(), s.groups[1:], nil
	}
	page, err := s.pages.ReadPage()
	if err != nil {
		return err
	}
	s.page = page
	s.left = int(page.NumRows())
	if s.left == 0 || int64(s.left) > s.rows {
		return errLong
	}
	s.rows -= int64(s.left)
	s.reps, s.defs, s.at, s.typed = page.RepetitionLevels(), page.DefinitionLevels(), 0, false
	if c.maxRep > 0 && s.reps[0] != 0 {
		return errors.New("a page that begins inside of a row")
	}
	return nil
}

// end closes a row group that is read.
func (s *source) end() error {
	if s.pages == nil {
		return nil
	}
	if _, err := s.pages.ReadPage(); !errors.Is(err, io.EOF) {
		return errLong
	}
	return s.close()
}

func (s *source) close() error {
	s.drop()
	if s.pages == nil {
		return nil
	}
	pages := s.pages
	s.pages = nil
	return pages.Close()
}

func (s *source) drop() {
	if s.page != nil {
		parquet.Release(s.page)
		s.page = nil
	}
}

// exhausted says whether the file ends where its rows do.
func (s *source) exhausted() (err error) {
	defer recovered(&err)
	if s.left > 0 || s.rows > 0 || len(s.groups) > 0 {
		return fmt.Errorf("column %s: %w", s.name, errLong)
	}
	return s.end()
}

// put hands over rows of the page.
func (s *source) put(c *chunk, rows int) {
	values := rows
	switch {
	case c.maxRep > 0:
		n := 1
		for begun := 1; n < len(s.reps); n++ {
			if s.reps[n] == 0 {
				if begun == rows {
					break
				}
				begun++
			}
		}
		c.reps, s.reps = append(c.reps, s.reps[:n]...), s.reps[n:]
		values = n
		fallthrough
	case c.maxDef > 0:
		defs := s.defs[:values]
		c.defs, s.defs = append(c.defs, defs...), s.defs[values:]
		values = bytes.Count(defs, []byte{c.maxDef})
	}
	if values > 0 { // a page without a value has no type either
		s.view(c)
		s.append(c, s.at, s.at+values)
		s.at += values
	}
}

// view looks at the values of the page by their type, once.
func (s *source) view(c *chunk) {
	if !s.typed {
		s.typed = true
		v := s.page.Data()
		if d := s.page.Dictionary(); d != nil {
			s.values = pageValues{numbers: v.Int32()}
			s.dictionary.open(d, c)
		} else {
			s.values = viewPlain(v, c.physical)
		}
	}
	if s.values.numbers != nil && c.useDict {
		s.dictionary.renew(c)
	}
}

// viewPlain is the values of a page that has no dictionary, or is one.
func viewPlain(v encoding.Values, physical format.Type) (out pageValues) {
	switch physical {
	case format.Int32:
		out.int32s = v.Int32()
	case format.Int64:
		out.int64s = v.Int64()
	case format.Double:
		out.floats = v.Double()
	default:
		out.data, out.offsets = v.Data()
	}
	return out
}

func (d *sourceDictionary) open(of parquet.Dictionary, c *chunk) {
	if d.of == of {
		return
	}
	*d = sourceDictionary{of: of, values: viewPlain(of.Page().Data(), c.physical), known: d.known[:0], group: -1}
}

// renew forgets the numbers of an earlier row group.
func (d *sourceDictionary) renew(c *chunk) {
	if d.group == c.groups {
		return
	}
	d.group = c.groups
	d.known = d.known[:0]
	for range d.of.Len() {
		d.known = append(d.known, -1)
	}
}

// append hands over values of the page, from one up to another.
func (s *source) append(c *chunk, from, to int) {
	if numbers := s.values.numbers; numbers != nil {
		s.dictionary.append(c, numbers[from:to])
		return
	}
	s.values.append(c, from, to)
}

// append hands over the values that have these numbers.
func (d *sourceDictionary) append(c *chunk, numbers []int32) {
	if !c.useDict {
		for _, n := range numbers {
			d.values.append(c, int(n), int(n)+1)
		}
		return
	}
	for _, n := range numbers {
		known := d.known[n]
		if known < 0 {
			d.values.append(c, int(n), int(n)+1)
			d.known[n] = c.numbers[len(c.numbers)-1]
			continue
		}
		c.numbers = append(c.numbers, known)
	}
}

// append hands over values, from one up to another.
func (v *pageValues) append(c *chunk, from, to int) {
	switch {
	case v.int32s != nil:
		for _, n := range v.int32s[from:to] {
			c.putInt(int64(n))
		}
	case v.int64s != nil:
		for _, n := range v.int64s[from:to] {
			c.putInt(n)
		}
	case v.floats != nil:
		for _, n := range v.floats[from:to] {
			c.putFloat(n)
		}
	case c.physical == format.Boolean:
		for i := from; i < to; i++ {
			c.plain = append(c.plain, v.data[i/8]>>(i%8)&1)
		}
	case c.width > 0:
		c.plain = append(c.plain, v.data[from*c.width:to*c.width]...)
	default:
		for i := from; i < to; i++ {
			c.putBytes(text(v.data[v.offsets[i]:v.offsets[i+1]]))
		}
	}
}

// text is bytes as a text, for as long as nobody changes them.
func text(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
