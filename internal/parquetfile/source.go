package parquetfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"
)

// source is one column of a file that is being merged: it hands its values to the chunk of a new file, in order,
// without making rows of them. Numbers of a dictionary become numbers of the new one.
type source struct {
	columnPages
	name   string
	leaf   int // of the file
	groups []parquet.RowGroup
	rows   int64 // of the row group that are not read yet, those of the page not counted

	known []int32            // by number here, that in the dictionary of the new row group; -1 is not known yet
	of    parquet.Dictionary // to which known belongs
	group int                // of the new file, likewise
}

// errLong says that a column does not end with its row group: a damaged page header may have shifted it.
var errLong = errors.New("longer than its row group")

// copy hands the next n rows to c.
func (s *source) copy(c *chunk, n int) (err error) {
	defer recovered(&err)
	for n > 0 {
		if s.left == 0 {
			if err := s.advance(c); err != nil {
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

// advance opens the next page, of this row group or of the next one.
func (s *source) advance(c *chunk) error {
	if s.rows == 0 {
		if err := s.end(); err != nil {
			return err
		}
		if len(s.groups) == 0 {
			return io.ErrUnexpectedEOF
		}
		s.pages, s.physical, s.maxDef = s.groups[0].ColumnChunks()[s.leaf].Pages(), c.physical, c.maxDef
		s.rows, s.groups, s.of = s.groups[0].NumRows(), s.groups[1:], nil
	}
	if err := s.next(); err != nil {
		return err
	}
	if s.left == 0 || int64(s.left) > s.rows {
		return errLong
	}
	s.rows -= int64(s.left)
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
	if !errors.Is(s.next(), io.ErrUnexpectedEOF) {
		return errLong
	}
	return s.close()
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
	if values == 0 {
		return
	}
	s.view()
	from := s.at
	s.at += values
	if s.numbers == nil {
		s.values.append(c, from, s.at)
		return
	}
	if s.of != s.dictionary || s.group != c.groups {
		s.of, s.group, s.known = s.dictionary, c.groups, s.known[:0]
		for range s.dictionary.Len() {
			s.known = append(s.known, -1)
		}
	}
	for _, n := range s.numbers[from:s.at] {
		switch {
		case !c.useDict:
			s.values.append(c, int(n), int(n)+1)
		case s.known[n] < 0:
			s.values.append(c, int(n), int(n)+1)
			s.known[n] = c.numbers[len(c.numbers)-1]
		default:
			c.numbers = append(c.numbers, s.known[n])
		}
	}
}
