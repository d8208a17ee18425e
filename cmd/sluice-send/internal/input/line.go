package input

import (
	"bufio"
	"errors"
	"fmt"
	"io"
)

// MaxRow is the longest row that is read whole. An event cannot be larger than a request, so a longer row is rejected
// without being held in memory.
const MaxRow = 5*1024*1024 - 2

// FileError is a fault of a file that ends its reading: nothing after the line can be understood.
type FileError struct {
	Line int64
	what string
}

// Fail is a fault of a file at a line.
func Fail(line int64, what string) error { return &FileError{line, what} }

// Error names the line and the fault.
func (e *FileError) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.what) }

// Lines divides a stream at line breaks, LF or CR LF.
type Lines struct {
	r      *bufio.Reader
	number int64 // of the line last read, from 1
	offset int64 // bytes read, line breaks included
	spill  []byte
}

// Next gives the following line without its break. The bytes are valid until the next call. A line over MaxRow is
// skipped and long is true. The error is io.EOF when nothing is left.
func (l *Lines) Next() (line []byte, long bool, err error) {
	l.spill = l.spill[:0]
	for {
		part, err := l.r.ReadSlice('\n')
		l.offset += int64(len(part))
		whole := len(l.spill) == 0 && !long // so far, the line is part
		switch {
		case err == nil && whole:
			l.number++
			return chomp(part), false, nil
		case errors.Is(err, bufio.ErrBufferFull):
			long = l.keep(part, long)
			continue
		case errors.Is(err, io.EOF) && len(part) == 0 && whole:
			return nil, false, io.EOF
		case err != nil && !errors.Is(err, io.EOF):
			return nil, false, err
		}
		l.number++
		if l.keep(part, long) {
			return nil, true, nil
		}
		return chomp(l.spill), false, nil
	}
}

// keep adds part to the line in memory, unless the line is too long already.
func (l *Lines) keep(part []byte, long bool) bool {
	if long || len(l.spill)+len(part) > MaxRow+2 {
		l.spill = l.spill[:0]
		return true
	}
	l.spill = append(l.spill, part...)
	return false
}

func chomp(b []byte) []byte {
	if n := len(b); n > 0 && b[n-1] == '\n' {
		b = b[:n-1]
	}
	if n := len(b); n > 0 && b[n-1] == '\r' {
		b = b[:n-1]
	}
	return b
}

// NewLines reads lines from r.
func NewLines(r io.Reader) *Lines { return &Lines{r: bufio.NewReaderSize(r, 64<<10)} }

// Position is the place after the line that was read last.
func (l *Lines) Position() Position { return Position{Offset: l.offset, Line: l.number} }

// Number is the number of the line that was read last, from 1.
func (l *Lines) Number() int64 { return l.number }
