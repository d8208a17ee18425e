package iceberg

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"sluice/internal/objectstore"
	"sluice/internal/throttle"
)

// rowGroup is a row group of a file, as it lies there.
type rowGroup struct {
	of              *dataFile
	object          objectstore.Object
	meta            *format.RowGroup
	least, greatest []byte // of the first column that rows are sorted by
}

// copyGroups makes one file of others whose row groups are large, and follow one another in the first column that rows are
// sorted by: it copies the row groups as they are, for a fraction of the work of a merge. By the other columns, rows are sorted
// inside of each row group only, so the file does not say that it is sorted; a merge of such a file still sorts by the first
// one. It answers nil where that cannot be. Nothing is committed.
func (t *Table[T]) copyGroups(ctx context.Context, files []*dataFile, job *throttle.Job) (made []*dataFile, err error) {
	if t.schema.Fold != nil || !largeGroups(files, t.fileBytes) {
		return nil, nil
	}
	var groups []rowGroup
	for _, p := range files {
		o, err := t.openFile(p)
		if err != nil {
			return nil, err
		}
		defer o.Close()
		f, err := openParquet(p, o)
		if err == nil && f.NumRows() != p.rows {
			err = fmt.Errorf("%d rows instead of %d", f.NumRows(), p.rows)
		}
		if err != nil {
			return nil, t.unreadableFile(p, err)
		}
		if !t.schema.wrote(f) {
			return nil, nil
		}
		groups = append(groups, t.groupsOf(p, o, f)...)
	}
	if !consecutive(groups) {
		return nil, nil
	}
	w, err := createFile(t.store, t.schema, files[0].day, packedPage, job)
	if err != nil {
		return nil, err
	}
	w.listed.unsorted = true
	for i := range groups {
		if err := w.copyGroup(ctx, &groups[i]); err != nil {
			w.abandon()
			if errors.Is(err, errAltered) {
				err = t.unreadableFile(groups[i].of, err)
			}
			return nil, err
		}
	}
	f, err := w.finish(ctx, nil)
	if err != nil {
		return nil, err
	}
	return []*dataFile{f}, nil
}

// largeGroups says whether row groups are large enough to stay as they are: each costs readers a look at every column.
func largeGroups(files []*dataFile, fileBytes int64) bool {
	size, groups := int64(0), int64(0)
	for _, p := range files {
		size += p.bytes
		groups += int64(len(p.splits))
	}
	return groups > 0 && size/groups >= fileBytes/groupsPerFile
}

// groupsPerFile is how many row groups a file of full size may have: 2 MiB each, or 20,000 usual events.
const groupsPerFile = 96

func anyUnsorted(files []*dataFile) bool {
	return slices.ContainsFunc(files, func(p *dataFile) bool { return p.unsorted })
}

// groupsOf are the row groups of a file.
func (t *Table[T]) groupsOf(p *dataFile, o objectstore.Object, f *parquet.File) (out []rowGroup) {
	first := slices.IndexFunc(t.schema.Columns, func(c Column[T]) bool { return c.name == t.schema.Order[0] })
	all := f.Metadata().RowGroups
	for i := range all {
		s := &all[i].Columns[first].MetaData.Statistics
		out = append(out, rowGroup{p, o, &all[i], s.MinValue, s.MaxValue})
	}
	return out
}

// consecutive puts row groups into the order of the first column that rows are sorted by, and says whether each begins where
// the one before ends, or later. The column is text, and every row has it.
func consecutive(groups []rowGroup) bool {
	slices.SortStableFunc(groups, func(a, b rowGroup) int { return bytes.Compare(a.least, b.least) })
	for i := range groups {
		if groups[i].least == nil || i > 0 && bytes.Compare(groups[i-1].greatest, groups[i].least) > 0 {
			return false
		}
	}
	return true
}

// errAltered says that bytes are not as they were written.
var errAltered = errors.New("bytes differ from their checksums or their index")

