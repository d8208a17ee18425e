package readers

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
)

// chunk is the content of a column chunk: levels as stored, and the values that are not null in Parquet's plain form,
// which for our types is Iceberg's single-value form as well.
type chunk struct {
	kind     Kind
	levels   []int16 // definition levels
	repeated []int16 // repetition levels
	present  int16   // definition level of a value
	values   [][]byte
}

// readChunk reads a chunk without its statistics.
func readChunk(kind Kind, r file.ColumnChunkReader, n int64) (*chunk, error) {
	d := r.Descriptor()
	c := &chunk{kind: kind, present: d.MaxDefinitionLevel(), levels: make([]int16, n), repeated: make([]int16, n)}
	var err error
	switch r := r.(type) {
	case *file.Int32ColumnChunkReader:
		err = fill(c, n, r.ReadBatch, func(v int32) []byte { return binary.LittleEndian.AppendUint32(nil, uint32(v)) })
	case *file.Int64ColumnChunkReader:
		err = fill(c, n, r.ReadBatch, func(v int64) []byte { return binary.LittleEndian.AppendUint64(nil, uint64(v)) })
	case *file.Float64ColumnChunkReader:
		err = fill(c, n, r.ReadBatch, func(v float64) []byte { return binary.LittleEndian.AppendUint64(nil, math.Float64bits(v)) })
	case *file.BooleanColumnChunkReader:
		err = fill(c, n, r.ReadBatch, func(v bool) []byte {
			if v {
				return []byte{1}
			}
			return []byte{0}
		})
	case *file.ByteArrayColumnChunkReader:
		err = fill(c, n, r.ReadBatch, func(v parquet.ByteArray) []byte { return bytes.Clone(v) })
	case *file.FixedLenByteArrayColumnChunkReader:
		err = fill(c, n, r.ReadBatch, func(v parquet.FixedLenByteArray) []byte { return bytes.Clone(v) })
	default:
		err = fmt.Errorf("a column of type %s", d.PhysicalType())
	}
	return c, err
}

func fill[T any](c *chunk, n int64, read func(int64, []T, []int16, []int16) (int64, int, error), plain func(T) []byte) error {
	values := make([]T, n)
	at := int64(0)
	for at < n {
		total, some, err := read(n-at, values, c.levels[at:], c.repeated[at:])
		if err != nil {
			return err
		}
		if total == 0 {
			return fmt.Errorf("%d values, want %d", at, n)
		}
		if c.present == 0 { // a required column has no levels
			clear(c.levels[at : at+total])
		}
		for _, v := range values[:some] {
			c.values = append(c.values, plain(v))
		}
		at += total
	}
	return nil
}

// span is what some consecutive rows of a chunk hold.
type span struct {
	values   int64 // nulls included
	nulls    int64
	min, max []byte // nil without a value
}

// spans cuts the chunk at the rows given: each number is the first row of a span.
func (c *chunk) spans(firstRows []int64) []span {
	out := make([]span, len(firstRows))
	row, at, next := int64(-1), -1, 0
	for i, level := range c.levels {
		if c.repeated[i] == 0 {
			row++
			for at+1 < len(firstRows) && firstRows[at+1] <= row {
				at++
			}
		}
		s := &out[max(at, 0)]
		s.values++
		if level != c.present {
			s.nulls++
			continue
		}
		s.widen(c.kind, c.values[next], c.values[next])
		next++
	}
	return out
}

func (s *span) widen(kind Kind, low, high []byte) {
	if low == nil {
		return
	}
	if s.min == nil || compareValues(kind, low, s.min) < 0 {
		s.min = low
	}
	if s.max == nil || compareValues(kind, high, s.max) > 0 {
		s.max = high
	}
}

// compareValues orders values in plain form as the Parquet specification orders them for their types.
func compareValues(kind Kind, a, b []byte) int {
	switch kind {
	case Int32, Int32s:
		if len(a) == 4 && len(b) == 4 {
			return cmp.Compare(int32(binary.LittleEndian.Uint32(a)), int32(binary.LittleEndian.Uint32(b)))
		}
	case Int64, Time:
		if len(a) == 8 && len(b) == 8 {
			return cmp.Compare(int64(binary.LittleEndian.Uint64(a)), int64(binary.LittleEndian.Uint64(b)))
		}
	case Double:
		if len(a) == 8 && len(b) == 8 {
			return cmp.Compare(math.Float64frombits(binary.LittleEndian.Uint64(a)), math.Float64frombits(binary.LittleEndian.Uint64(b)))
		}
	}
	return bytes.Compare(a, b)
}

// lowerFits says whether a stored lower bound belongs to the least value: it is that value, or of a text or of bytes its
// beginning.
func lowerFits(kind Kind, bound, least []byte) bool {
	return compareValues(kind, bound, least) == 0 || cutKind(kind) && bytes.HasPrefix(least, bound)
}

// upperFits says whether a stored upper bound belongs to the greatest value: it is that value, or of a text or of bytes a
// beginning of it whose last character is raised.
func upperFits(kind Kind, bound, greatest []byte) bool {
	if compareValues(kind, bound, greatest) == 0 {
		return true
	}
	if !cutKind(kind) || bytes.Compare(bound, greatest) < 0 || len(bound) == 0 {
		return false
	}
	_, last := utf8.DecodeLastRune(bound)
	return bytes.HasPrefix(greatest, bound[:len(bound)-last])
}

// cutKind says whether bounds of such values may be shortened.
func cutKind(kind Kind) bool { return kind == Text || kind == Hash || kind == UUID }
