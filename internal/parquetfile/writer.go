package parquetfile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/format"

	"sluice/internal/throttle"
)

const (
	// rowsPerGroup and groupBytes bound what a writer of a file holds in memory: about 12 MB of usual events, and not much
	// more of long ones.
	rowsPerGroup = 128 << 10
	groupBytes   = 16 << 20
	// dictionaryBytes is where a dictionary has lost its sense and the column goes on in plain. Larger ones were
	// tried: slower, no smaller files, and compaction holds one for each column of each file it merges.
	dictionaryBytes = 256 << 10
	// writeRows is how many rows are handed to the columns at a time: enough to share the cost of a call, few enough to
	// stay in cache.
	writeRows = 128
	// writerName and writerVersion stand in every footer.
	writerName    = "sluice"
	writerVersion = "1"
)

// The size of pages bounds what a reader holds, for each column of each file it merges. Longer ones hardly shrink
// better.
const (
	FreshPage  = 64 << 10  // of files that will be merged soon
	PackedPage = 256 << 10 // of files that stay
)

// encoder is zstd with no more memory than pages need. Its fastest level makes files as small as the default one does,
// if it also shortens values that never repeat, as ids in hex do not: 98.8 bytes an event, without that 106.
var encoder = sync.OnceValue(func() *zstd.Encoder {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithAllLitEntropyCompression(true),
		zstd.WithEncoderConcurrency(2), zstd.WithWindowSize(PackedPage), zstd.WithLowerEncoderMem(true),
		zstd.WithZeroFrames(true), zstd.WithEncoderCRC(false))
	if err != nil {
		panic(err) // the options are constants
	}
	return e
})

// Writer writes one file: rows into the chunks of their columns, chunks into row groups, and the footer. The encodings
// are those of parquet-go (docs/decisions/0040). One goroutine uses it.
type Writer[T any] struct {
	schema  *Schema[T]
	out     io.Writer
	n       int64 // bytes so far
	chunks  []chunk
	rows    []T // that were added and are not yet in the chunks
	group   int // rows in the row group so far
	meta    format.FileMetaData
	columns []format.ColumnIndex // of all row groups, column after column
	offsets []format.OffsetIndex
	copied  []byte // memory for copyColumn
	job     *throttle.Job
}

// NewWriter begins a file with pages of FreshPage or PackedPage bytes. Writing is a part of job, which may be nil.
// Close gives the memory back.
func (s *Schema[T]) NewWriter(out io.Writer, pageBytes int, job *throttle.Job) *Writer[T] {
	var w *Writer[T]
	select {
	case w = <-s.writers:
	default:
		w = &Writer[T]{schema: s, chunks: make([]chunk, len(s.columns))}
		for i := range s.columns {
			w.chunks[i].leafType = s.columns[i].leaf()
		}
	}
	w.out, w.n, w.group, w.job = out, 0, 0, job
	w.meta, w.columns, w.offsets = s.footer(), nil, nil
	for i := range w.chunks {
		w.chunks[i].pageBytes = pageBytes
		w.chunks[i].begin()
	}
	return w
}

// Close gives the writer's memory to the next one. The file must be finished.
func (w *Writer[T]) Close() {
	clear(w.rows)
	w.rows, w.copied, w.out, w.job = w.rows[:0], nil, nil, nil
	for i := range w.chunks {
		if c := &w.chunks[i]; cap(c.pages) > largePages {
			c.pages = nil
		}
	}
	select {
	case w.schema.writers <- w:
	default:
	}
}

// largePages is the most memory that a column keeps for the pages of the next file: hashes of a row group have 4 MiB.
const largePages = 6 << 20

// Add adds a copy of a row. What it points to must stay as it is until the next Flush or Finish.
func (w *Writer[T]) Add(ctx context.Context, row *T) error {
	if len(w.rows) == writeRows {
		if err := w.Flush(ctx); err != nil {
			return err
		}
	}
	w.rows = append(w.rows, *row)
	return nil
}

// Last is the row that was added last, to be changed; nil if it is on its way into the file.
func (w *Writer[T]) Last() *T {
	if len(w.rows) == 0 {
		return nil
	}
	return &w.rows[len(w.rows)-1]
}

// Flush hands the rows that were added to the columns, one column after the other.
func (w *Writer[T]) Flush(ctx context.Context) error {
	rows := w.rows
	w.rows = w.rows[:0]
	if len(rows) == 0 {
		return nil
	}
	held := 0
	for i := range w.chunks {
		c := &w.chunks[i]
		w.schema.columns[i].put(c, rows)
		if err := c.end(len(rows)); err != nil {
			return fmt.Errorf("column %s: %w", w.schema.columns[i].Name, err)
		}
		held += len(c.pages)
	}
	w.group += len(rows)
	if err := w.job.Pause(ctx); err != nil {
		return err
	}
	if w.group < rowsPerGroup && held < groupBytes {
		return nil
	}
	return w.endGroup()
}

