package input

import (
	"bufio"
	"errors"
	"io"
)

// valueRows are the rows of a JSON file: the elements of an array, or values one after the other, however they are
// laid out on lines.
type valueRows struct {
	r     *bufio.Reader
	at    Position
	comma bool // an element of an array came: a comma or the end of the array must follow
	buf   []byte
}

func newValueRows(r *bufio.Reader, at Position) *valueRows {
	return &valueRows{r: r, at: at, comma: at.InArray}
}

func (v *valueRows) Position() Position { return v.at }

func (v *valueRows) Next() (Row, error) {
	c, err := v.lead()
	if err != nil {
		return Row{}, err
	}
	line := v.at.Line + 1
	v.buf = v.buf[:0]
	long, err := v.value(c)
	if err != nil {
		return Row{}, err
	}
	v.comma = v.at.InArray
	if long {
		return Row{Line: line, Fault: LongRow}, nil
	}
	return Row{Data: v.buf, Line: line}, nil
}

func (v *valueRows) fail(what string) error { return &FileError{v.at.Line + 1, what} }

// lead skips the bytes between values and gives the first byte of the next one, not yet taken.
func (v *valueRows) lead() (byte, error) {
	after := false // a comma was passed
	for {
		c, err := v.peek()
		if errors.Is(err, io.EOF) && v.at.InArray {
			return 0, v.fail("the file ends inside its JSON array")
		}
		if err != nil {
			return 0, err
		}
		switch {
		case c == ' ' || c == '\t' || c == '\r' || c == '\n':
		case c == ',' && v.at.InArray && v.comma:
			v.comma, after = false, true
		case c == ']' && v.at.InArray && !after:
			v.at.InArray, v.comma = false, false
		case c == '[' && !v.at.InArray:
			v.at.InArray = true
		case v.comma:
			return 0, v.fail("a comma is missing between two elements of the JSON array")
		case c == ',' || c == ']' || c == '}' || c == ':':
			return 0, v.fail("a JSON value is missing here")
		default:
			return c, nil
		}
		v.take(1)
	}
}

func (v *valueRows) peek() (byte, error) {
	b, err := v.r.Peek(1)
	if len(b) == 0 {
		return 0, err
	}
	return b[0], nil
}

// take passes n bytes that are in the buffer and counts their lines.
func (v *valueRows) take(n int) {
	b, _ := v.r.Peek(n)
	for _, c := range b {
		if c == '\n' {
			v.at.Line++
		}
	}
	v.at.Offset += int64(n)
	_, _ = v.r.Discard(n) // the bytes are in the buffer
}

// value copies the value that begins with c into buf, unless it is too long. Only its limits are found here; whether it
// is good JSON is for the validator.
func (v *valueRows) value(c byte) (long bool, err error) {
	s := limits{nested: c == '{' || c == '[', quoted: c == '"'}
	for {
		if _, err := v.peek(); errors.Is(err, io.EOF) {
			if s.nested || s.quoted {
				return false, v.fail("the file ends inside a JSON value")
			}
			return long, nil
		} else if err != nil {
			return false, err
		}
		chunk, _ := v.r.Peek(v.r.Buffered())
		n, done := s.scan(chunk)
		if long = long || len(v.buf)+n > MaxRow; long {
			v.buf = v.buf[:0]
		} else {
			v.buf = append(v.buf, chunk[:n]...)
		}
		v.take(n)
		if done {
			return long, nil
		}
	}
}

// limits finds the end of one JSON value by its brackets and quotes.
type limits struct {
	nested, quoted  bool // what the value is, by its first byte; neither: a number or a word
	depth           int
	string, escaped bool
}

// scan passes over b and says how many of its bytes belong to the value, and whether it ends there.
func (s *limits) scan(b []byte) (n int, done bool) {
	for i, c := range b {
		switch {
		case s.escaped:
			s.escaped = false
		case s.string && c == '\\':
			s.escaped = true
		case c == '"':
			s.string = !s.string
			if s.quoted && !s.string {
				return i + 1, true
			}
		case s.string:
		case c == '{' || c == '[':
			s.depth++
		case c == '}' || c == ']':
			s.depth--
			if s.nested && s.depth == 0 {
				return i + 1, true
			}
			if s.depth < 0 {
				return i, true
			}
		case !s.nested && (c == ',' || c == ' ' || c == '\n' || c == '\r' || c == '\t'):
			return i, true
		}
	}
	return len(b), false
}
