package input

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// The formats of a file.
const (
	NDJSON = "ndjson" // one JSON object on each line
	JSON   = "json"   // one array, or objects laid out freely
	CSV    = "csv"
	TSV    = "tsv"
)

// windowBytes is the read buffer: large enough that few lines need a copy.
const windowBytes = 256 << 10

// Source is an opened input: decompressed, without a byte order mark, its form known.
type Source struct {
	name      string
	OS        *os.File      // nil: standard input
	whole     io.ReadSeeker // a regular file as it was when it was opened: what is added later is not read
	Size      int64         // on disk; 0: a stream that can be read once
	Read      atomic.Int64  // bytes that were read from disk
	r         *bufio.Reader
	Format    string
	Packed    bool // compressed
	skip      int64
	delimiter byte   // of columns
	header    []byte // first record of a delimited file, once it was read
	closes    []func() error
}

// OpenSource opens name, or in for "-". Format "" is found from the name or the first bytes.
func OpenSource(name string, in io.Reader, format string) (*Source, error) {
	s := &Source{name: name}
	raw := in
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		s.OS, raw = f, f
		s.closes = append(s.closes, f.Close)
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			s.Size = info.Size()
			s.whole = io.NewSectionReader(f, 0, s.Size)
			raw = s.whole
		} else if err == nil && info.IsDir() {
			f.Close()
			return nil, fmt.Errorf("%s is a directory", name)
		}
	}
	if err := s.unpack(&counting{raw, &s.Read}); err != nil {
		s.Close()
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	if err := s.sniff(format); err != nil {
		s.Close()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return s, nil
}

// Stream reports that the rows can be read only once: standard input, or a pipe.
func (s *Source) Stream() bool { return s.Size == 0 }

// Close lets go of the file and the decompressor.
func (s *Source) Close() {
	for _, c := range s.closes {
		_ = c() // nothing was written
	}
}

type counting struct {
	r io.Reader
	n *atomic.Int64
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// unpack puts a decompressor before the reader if the first bytes are those of gzip or zstd.
func (s *Source) unpack(raw io.Reader) error {
	br := bufio.NewReaderSize(raw, windowBytes)
	head, err := br.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	var in io.Reader
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(br)
		if err != nil {
			return fmt.Errorf("unpack gzip: %w", err)
		}
		in = z
	case bytes.Equal(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		z, err := zstd.NewReader(br, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(128<<20),
			zstd.WithDecoderLowmem(true))
		if err != nil {
			return fmt.Errorf("unpack zstd: %w", err)
		}
		s.closes = append(s.closes, func() error { z.Close(); return nil })
		in = z
	default:
		s.r = br
		return nil
	}
	s.Packed = true
	s.r = bufio.NewReaderSize(in, windowBytes)
	return nil
}

// sniff passes a byte order mark and settles the form.
func (s *Source) sniff(format string) error {
	head, err := s.r.Peek(4096)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull) {
		return err
	}
	if bytes.HasPrefix(head, []byte{0xff, 0xfe}) || bytes.HasPrefix(head, []byte{0xfe, 0xff}) {
		return &FileError{1, "the file is UTF-16; save it as UTF-8"}
	}
	if bytes.HasPrefix(head, []byte{0xef, 0xbb, 0xbf}) {
		s.skip = 3
		if _, err := s.r.Discard(3); err != nil {
			return err
		}
		head = head[3:]
	}
	if len(bytes.TrimSpace(head)) == 0 && len(head) < 4000 {
		return &FileError{1, "the file is empty"}
	}
	if bytes.IndexByte(head, 0) >= 0 {
		return &FileError{1, "the file holds zero bytes: it is not a text file"}
	}
	s.Format = format
	if format == "" {
		s.Format = formatOf(s.name, head)
	}
	return nil
}

// formatOf goes by the name's ending and, where it says nothing, by the first byte.
func formatOf(name string, head []byte) string {
	name = strings.ToLower(name)
	for _, packed := range []string{".gz", ".gzip", ".zst", ".zstd"} {
		name = strings.TrimSuffix(name, packed)
	}
	first := byte(0)
	if text := bytes.TrimSpace(head); len(text) > 0 {
		first = text[0]
	}
	switch ext := filepath.Ext(name); {
	case first == '[':
		return JSON
	case ext == ".csv" || ext == ".tsv":
		return ext[1:]
	case ext == ".tab":
		return TSV
	case first != '{':
		return CSV
	}
	line, _, whole := bytes.Cut(bytes.TrimLeft(head, " \t\r\n"), []byte("\n"))
	if line = bytes.TrimSpace(line); whole && len(line) > 0 && line[len(line)-1] != '}' {
		return JSON // an object that does not end on its line is laid out over several
	}
	return NDJSON
}

// Rows gives the rows of a source that was just opened.
func (s *Source) Rows() (Rows, error) {
	return s.rowsAt(Position{Offset: s.skip})
}

// rowsFrom goes to p and gives the rows from there on. at is how far the source was read: a compressed one can only be
// read forward.
func (s *Source) rowsFrom(p Position, at int64) (Rows, error) {
	if s.whole != nil && !s.Packed {
		if _, err := s.whole.Seek(p.Offset, io.SeekStart); err != nil {
			return nil, err
		}
		s.Read.Store(p.Offset)
		s.r.Reset(&counting{s.whole, &s.Read})
	} else if _, err := io.CopyN(io.Discard, s.r, p.Offset-at); err != nil {
		return nil, err
	}
	return s.rowsAt(p)
}

func (s *Source) rowsAt(p Position) (Rows, error) {
	l := Lines{r: s.r, number: p.Line, offset: p.Offset}
	switch s.Format {
	case NDJSON:
		return &lineRows{l}, nil
	case JSON:
		return newValueRows(s.r, p), nil
	case CSV, TSV:
		return &csvRows{Lines: l, delimiter: s.delimiter, header: s.header}, nil
	}
	return nil, fmt.Errorf("the format %q is not known: ndjson, json, csv or tsv", s.Format)
}
