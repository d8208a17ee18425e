package iceberg

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"sluice/internal/objectstore"
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
	// Pages bound what a reader holds, for each column of each file it merges. Longer ones hardly shrink better.
	freshPage  = 64 << 10
	packedPage = 256 << 10
	// writeRows is how many rows are handed to the columns at a time: enough to share the cost of a call, few enough to
	// stay in cache.
	writeRows = 128
	// writerVersion stands in every footer. Files of version 1 can have columns without a name, and values where there
	// were none: they are written anew (see repair.go).
	writerVersion = "2"
)

// encoder is zstd with no more memory than pages need. Its fastest level makes files as small as the default one does, if it
// also shortens values that never repeat, as ids in hex do not: 98.8 bytes an event, without that 106.
var encoder = sync.OnceValue(func() *zstd.Encoder {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithAllLitEntropyCompression(true),
		zstd.WithEncoderConcurrency(2), zstd.WithWindowSize(packedPage), zstd.WithLowerEncoderMem(true),
		zstd.WithZeroFrames(true), zstd.WithEncoderCRC(false))
	if err != nil {
		panic(err) // the options are constants
	}
	return e
})

// parquetWriter writes one Parquet file: rows into the chunks of their columns, chunks into row groups, and the footer. The
// encodings are those of parquet-go (docs/decisions/0048).
type parquetWriter[T any] struct {
	schema  *Schema[T]
	out     io.Writer
	n       int64 // bytes so far
	chunks  []chunk
	rows    []T  // that were added and are not yet in the chunks
	block   []*T // memory for write
	group   int  // rows in the row group so far
	meta    format.FileMetaData
	columns []format.ColumnIndex // of all row groups, column after column
	offsets []format.OffsetIndex
	copied  []byte // memory for copyGroup
	job     *throttle.Job
}

