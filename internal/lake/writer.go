package lake

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

const (
	// rowsPerGroup bounds what a writer of a part holds in memory: about 8 MB of events.
	rowsPerGroup = 128 << 10
	// dictionaryBytes is where a dictionary has lost its sense and the column goes on in plain. Larger ones were
	// tried: slower, no smaller parts, and compaction holds one for each column of each part it merges.
	dictionaryBytes = 256 << 10
	// Pages bound what a reader holds, for each column of each part it merges. Longer ones hardly shrink better.
	freshPage  = 64 << 10
	packedPage = 256 << 10
	// writeRows is how many rows are handed to parquet-go at a time; it is fastest with several.
	writeRows = 64
)

// Fresh parts are written in a hurry and live for minutes; packed ones stay for a year.
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
	runtime.Gosched() // between two pages: loading can wait for a moment, senders cannot
	return c.encoder().EncodeAll(src, dst[:0]), nil
}
func (c *codec) Decode(dst, src []byte) ([]byte, error) { return c.decoder().DecodeAll(src, dst[:0]) }

// partWriter writes parts of one table one after the other. It keeps its buffers, which are large.
type partWriter[T any] struct {
	layout *layout
	at     storage
	w      *parquet.GenericWriter[T]
	out    *countWriter
	part   *part
	rows   []T
	pace   *Pace
}

func newPartWriter[T any](l *layout, codec *codec, pageBytes int) *partWriter[T] {
	return &partWriter[T]{layout: l, rows: make([]T, 0, writeRows), w: newParquet[T](nil, codec, pageBytes)}
}

func newParquet[T any](w io.Writer, codec *codec, pageBytes int) *parquet.GenericWriter[T] {
	return parquet.NewGenericWriter[T](
		w,
		parquet.Compression(codec),
		parquet.PageBufferSize(pageBytes),
		parquet.WriteBufferSize(256<<10),
		parquet.MaxRowsPerRowGroup(rowsPerGroup),
		parquet.DictionaryMaxBytes(dictionaryBytes),
		parquet.DataPageVersion(1),        // every reader knows it
		parquet.DataPageStatistics(false), // the page index has them
		parquet.CreatedBy("sluice", "1", ""),
		parquet.ColumnIndexSizeLimit(func([]string) int { return 32 }), // a whole hash
	)
}

// begin starts a part for a day.
func (w *partWriter[T]) begin(at storage, day int32) error {
	p := &part{name: newPartName(day), day: day}
	out, err := at.Create(p.name)
	if err != nil {
		return err
	}
	w.at, w.part, w.out, w.rows = at, p, &countWriter{WriteCloser: out}, w.rows[:0]
	w.w.Reset(w.out)
	return nil
}

// next is the place for the next row. What is in it must stay as it is until the part is finished or writeRows
// more rows have been added.
func (w *partWriter[T]) next() (*T, error) {
	if len(w.rows) == cap(w.rows) {
		if err := w.flush(); err != nil {
			return nil, err
		}
	}
	w.rows = w.rows[:len(w.rows)+1]
	return &w.rows[len(w.rows)-1], nil
}

func (w *partWriter[T]) flush() error {
	_, err := w.w.Write(w.rows)
	w.pace.Rest()
	w.rows = w.rows[:0]
	return err
}

// finish makes the part durable.
func (w *partWriter[T]) finish() (*part, error) {
	err := errors.Join(w.flush(), w.w.Close())
	if err != nil {
		w.abandon()
		return nil, fmt.Errorf("write part: %w", err)
	}
	if err := w.out.Close(); err != nil {
		return nil, fmt.Errorf("write part: %w", err)
	}
	p := w.part
	p.bytes = w.out.n
	p.measure(w.layout, w.w.File().Metadata())
	clear(w.rows[:cap(w.rows)]) // they hold request bodies
	o, err := w.at.Open(p.name)
	if err != nil {
		return nil, fmt.Errorf("write part: %w", err)
	}
	p.check, err = checksum(o, p.index)
	return p, errors.Join(err, o.Close())
}

// abandon gives a part up and removes what there is of it.
func (w *partWriter[T]) abandon() {
	_ = w.out.Close()
	_ = w.at.Remove(w.part.name)
}
