package iceberg

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strconv"
	"strings"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"sluice/internal/objectstore"
)

// Parquet has a checksum for each page, and none for the footer, which says what the columns are called, nor for the
// indexes, which say where rows are. One flipped bit there and a column is empty, or a row another row's. So each of
// our files has one of both, among the footer's free key-value pairs: the CRC-32C, in hex, of everything from the
// first index to the end, with noCheck in its own place.
const (
	checkKey = "sluice.footer-crc32c"
	noCheck  = "00000000"
)

// indexOffset is where the pages of a file end: parquet-go writes the indexes right after them.
func indexOffset(meta *format.FileMetaData) int64 {
	if len(meta.RowGroups) == 0 || len(meta.RowGroups[0].Columns) == 0 {
		return int64(len("PAR1"))
	}
	return meta.RowGroups[0].Columns[0].ColumnIndexOffset
}

// encodeTail is what follows the pages of a file: the indexes, the footer, and the checksum of both. written is what
// parquet-go made of it, which begins at offset index of the file; the offsets in meta change. We write it anew because
// parquet-go leaves the bounds of pages without values out of the index of a column of fixed length, so that the bounds
// of the others stand at wrong pages (docs/decisions/0040).
func encodeTail(written []byte, meta *format.FileMetaData, index int64) ([]byte, error) {
	out := make([]byte, 0, len(written)+1024)
	for g := range meta.RowGroups {
		for i := range meta.RowGroups[g].Columns {
			c := &meta.RowGroups[g].Columns[i]
			raw, err := cut(written, c.ColumnIndexOffset-index, c.ColumnIndexLength)
			if err != nil {
				return nil, err
			}
			if raw, err = withNullPages(raw); err != nil {
				return nil, err
			}
			c.ColumnIndexOffset, c.ColumnIndexLength = index+int64(len(out)), int32(len(raw))
			out = append(out, raw...)
		}
	}
	for g := range meta.RowGroups {
		for i := range meta.RowGroups[g].Columns {
			c := &meta.RowGroups[g].Columns[i]
			raw, err := cut(written, c.OffsetIndexOffset-index, c.OffsetIndexLength)
			if err != nil {
				return nil, err
			}
			c.OffsetIndexOffset = index + int64(len(out))
			out = append(out, raw...)
		}
	}
	footer, err := thrift.Marshal(new(thrift.CompactProtocol), meta)
	if err != nil {
		return nil, err
	}
	out = append(out, footer...)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(footer)))
	out = append(out, "PAR1"...)
	return out, putCheck(out)
}

func cut(b []byte, at int64, n int32) ([]byte, error) {
	if at < 0 || n <= 0 || at+int64(n) > int64(len(b)) {
		return nil, errors.New("an index that is not in the tail of its file")
	}
	return b[at : at+int64(n)], nil
}

// withNullPages gives every page of a column index a bound; that of a page without values is empty.
func withNullPages(raw []byte) ([]byte, error) {
	var index format.ColumnIndex
	if err := thrift.Unmarshal(new(thrift.CompactProtocol), raw, &index); err != nil {
		return nil, err
	}
	if len(index.MinValues) == len(index.NullPages) {
		return raw, nil
	}
	spread := func(values [][]byte) [][]byte {
		out := make([][]byte, len(index.NullPages))
		for i, null := range index.NullPages {
			if out[i] = []byte{}; !null && len(values) > 0 {
				out[i], values = values[0], values[1:]
			}
		}
		return out
	}
	index.MinValues, index.MaxValues = spread(index.MinValues), spread(index.MaxValues)
	return thrift.Marshal(new(thrift.CompactProtocol), &index)
}

// checkAt finds the checksum in the end of a file. Key-value pairs come after everything that senders wrote, so the
// last mention of the key is the key itself.
func checkAt(tail []byte) (value []byte, err error) {
	at := bytes.LastIndex(tail, []byte(checkKey))
	if at < 0 {
		return nil, errors.New("no checksum in the footer")
	}
	at += len(checkKey) + 2 // the header of the member, and its length
	if at+len(noCheck) > len(tail) {
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
func verify(f *parquet.File, o objectstore.Object) error {
	meta := f.Metadata()
	found := false
	for _, kv := range meta.KeyValueMetadata {
		found = found || kv.Key == checkKey
	}
	if !found && !strings.HasPrefix(meta.CreatedBy, "sluice version "+writerVersion) {
		return nil
	}
	tail, err := readFrom(o, indexOffset(meta))
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

func readFrom(o objectstore.Object, offset int64) ([]byte, error) {
	if offset < 0 || offset > o.Size() {
		return nil, errors.New("no place for a footer")
	}
	b := make([]byte, o.Size()-offset)
	if _, err := o.ReadAt(b, offset); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return b, nil
}

// oldCheck is the checksum that version 1 kept in the manifest, as the sizes of two columns that no schema has.
type oldCheck struct {
	index int64  // where the pages end
	sum   uint32 // of what follows; 0 when not known
}

const (
	oldIndexAt    = 998
	oldIndexCheck = 999
)

// takeOldCheck takes the checksum out of the sizes. They are all that version 1 kept there, so none are left.
func (p *dataFile) takeOldCheck() {
	index, ok := p.sizes[oldIndexAt]
	if !ok {
		return
	}
	p.old = &oldCheck{index, uint32(p.sizes[oldIndexCheck])}
	p.sizes = nil
}

func (c *oldCheck) verify(o objectstore.Object) error {
	if c == nil || c.sum == 0 {
		return nil
	}
	tail, err := readFrom(o, c.index)
	if err == nil && crc32.Checksum(tail, castagnoli) != c.sum {
		err = errors.New("checksum of the footer differs")
	}
	return err
}