// copyGroup adds a row group of another file. Each page is compared with its checksum on the way.
func (w *parquetWriter[T]) copyGroup(ctx context.Context, from *rowGroup) error {
	group, err := w.beginGroup()
	if err != nil {
		return err
	}
	group.TotalByteSize, group.TotalCompressedSize = from.meta.TotalByteSize, from.meta.TotalCompressedSize
	group.Columns = slices.Clone(from.meta.Columns)
	for i := range group.Columns {
		c := &group.Columns[i]
		var index format.ColumnIndex
		var offsets format.OffsetIndex
		if err := errors.Join(
			readThrift(from.object, c.ColumnIndexOffset, c.ColumnIndexLength, &index),
			readThrift(from.object, c.OffsetIndexOffset, c.OffsetIndexLength, &offsets),
		); err != nil {
			return err
		}
		at := c.MetaData.DataPageOffset
		if d := c.MetaData.DictionaryPageOffset; d > 0 {
			at = d
		}
		b, err := readSpan(w.copied, from.object, at, c.MetaData.TotalCompressedSize)
		if err != nil {
			return err
		}
		w.copied = b
		if !intact(b, at, &c.MetaData, offsets.PageLocations) {
			return errAltered
		}
		shift := w.n - at
		c.MetaData.DataPageOffset += shift
		if c.MetaData.DictionaryPageOffset > 0 {
			c.MetaData.DictionaryPageOffset += shift
		}
		for k := range offsets.PageLocations {
			offsets.PageLocations[k].Offset += shift
		}
		if err := w.emit(b); err != nil {
			return err
		}
		w.columns, w.offsets = append(w.columns, index), append(w.offsets, offsets)
		if err := w.job.Pause(ctx); err != nil {
			return err
		}
	}
	w.closeGroup(group, int(from.meta.NumRows))
	return nil
}

// readThrift reads a part of a file's indexes.
func readThrift(o objectstore.Object, at int64, length int32, into any) error {
	b, err := readSpan(nil, o, at, int64(length))
	if err != nil {
		return err
	}
	if thrift.Unmarshal(new(thrift.CompactProtocol), b, into) != nil {
		return errAltered
	}
	return nil
}

// intact says whether the pages of a column are as they were written: by their checksums, which do not cover the headers, and by
// what the index and the footer say of all of them. The bytes begin at offset at of the file.
func intact(b []byte, at int64, c *format.ColumnMetaData, places []format.PageLocation) (ok bool) {
	defer func() { ok = recover() == nil && ok }() // damaged bytes may be too much for the decoder
	values, size := int64(0), int64(0)
	page := func(from, to int64) (h format.PageHeader, ok bool) {
		if from < 0 || to < from || to > int64(len(b)) {
			return h, false
		}
		r := new(thrift.CompactProtocol).NewReaderFromBytes(b[from:to])
		if thrift.NewDecoder(r).Decode(&h) != nil {
			return h, false
		}
		body := b[from+int64(r.BytesRead()) : to]
		size += int64(r.BytesRead()) + int64(h.UncompressedPageSize)
		return h, len(body) == int(h.CompressedPageSize) && int32(crc32.ChecksumIEEE(body)) == h.CRC
	}
	if c.DataPageOffset > at {
		if h, ok := page(0, c.DataPageOffset-at); !ok || h.Type != format.DictionaryPage || !h.DictionaryPageHeader.Valid {
			return false
		}
	}
	next := c.DataPageOffset
	for _, p := range places {
		h, ok := page(p.Offset-at, p.Offset-at+int64(p.CompressedPageSize))
		d := &h.DataPageHeader.V
		if !ok || p.Offset != next || h.Type != format.DataPage || !h.DataPageHeader.Valid || !slices.Contains(c.Encoding, d.Encoding) ||
			d.DefinitionLevelEncoding != format.RLE || d.RepetitionLevelEncoding != format.RLE {
			return false
		}
		next += int64(p.CompressedPageSize)
		values += int64(d.NumValues)
	}
	return next == at+int64(len(b)) && values == c.NumValues && size == c.TotalUncompressedSize
}
