package input

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// csvRows are the records of a delimited file. A record may go over several lines where a quoted field does.
type csvRows struct {
	Lines
	delimiter byte
	record    []byte
	header    []byte // repeated in the file by some exports; such a row is not data
}

func (c *csvRows) Next() (Row, error) {
	for {
		data, long, err := c.Lines.Next()
		if err != nil {
			return Row{}, err
		}
		first := c.number
		if long {
			return Row{Line: first, Fault: LongRow}, nil
		}
		if len(data) == 0 || c.header != nil && bytes.Equal(data, c.header) {
			continue
		}
		if bytes.IndexByte(data, '"') < 0 || !openQuote(data, c.delimiter) {
			return Row{Data: data, Line: first}, nil
		}
		data, err = c.across(data, first)
		return Row{Data: data, Line: first}, err
	}
}

// across reads on until the quote that is open at the end of data is closed.
func (c *csvRows) across(data []byte, first int64) ([]byte, error) {
	c.record = append(c.record[:0], data...)
	for {
		data, long, err := c.Lines.Next()
		if errors.Is(err, io.EOF) {
			return nil, &FileError{first, "a quote is opened in this row and never closed"}
		}
		if err != nil {
			return nil, err
		}
		if long || len(c.record)+len(data) > MaxRow {
			return nil, &FileError{first, "a quote is opened in this row and not closed within 5 MB"}
		}
		c.record = append(append(c.record, '\n'), data...)
		// The scan begins anew each time; fields over many lines are rare and short.
		if bytes.IndexByte(data, '"') >= 0 && !openQuote(c.record, c.delimiter) {
			return c.record, nil
		}
	}
}

// openQuote says whether a quoted field is still open at the end of b. A quote opens a field only as its first byte.
func openQuote(b []byte, delimiter byte) bool {
	start, quoted := true, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case quoted && c == '"':
			if i+1 < len(b) && b[i+1] == '"' {
				i++
			} else {
				quoted = false
			}
		case quoted:
		case c == '"' && start:
			quoted, start = true, false
		default:
			start = c == delimiter
		}
	}
	return quoted
}

var (
	errQuote = errors.New("a quote is inside a field that does not begin with one, or text follows a closing quote")
	errUTF8  = errors.New("the row is not valid UTF-8")
)

// splitRecord divides a record into fields, appending them to fields. Quoted ones are unquoted into scratch, which is
// returned for the next call: it must not be used again before the fields are done with.
func splitRecord(fields [][]byte, scratch, record []byte, delimiter byte) ([][]byte, []byte, error) {
	if !utf8.Valid(record) {
		return fields, scratch, errUTF8
	}
	if cap(scratch) < len(record) {
		scratch = make([]byte, 0, 2*len(record)) // never grown below: fields point into it
	}
	scratch = scratch[:0]
	for {
		var field []byte
		var ok bool
		if len(record) > 0 && record[0] == '"' {
			field, scratch, record, ok = quotedField(scratch, record[1:])
		} else {
			end := bytes.IndexByte(record, delimiter)
			if end < 0 {
				end = len(record)
			}
			field, record = record[:end], record[end:]
			ok = bytes.IndexByte(field, '"') < 0
		}
		if !ok || len(record) > 0 && record[0] != delimiter {
			return fields, scratch, errQuote
		}
		fields = append(fields, field)
		if len(record) == 0 {
			return fields, scratch, nil
		}
		record = record[1:]
	}
}

// quotedField unquotes the field whose opening quote was before b into scratch. ok says that it is closed.
func quotedField(scratch, b []byte) (field, grown, rest []byte, ok bool) {
	from := len(scratch)
	for {
		end := bytes.IndexByte(b, '"')
		if end < 0 {
			return nil, scratch, b, false
		}
		scratch = append(scratch, b[:end]...)
		b = b[end+1:]
		if len(b) == 0 || b[0] != '"' {
			return scratch[from:len(scratch):len(scratch)], scratch, b, true
		}
		scratch = append(scratch, '"')
		b = b[1:]
	}
}

var delimiterNames = map[byte]string{',': "a comma", ';': "a semicolon", '\t': "a tab", '|': "a bar"}

// readHeader reads the first record and says what is wrong with it before anything is sent.
func (c *csvRows) readHeader() ([]string, error) {
	r, err := c.Next()
	if errors.Is(err, io.EOF) {
		return nil, &FileError{1, "the file is empty: not even a header"}
	}
	if err != nil {
		return nil, err
	}
	fail := func(format string, args ...any) error { return &FileError{r.Line, fmt.Sprintf(format, args...)} }
	if r.Fault != "" {
		return nil, fail("the header is over 5 MB")
	}
	if bytes.IndexByte(r.Data, '\r') >= 0 {
		return nil, fail("lines end with a carriage return alone; save the file with LF or CR LF")
	}
	fields, _, err := splitRecord(nil, nil, r.Data, c.delimiter)
	if err != nil {
		return nil, fail("the header cannot be read: %v", err)
	}
	if len(fields) == 1 {
		for other, name := range delimiterNames {
			if n := bytes.Count(r.Data, []byte{other}); other != c.delimiter && n > 0 {
				return nil,
					fail("with %s between columns the header has one column, with %s it would have %d; choose by --delimiter",
						delimiterNames[c.delimiter], name, n+1)
			}
		}
	}
	names := make([]string, len(fields))
	seen := map[string]bool{}
	for i, f := range fields {
		names[i] = strings.TrimSpace(string(f))
		if names[i] == "" {
			return nil, fail("column %d of the header has no name", i+1)
		}
		if seen[names[i]] {
			return nil, fail("column %q is in the header twice", names[i])
		}
		seen[names[i]] = true
	}
	c.header = bytes.Clone(r.Data)
	return names, nil
}
