package iceberg

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"unsafe"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// source is one column of a file that is being merged: it hands its values to the chunk of a new file, in order, without
// making rows of them. Numbers of a dictionary become numbers of the new one.
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
	at         int // the next value
	typed      bool
	numbers    []int32 // with a dictionary
	data       []byte  // of a column of bytes, without one
	offsets    []uint32
	int32s     []int32
	int64s     []int64
	floats     []float64

	words words
}

// words is the dictionary of a row group in a file.
type words struct {
	of      parquet.Dictionary
	data    []byte
	offsets []uint32
	int32s  []int32
	int64s  []int64
	numbers []int32 // by number here, that in the dictionary of the new row group; -1 is not known yet
	group   int     // of the new file, to which numbers belong
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
		s.rows, s.groups, s.words.of = s.groups[0].NumRows(), s.groups[1:], nil
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
		s.values(c, s.at, s.at+values)
		s.at += values
	}
}

// view looks at the values of the page by their type, once.
func (s *source) view(c *chunk) {
	if !s.typed {
		s.typed = true
		s.numbers, s.data, s.offsets, s.int32s, s.int64s, s.floats = nil, nil, nil, nil, nil, nil
		v := s.page.Data()
		switch d := s.page.Dictionary(); {
		case d != nil:
			s.numbers = v.Int32()
			s.words.open(d, c)
		case c.physical == format.Int32:
			s.int32s = v.Int32()
		case c.physical == format.Int64:
			s.int64s = v.Int64()
		case c.physical == format.Double:
			s.floats = v.Double()
		default:
			s.data, s.offsets = v.Data()
		}
	}
	if s.numbers != nil && c.useDict {
		s.words.renew(c)
	}
}

func (w *words) open(d parquet.Dictionary, c *chunk) {
	if w.of == d {
		return
	}
	*w = words{of: d, numbers: w.numbers[:0], group: -1}
	v := d.Page().Data()
	switch {
	case c.width == 0:
		w.data, w.offsets = v.ByteArray()
	case c.width == 4:
		w.int32s = v.Int32()
	default:
		w.int64s = v.Int64()
	}
}

// renew forgets the numbers of an earlier row group.
func (w *words) renew(c *chunk) {
	if w.group == c.groups {
		return
	}
	w.group = c.groups
	w.numbers = w.numbers[:0]
	for range w.of.Len() {
		w.numbers = append(w.numbers, -1)
	}
}

// values hands over values of the page, from one up to another.
func (s *source) values(c *chunk, from, to int) {
	switch {
	case s.numbers != nil && c.useDict:
		for _, n := range s.numbers[from:to] {
			known := s.words.numbers[n]
			if known < 0 {
				s.words.put(c, n)
				s.words.numbers[n] = c.numbers[len(c.numbers)-1]
				continue
			}
			c.numbers = append(c.numbers, known)
		}
	case s.numbers != nil:
		for _, n := range s.numbers[from:to] {
			s.words.put(c, n)
		}
	case s.int32s != nil && !c.useDict && c.encoding == format.DeltaBinaryPacked:
		c.int32s = append(c.int32s, s.int32s[from:to]...)
	case s.int32s != nil:
		for _, v := range s.int32s[from:to] {
			c.putInt32(v)
		}
	case s.int64s != nil && !c.useDict && c.encoding == format.DeltaBinaryPacked:
		c.int64s = append(c.int64s, s.int64s[from:to]...)
	case s.int64s != nil:
		for _, v := range s.int64s[from:to] {
			c.putInt64(v)
		}
	case s.floats != nil:
		for _, v := range s.floats[from:to] {
			c.putFloat(v)
		}
	case c.physical == format.Boolean:
		for i := from; i < to; i++ {
			c.plain = append(c.plain, s.data[i/8]>>(i%8)&1)
		}
	case c.width > 0:
		c.plain = append(c.plain, s.data[from*c.width:to*c.width]...)
	default:
		for i := from; i < to; i++ {
			c.putBytes(text(s.data[s.offsets[i]:s.offsets[i+1]]))
		}
	}
}

// put hands over a value of the dictionary.
func (w *words) put(c *chunk, n int32) {
	switch {
	case w.offsets != nil:
		c.putBytes(text(w.data[w.offsets[n]:w.offsets[n+1]]))
	case w.int32s != nil:
		c.putInt32(w.int32s[n])
	default:
		c.putInt64(w.int64s[n])
	}
}

// text is bytes as a text, for as long as nobody changes them.
func text(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
