package main

import (
	"bytes"
	"errors"
	"io"
)

// row is one row of a file, as it stands there.
type row struct {
	data  []byte
	line  int64  // where it begins, from 1
	fault string // why it cannot be read; data is then empty
}

// rows cuts a stream into rows. Where it stands is told by position, so that another can go on from there.
type rows interface {
	next() (row, error) // valid until the next call; io.EOF at the end, *fileError where reading cannot go on
	position() position
}

// position is a place between two rows.
type position struct {
	Offset  int64 `json:"offset"`             // bytes of the decompressed stream before it
	Line    int64 `json:"line"`               // lines before it
	InArray bool  `json:"in_array,omitempty"` // inside a JSON array, after an element
}

const longRow = "The row is over 5 MB, more than a request may hold."

// lineRows are the rows of a file with one JSON object on each line.
type lineRows struct{ lines }

func (l *lineRows) next() (row, error) {
	for {
		data, long, err := l.lines.next()
		if err != nil {
			return row{}, err
		}
		if long {
			return row{line: l.number, fault: longRow}, nil
		}
		if data = bytes.TrimSpace(data); len(data) > 0 {
			return row{data: data, line: l.number}, nil
		}
	}
}

func (l *lineRows) position() position { return position{Offset: l.offset, Line: l.number} }

// batch is a run of rows that is sent, remembered and resumed as one. Its limits follow from the file and the two
// sizes alone, never from what a row holds: a second reading cuts the same batches.
type batch struct {
	number     int64
	start, end position
	data       []byte
	spans      []span
}

type span struct {
	from, to int
	line     int64
	fault    string
}

func (b *batch) row(i int) []byte { return b.data[b.spans[i].from:b.spans[i].to] }

// cutter divides rows into batches.
type cutter struct {
	rows     rows
	maxRows  int
	maxBytes int
	number   int64 // of the next batch

	held   row // read, but too large for the batch before
	isHeld bool
	before position // of the held row
	err    error
}

// next fills b with the following batch. The error is io.EOF when there is none; one that ends the file in the middle
// is given after the rows before it.
func (c *cutter) next(b *batch) error {
	b.data, b.spans = b.data[:0], b.spans[:0]
	b.start = c.rows.position()
	if c.isHeld {
		b.start = c.before
		b.add(c.held)
		c.isHeld = false
	}
	b.end = c.rows.position()
	for c.err == nil && len(b.spans) < c.maxRows {
		before := c.rows.position()
		r, err := c.rows.next()
		if err != nil {
			c.err = err
			break
		}
		if len(b.spans) > 0 && len(b.data)+len(r.data) > c.maxBytes {
			c.held, c.isHeld, c.before = r, true, before
			break
		}
		b.add(r)
		b.end = c.rows.position()
	}
	if len(b.spans) == 0 {
		return c.err
	}
	b.number = c.number
	c.number++
	return nil
}

func (b *batch) add(r row) {
	from := len(b.data)
	b.data = append(b.data, r.data...)
	b.spans = append(b.spans, span{from, len(b.data), r.line, r.fault})
}

// ended says whether err is only the end of the rows.
func ended(err error) bool { return errors.Is(err, io.EOF) }
