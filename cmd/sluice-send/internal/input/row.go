package input

import (
	"bytes"
	"errors"
	"io"
)

// Row is one row of a file, as written.
type Row struct {
	Data  []byte
	Line  int64  // where it begins, from 1
	Fault string // why it cannot be read; Data is then empty
}

// Rows divides a stream into rows. Position says how far it has read, so that another Rows can continue there.
type Rows interface {
	Next() (Row, error) // valid until the next call; io.EOF at the end, *FileError where reading cannot continue
	Position() Position
}

// Position is a place between two rows.
type Position struct {
	Offset  int64 `json:"offset"`             // bytes of the decompressed stream before it
	Line    int64 `json:"line"`               // lines before it
	InArray bool  `json:"in_array,omitempty"` // inside a JSON array, after an element
}

// LongRow is the message for a row that no request can hold.
const LongRow = "The row is over 5 MB, more than a request may hold."

// lineRows are the rows of a file with one JSON object on each line.
type lineRows struct{ Lines }

func (l *lineRows) Next() (Row, error) {
	for {
		data, long, err := l.Lines.Next()
		if err != nil {
			return Row{}, err
		}
		if long {
			return Row{Line: l.number, Fault: LongRow}, nil
		}
		if data = bytes.TrimSpace(data); len(data) > 0 {
			return Row{Data: data, Line: l.number}, nil
		}
	}
}

// Batch is a run of rows that is sent, recorded and resumed as one. Its limits depend on the file and the two sizes of
// the Cutter only, never on the content of a row: a second reading gives the same batches.
type Batch struct {
	Number     int64
	Start, End Position
	Data       []byte
	Spans      []Span
}

// Span is one row of a batch.
type Span struct {
	From, To int // in Data
	Line     int64
	Fault    string
}

// Row returns the bytes of row i.
func (b *Batch) Row(i int) []byte { return b.Data[b.Spans[i].From:b.Spans[i].To] }

// Cutter divides rows into batches.
type Cutter struct {
	Rows     Rows
	MaxRows  int
	MaxBytes int
	Number   int64 // of the next batch

	held   *Row     // read, but too large for the batch before
	before Position // of the held row
	err    error
}

// Next fills b with the following batch. The error is io.EOF when there is none. An error that ends the file in the
// middle is returned after the rows before it.
func (c *Cutter) Next(b *Batch) error {
	b.Data, b.Spans = b.Data[:0], b.Spans[:0]
	b.Start = c.Rows.Position()
	if c.held != nil {
		b.Start = c.before
		b.Add(*c.held)
		c.held = nil
	}
	b.End = c.Rows.Position()
	for c.err == nil && len(b.Spans) < c.MaxRows {
		before := c.Rows.Position()
		r, err := c.Rows.Next()
		if err != nil {
			c.err = err
			break
		}
		if len(b.Spans) > 0 && len(b.Data)+len(r.Data) > c.MaxBytes {
			held := r // so that r itself stays off the heap
			c.held, c.before = &held, before
			break
		}
		b.Add(r)
		b.End = c.Rows.Position()
	}
	if len(b.Spans) == 0 {
		return c.err
	}
	b.Number = c.Number
	c.Number++
	return nil
}

// Add adds a row at the end.
func (b *Batch) Add(r Row) {
	from := len(b.Data)
	b.Data = append(b.Data, r.Data...)
	b.Spans = append(b.Spans, Span{from, len(b.Data), r.Line, r.Fault})
}

// Ended reports whether err is only the end of the rows.
func Ended(err error) bool { return errors.Is(err, io.EOF) }