// newParquetWriter begins a file. close gives the memory back.
func newParquetWriter[T any](s *Schema[T], out io.Writer, pageBytes int, job *throttle.Job) *parquetWriter[T] {
	var w *parquetWriter[T]
	select {
	case w = <-s.writers:
	default:
		w = &parquetWriter[T]{schema: s, chunks: make([]chunk, len(s.Columns))}
		for i := range s.Columns {
			w.chunks[i].leafType = s.Columns[i].leaf()
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

// close gives the writer's memory to the next one.
func (w *parquetWriter[T]) close() {
	clear(w.rows)
	clear(w.block)
	w.rows, w.block, w.copied, w.out, w.job = w.rows[:0], w.block[:0], nil, nil, nil
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

// emptyFooter is the footer of a file without rows, as parquet-go makes it of a schema.
func emptyFooter(s *parquet.Schema) format.FileMetaData {
	w := parquet.NewGenericWriter[any](io.Discard, s, parquet.CreatedBy("sluice", writerVersion, ""))
	if err := w.Close(); err != nil {
		panic(err) // nothing is written that could fail
	}
	meta := *w.File().Metadata()
	meta.RowGroups = nil
	meta.KeyValueMetadata = []format.KeyValue{{Key: checkKey, Value: noCheck}}
	return meta
}

// add takes a copy of a row in. What it points to must stay as it is until the next flush.
func (w *parquetWriter[T]) add(ctx context.Context, row *T) error {
	if len(w.rows) == writeRows {
		if err := w.flush(ctx); err != nil {
			return err
		}
	}
	w.rows = append(w.rows, *row)
	return nil
}

// last is the row that was added last, to be changed.
func (w *parquetWriter[T]) last() *T {
	if len(w.rows) == 0 {
		return nil
	}
	return &w.rows[len(w.rows)-1]
}

// flush hands the rows that were added to the columns.
func (w *parquetWriter[T]) flush(ctx context.Context) error {
	w.block = w.block[:0]
	for i := range w.rows {
		w.block = append(w.block, &w.rows[i])
	}
	w.rows = w.rows[:0]
	return w.write(ctx, w.block)
}

// write hands some rows to the columns, one column after the other. It keeps nothing of them.
func (w *parquetWriter[T]) write(ctx context.Context, rows []*T) error {
	if len(rows) == 0 {
		return nil
	}
	held := 0
	for i := range w.chunks {
		c := &w.chunks[i]
		w.schema.Columns[i].put(c, rows)
		if err := c.end(len(rows)); err != nil {
			return fmt.Errorf("column %s: %w", w.schema.Columns[i].name, err)
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
func (w *parquetWriter[T]) endGroup() error {
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
func (w *parquetWriter[T]) beginGroup() (*format.RowGroup, error) {
	if err := w.begin(); err != nil {
		return nil, err
	}
	return &format.RowGroup{FileOffset: w.n, Ordinal: int16(len(w.meta.RowGroups))}, nil
}

// endColumn writes the chunk of a column, and makes it ready for the next row group.
func (w *parquetWriter[T]) endColumn(group *format.RowGroup, i int) error {
	c := &w.chunks[i]
	words, pages, err := c.finish()
	if err != nil {
		return fmt.Errorf("column %s: %w", w.schema.Columns[i].name, err)
	}
	meta := c.meta
	if len(words) > 0 {
		meta.DictionaryPageOffset = w.n
	}
	meta.DataPageOffset = w.n + int64(len(words))
	for k := range c.locations {
		c.locations[k].Offset += meta.DataPageOffset
	}
	if err := errors.Join(w.emit(words), w.emit(pages)); err != nil {
		return err
	}
	c.index.BoundaryOrder = c.order()
	w.columns = append(w.columns, c.index)
	w.offsets = append(w.offsets, format.OffsetIndex{PageLocations: c.locations})
	group.Columns = append(group.Columns, format.ColumnChunk{MetaData: meta})
	group.TotalByteSize += meta.TotalUncompressedSize
	group.TotalCompressedSize += meta.TotalCompressedSize
	c.begin()
	return nil
}

// closeGroup adds a row group whose columns are written to the footer.
func (w *parquetWriter[T]) closeGroup(group *format.RowGroup, rows int) {
	group.NumRows = int64(rows)
	w.meta.NumRows += group.NumRows
	w.meta.RowGroups = append(w.meta.RowGroups, *group)
	w.group = 0
}

// begin writes the first bytes of a file, once.
func (w *parquetWriter[T]) begin() error {
	if w.n > 0 {
		return nil
	}
	return w.emit([]byte("PAR1"))
}

func (w *parquetWriter[T]) emit(b []byte) error {
	n, err := w.out.Write(b)
	w.n += int64(n)
	return err
}

// finish writes what is left and the footer, and says what is in the file.
func (w *parquetWriter[T]) finish(ctx context.Context) (*format.FileMetaData, error) {
	if err := errors.Join(w.flush(ctx), w.endGroup()); err != nil {
		return nil, err
	}
	if err := w.begin(); err != nil {
		return nil, err
	}
	tail, err := encodeTail(&w.meta, w.columns, w.offsets, w.n)
	if err != nil {
		return nil, err
	}
	meta := w.meta
	return &meta, w.emit(tail)
}

// fileWriter writes a file of a table, and learns what a manifest has to say of it.
type fileWriter[T any] struct {
	*parquetWriter[T]
	at     objectstore.Store
	file   objectstore.Writer
	listed *dataFile
}

// createFile starts a file for a day.
func createFile[T any](
	at objectstore.Store, s *Schema[T], day int32, pageBytes int, job *throttle.Job,
) (*fileWriter[T], error) {
	f := &dataFile{name: newFileName(day), day: day}
	out, err := at.Create(f.name)
	if err != nil {
		return nil, err
	}
	return &fileWriter[T]{newParquetWriter(s, out, pageBytes, job), at, out, f}, nil
}

// finish makes the file durable, with others if there are any.
func (w *fileWriter[T]) finish(ctx context.Context, with *uploads) (*dataFile, error) {
	meta, err := w.parquetWriter.finish(ctx)
	if err != nil {
		w.abandon()
		return nil, fmt.Errorf("write file: %w", err)
	}
	if err := with.do(w.file.Close); err != nil {
		return nil, fmt.Errorf("write file: %w", err)
	}
	w.listed.bytes = w.n
	w.listed.measure(&w.schema.layout, meta)
	w.close()
	return w.listed, nil
}

// abandon gives a file up.
func (w *fileWriter[T]) abandon() {
	w.file.Abort()
}