// endGroup writes the chunks of a row group.
func (w *Writer[T]) endGroup() error {
	if w.group == 0 {
		return nil
	}
	group, err := w.beginGroup()
	if err != nil {
		return err
	}
	for i := range w.chunks {
		if err := w.endColumn(group, i); err != nil {
			return err
		}
	}
	w.closeGroup(group, w.group)
	return nil
}

// beginGroup describes a row group whose columns follow.
func (w *Writer[T]) beginGroup() (*format.RowGroup, error) {
	if err := w.begin(); err != nil {
		return nil, err
	}
	return &format.RowGroup{FileOffset: w.n, Ordinal: int16(len(w.meta.RowGroups))}, nil
}

// endColumn writes the chunk of a column, and makes it ready for the next row group.
func (w *Writer[T]) endColumn(group *format.RowGroup, i int) error {
	c := &w.chunks[i]
	dictionary, pages, err := c.finish()
	if err != nil {
		return fmt.Errorf("column %s: %w", w.schema.columns[i].Name, err)
	}
	meta := c.meta
	if len(dictionary) > 0 {
		meta.DictionaryPageOffset = w.n
	}
	meta.DataPageOffset = w.n + int64(len(dictionary))
	for k := range c.locations {
		c.locations[k].Offset += meta.DataPageOffset
	}
	if err := errors.Join(w.emit(dictionary), w.emit(pages)); err != nil {
		return err
	}
	c.index.BoundaryOrder = c.boundaryOrder()
	w.columns = append(w.columns, c.index)
	w.offsets = append(w.offsets, format.OffsetIndex{PageLocations: c.locations})
	group.Columns = append(group.Columns, format.ColumnChunk{MetaData: meta})
	group.TotalByteSize += meta.TotalUncompressedSize
	group.TotalCompressedSize += meta.TotalCompressedSize
	c.begin()
	return nil
}

// closeGroup adds a row group whose columns are written to the footer.
func (w *Writer[T]) closeGroup(group *format.RowGroup, rows int) {
	group.NumRows = int64(rows)
	w.meta.NumRows += group.NumRows
	w.meta.RowGroups = append(w.meta.RowGroups, *group)
	w.group = 0
}

// begin writes the first bytes of a file, once.
func (w *Writer[T]) begin() error {
	if w.n > 0 {
		return nil
	}
	return w.emit([]byte("PAR1"))
}

func (w *Writer[T]) emit(b []byte) error {
	n, err := w.out.Write(b)
	w.n += int64(n)
	return err
}

// Finish writes what is left and the footer, and says what is in the file.
func (w *Writer[T]) Finish(ctx context.Context) (*Contents, error) {
	if err := errors.Join(w.Flush(ctx), w.endGroup()); err != nil {
		return nil, err
	}
	if err := w.begin(); err != nil {
		return nil, err
	}
	tail, err := encodeTail(&w.meta, w.columns, w.offsets, w.n)
	if err != nil {
		return nil, err
	}
	if err := w.emit(tail); err != nil {
		return nil, err
	}
	return w.contents(), nil
}

// Contents is what a finished file holds.
type Contents struct {
	Rows, Bytes int64
	Groups      []int64 // where row groups begin
	Columns     []ColumnContents
}

// ColumnContents is what a finished file holds of a column.
type ColumnContents struct {
	Field
	Bytes int64 // compressed
	Nulls int64 // of a list, absent elements
	// Lower and Upper bound the values of a bounded column, in Parquet's plain form. A text is cut. nil bounds nothing.
	Lower, Upper []byte
}

// contents describes what is written.
func (w *Writer[T]) contents() *Contents {
	out := &Contents{Rows: w.meta.NumRows, Bytes: w.n, Columns: make([]ColumnContents, len(w.chunks))}
	for i := range out.Columns {
		out.Columns[i].Field = w.schema.columns[i].Field
	}
	for _, group := range w.meta.RowGroups {
		first := &group.Columns[0].MetaData
		begin := first.DataPageOffset
		if first.DictionaryPageOffset > 0 {
			begin = first.DictionaryPageOffset
		}
		out.Groups = append(out.Groups, begin)
		for i := range group.Columns {
			out.Columns[i].add(&w.chunks[i].leafType, &group.Columns[i].MetaData)
		}
	}
	for i := range out.Columns {
		c := &out.Columns[i]
		c.Lower, c.Upper = w.chunks[i].cutBounds(bytes.Clone(c.Lower), bytes.Clone(c.Upper))
	}
	return out
}

// add adds the column of a row group.
func (c *ColumnContents) add(l *leafType, meta *format.ColumnMetaData) {
	c.Bytes += meta.TotalCompressedSize
	s := &meta.Statistics
	c.Nulls += s.NullCount
	if c.Bounded && s.MinValue != nil && s.MaxValue != nil {
		l.widen(&c.Lower, &c.Upper, s.MinValue, s.MaxValue)
	}
}
