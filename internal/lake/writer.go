package lake

import (
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"
)

const (
	// rowsPerGroup bounds what a reader or writer of a part holds in memory: about 15 MB of events.
	rowsPerGroup = 128 << 10
	// dictionaryBytes is where a dictionary has lost its sense: the column goes on in plain.
	dictionaryBytes = 1 << 20
	freshPage       = 256 << 10
	packedPage      = 1 << 20 // longer pages shrink better
	// writeRows is how many rows are handed to parquet-go at a time; it is fastest with several.
	writeRows = 256
)

// Fresh parts are written in a hurry and live for minutes; packed ones stay for a year.
var (
	fresh  = &zstd.Codec{Level: zstd.SpeedFastest}
	packed = &zstd.Codec{Level: zstd.SpeedBetterCompression}
)

// partWriter writes parts of one table one after the other. It keeps its buffers, which are large.
type partWriter[T any] struct {
	layout *layout
	at     storage
	w      *parquet.GenericWriter[T]
	out    *countWriter
	part   *part
	rows   []T
	sum    int64
}

func newPartWriter[T any](l *layout, codec *zstd.Codec, pageBytes int) *partWriter[T] {
	return &partWriter[T]{layout: l, rows: make([]T, 0, writeRows), w: newParquet[T](nil, codec, pageBytes)}
}

func newParquet[T any](w io.Writer, codec *zstd.Codec, pageBytes int) *parquet.GenericWriter[T] {
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
	w.at, w.part, w.out, w.rows, w.sum = at, p, &countWriter{WriteCloser: out}, w.rows[:0], 0
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
	w.sum += int64(len(w.rows))
	w.rows = w.rows[:0]
	return err
}

// size is about how long the file would be now, and how many rows it has.
func (w *partWriter[T]) size() (bytes, rows int64) { return w.out.n, w.sum + int64(len(w.rows)) }

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
