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
	// rowsPerGroup bounds what a writer of a file holds in memory: about 8 MB of events.
	rowsPerGroup = 128 << 10
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

// Fresh files are written in a hurry and live for minutes; packed ones stay for a year.
var (
	fresh  = newCodec(zstd.SpeedFastest)
	packed = newCodec(zstd.SpeedBetterCompression)
)

// codec is zstd with no more memory than pages need: parquet-go's own keeps windows of megabytes.
type codec struct {
	encoder func() *zstd.Encoder
	decoder func() *zstd.Decoder
}

func newCodec(level zstd.EncoderLevel) *codec {
	return &codec{
		encoder: sync.OnceValue(func() *zstd.Encoder {
			e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(level), zstd.WithEncoderConcurrency(2),
				zstd.WithWindowSize(packedPage), zstd.WithLowerEncoderMem(true), zstd.WithZeroFrames(true), zstd.WithEncoderCRC(false))
			if err != nil {
				panic(err) // the options are constants
			}
			return e
		}),
		decoder: sync.OnceValue(func() *zstd.Decoder {
			d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(2), zstd.WithDecoderLowmem(true))
			if err != nil {
				panic(err)
			}
			return d
		}),
	}
}

func (c *codec) String() string                            { return "ZSTD" }
func (c *codec) CompressionCodec() format.CompressionCodec { return format.Zstd }
func (c *codec) Encode(dst, src []byte) ([]byte, error) {
	return c.encoder().EncodeAll(src, dst[:0]), nil
}
func (c *codec) Decode(dst, src []byte) ([]byte, error) { return c.decoder().DecodeAll(src, dst[:0]) }

// parquetWriter writes one Parquet file. There is one for each: parquet-go's Reset spoils the names of the columns in every
// file but the first (docs/decisions/0040).
type parquetWriter[T any] struct {
	schema  *Schema[T]
	w       *parquet.GenericWriter[any]
	columns []*parquet.ColumnWriter
	out     *tailWriter
	rows    []T // not yet handed to the columns
	group   int // rows in the row group so far
	values  vector
	job     *throttle.Job
}

func newParquetWriter[T any](s *Schema[T], out io.Writer, codec *codec, pageBytes int, job *throttle.Job) *parquetWriter[T] {
	w := &parquetWriter[T]{schema: s, out: &tailWriter{out: out}, rows: make([]T, 0, writeRows), job: job}
	w.values.values = make([]parquet.Value, 0, writeRows)
	w.w = parquet.NewGenericWriter[any](
		w.out,
		s.parquet(),
		parquet.Compression(codec),
		parquet.PageBufferSize(pageBytes),
		parquet.WriteBufferSize(256<<10),
		parquet.DictionaryMaxBytes(dictionaryBytes),
		parquet.DataPageVersion(1),        // every reader knows it
		parquet.DataPageStatistics(false), // the page index has them
		parquet.CreatedBy("sluice", writerVersion, ""),
		parquet.ColumnIndexSizeLimit(func([]string) int { return 32 }), // a whole hash
	)
	w.columns = w.w.ColumnWriters()
	return w
}

// add takes a row in. What is in it must stay as it is until the file is finished or writeRows more were added.
func (w *parquetWriter[T]) add(ctx context.Context, row *T) error {
	if len(w.rows) == cap(w.rows) {
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

// flush hands the rows to the columns, one column after the other.
func (w *parquetWriter[T]) flush(ctx context.Context) error {
	for i := range w.schema.Columns {
		c := &w.schema.Columns[i]
		w.values.begin(c.optional)
		c.get(&w.values, w.rows)
		n, err := w.columns[i].WriteRowValues(w.values.values)
		if err == nil && n != len(w.rows) {
			err = fmt.Errorf("%d rows became %d", len(w.rows), n)
		}
		if err != nil {
			return fmt.Errorf("column %s: %w", c.name, err)
		}
	}
	w.group += len(w.rows)
	w.rows = w.rows[:0]
	if err := w.job.Pause(ctx); err != nil {
		return err
	}
	if w.group < rowsPerGroup {
		return nil
	}
	return w.endGroup()
}

func (w *parquetWriter[T]) endGroup() error {
	w.group = 0
	return w.w.Flush()
}

// finish writes what is left and the footer, and says what is in the file.
func (w *parquetWriter[T]) finish(ctx context.Context) (*format.FileMetaData, error) {
	if err := errors.Join(w.flush(ctx), w.endGroup()); err != nil {
		return nil, err
	}
	w.w.SetKeyValueMetadata(checkKey, noCheck)
	w.out.hold = true
	if err := w.w.Close(); err != nil {
		return nil, err
	}
	meta := w.w.File().Metadata()
	index := indexOffset(meta)
	pages := index - w.out.n // that were still in a buffer
	if pages < 0 || pages > int64(len(w.out.tail)) {
		return nil, errors.New("the footer was written early")
	}
	tail, err := encodeTail(w.out.tail[pages:], meta, index)
	if err != nil {
		return nil, err
	}
	w.out.hold = false
	_, err = w.out.Write(append(w.out.tail[:pages:pages], tail...))
	return meta, err
}

// tailWriter keeps back what parquet-go writes at the end of a file: encodeTail writes it instead.
type tailWriter struct {
	out  io.Writer
	n    int64 // bytes so far
	hold bool
	tail []byte
}

func (w *tailWriter) Write(p []byte) (int, error) {
	if w.hold {
		w.tail = append(w.tail, p...)
		return len(p), nil
	}
	n, err := w.out.Write(p)
	w.n += int64(n)
	return n, err
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
	at objectstore.Store, s *Schema[T], day int32, codec *codec, pageBytes int, job *throttle.Job,
) (*fileWriter[T], error) {
	f := &dataFile{name: newFileName(day), day: day}
	out, err := at.Create(f.name)
	if err != nil {
		return nil, err
	}
	return &fileWriter[T]{newParquetWriter(s, out, codec, pageBytes, job), at, out, f}, nil
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
	w.listed.bytes = w.out.n
	w.listed.measure(&w.schema.layout, meta)
	return w.listed, nil
}

// abandon gives a file up.
func (w *fileWriter[T]) abandon() {
	w.file.Abort()
}
