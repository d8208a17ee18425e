package parquetfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// Parquet has a checksum for each page, and none for the footer, which says what the columns are called, nor for the
// indexes, which say where rows are. One flipped bit there and a column is empty, or a row another row's. So each of
// our files has one of both, among the footer's free key-value pairs: the CRC-32C, in hex, of everything from the
// first index to the end, with noCheck in its own place.
const (
	checkKey = "sluice.footer-crc32c"
	noCheck  = "00000000"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// indexOffset is where the pages of a file end: parquet-go writes the indexes right after them.
func indexOffset(meta *format.FileMetaData) int64 {
	if len(meta.RowGroups) == 0 || len(meta.RowGroups[0].Columns) == 0 {
		return int64(len("PAR1"))
	}
	return meta.RowGroups[0].Columns[0].ColumnIndexOffset
}

// encodeTail is what follows the pages of a file, which end at offset at: the indexes, the footer, and the checksum of
// both. It puts the places of the indexes into meta.
func encodeTail(
	meta *format.FileMetaData, columns []format.ColumnIndex, offsets []format.OffsetIndex, at int64,
) (out []byte, err error) {
	add := func(v any) (offset int64, length int32) {
		b, merr := thrift.Marshal(new(thrift.CompactProtocol), v)
		err = errors.Join(err, merr)
		out = append(out, b...)
		return at + int64(len(out)-len(b)), int32(len(b))
	}
	all := make([]*format.ColumnChunk, 0, len(columns))
	for g := range meta.RowGroups {
		for i := range meta.RowGroups[g].Columns {
			all = append(all, &meta.RowGroups[g].Columns[i])
		}
	}
	for i, c := range all {
		c.ColumnIndexOffset, c.ColumnIndexLength = add(&columns[i])
	}
	for i, c := range all {
		c.OffsetIndexOffset, c.OffsetIndexLength = add(&offsets[i])
	}
	_, length := add(meta)
	if err != nil {
		return nil, err
	}
	out = binary.LittleEndian.AppendUint32(out, uint32(length))
	out = append(out, "PAR1"...)
	return out, putCheck(out)
}

// checkAt finds the checksum in the end of a file. Key-value pairs come after everything that senders wrote, so the
// last mention of the key is the key itself.
func checkAt(tail []byte) (value []byte, err error) {
	key := bytes.LastIndex(tail, []byte(checkKey))
	at := key + len(checkKey) + 2 // the header of the member, and its length
	if key < 0 || at+len(noCheck) > len(tail) {
		return nil, errors.New("no checksum in the footer")
	}
	return tail[at : at+len(noCheck)], nil
}

func putCheck(tail []byte) error {
	value, err := checkAt(tail)
	if err != nil {
		return err
	}
	if string(value) != noCheck {
		return errors.New("the footer has no place for its checksum")
	}
	copy(value, fmt.Sprintf("%08x", crc32.Checksum(tail, castagnoli)))
	return nil
}

// verify says whether the end of a file is as it was written. A file of another program has no checksum, and is taken
// as it is.
func verify(f *parquet.File, in Input) error {
	meta := f.Metadata()
	checked := slices.ContainsFunc(meta.KeyValueMetadata, func(kv format.KeyValue) bool { return kv.Key == checkKey })
	if !checked && !strings.HasPrefix(meta.CreatedBy, writerName+" version ") {
		return nil
	}
	at := indexOffset(meta)
	tail, err := readSpan(nil, in, at, in.Size()-at)
	if err != nil {
		return err
	}
	value, err := checkAt(tail)
	if err != nil {
		return err
	}
	want, err := strconv.ParseUint(string(value), 16, 32)
	copy(value, noCheck)
	if err != nil || crc32.Checksum(tail, castagnoli) != uint32(want) {
		return errors.New("checksum of the footer differs")
	}
	return nil
}

// readSpan reads n bytes of a file into memory that may be used again.
func readSpan(memory []byte, in Input, at, n int64) ([]byte, error) {
	if at < 0 || n < 0 || at+n > in.Size() {
		return nil, errAltered
	}
	b := slices.Grow(memory[:0], int(n))[:n]
	if _, err := in.ReadAt(b, at); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return b, nil
}

// DictionaryBytes is about how many bytes the dictionaries of a file of so many bytes are, all of which a merge holds.
func DictionaryBytes(in Input, size int64) (sum int64, err error) {
	f, err := open(in, size)
	if err != nil {
		return 0, err
	}
	for _, g := range f.Metadata().RowGroups {
		for i := range g.Columns {
			c := &g.Columns[i].MetaData
			if c.DictionaryPageOffset > 0 && c.TotalCompressedSize > 0 {
				part := float64(c.DataPageOffset-c.DictionaryPageOffset) / float64(c.TotalCompressedSize)
				sum += int64(part * float64(c.TotalUncompressedSize))
			}
		}
	}
	return sum, nil
}
