package parquetfile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// rowGroup is a row group of a file, as it lies there.
type rowGroup struct {
	file            int // which of the sources
	in              Input
	meta            *format.RowGroup
	least, greatest []byte // of the first column that rows are sorted by
}

// Copy is a plan to make one file of others by copying their row groups.
type Copy struct{ groups []rowGroup }

// PlanCopy plans to copy the row groups of files as they are, for a fraction of the work of a merge. That can be if
// they follow one another in a column of text that every row has, the first that rows are sorted by. By other columns
// rows are then sorted inside of each row group only. It answers nil where it cannot be. A *SourceError says which file
// cannot be read. The files stay open until they are copied.
func (s *Schema[T]) PlanCopy(ctx context.Context, files []Source, first string) (*Copy, error) {
	column := slices.IndexFunc(s.columns, func(c Column[T]) bool { return c.Name == first })
	var groups []rowGroup
	for i := range files {
		f, err := open(files[i].In, files[i].Bytes)
		if err == nil && f.NumRows() != files[i].Rows {
			err = fmt.Errorf("%d rows instead of %d", f.NumRows(), files[i].Rows)
		}
		if err != nil {
			return nil, sourceError(ctx, i, err)
		}
		if !s.wrote(f) {
			return nil, nil
		}
		all := f.Metadata().RowGroups
		for k := range all {
			bounds := &all[k].Columns[column].MetaData.Statistics
			groups = append(groups, rowGroup{i, files[i].In, &all[k], bounds.MinValue, bounds.MaxValue})
		}
	}
	if !consecutive(groups) {
		return nil, nil
	}
	return &Copy{groups}, nil
}

// consecutive puts row groups into the order of the first column that rows are sorted by, and says whether each begins
// where the one before ends, or later.
func consecutive(groups []rowGroup) bool {
	slices.SortStableFunc(groups, func(a, b rowGroup) int { return bytes.Compare(a.least, b.least) })
	for i := range groups {
		if groups[i].least == nil || i > 0 && bytes.Compare(groups[i-1].greatest, groups[i].least) > 0 {
			return false
		}
	}
	return true
}

// CopyGroups adds the row groups of a plan. A *SourceError says which file is damaged.
func (w *Writer[T]) CopyGroups(ctx context.Context, c *Copy) error {
	for i := range c.groups {
		err := w.copyGroup(ctx, &c.groups[i])
		if errors.Is(err, errAltered) {
			err = sourceError(ctx, c.groups[i].file, err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// errAltered says that bytes are not as they were written.
var errAltered = errors.New("bytes differ from their checksums or their index")

// copyGroup adds a row group of another file.
func (w *Writer[T]) copyGroup(ctx context.Context, from *rowGroup) error {
	group, err := w.beginGroup()
	if err != nil {
		return err
	}
	group.TotalByteSize, group.TotalCompressedSize = from.meta.TotalByteSize, from.meta.TotalCompressedSize
	group.Columns = slices.Clone(from.meta.Columns)
	for i := range group.Columns {
		if err := w.copyColumn(from.in, &group.Columns[i]); err != nil {
			return err
		}
		if err := w.job.Pause(ctx); err != nil {
			return err
		}
	}
	w.closeGroup(group, int(from.meta.NumRows))
	return nil
}

// copyColumn copies a column of a row group, with its indexes, and corrects its places in c. Each page is compared with
// its checksum on the way.
func (w *Writer[T]) copyColumn(in Input, c *format.ColumnChunk) error {
	var index format.ColumnIndex
	var offsets format.OffsetIndex
	if err := errors.Join(
		readThrift(in, c.ColumnIndexOffset, c.ColumnIndexLength, &index),
		readThrift(in, c.OffsetIndexOffset, c.OffsetIndexLength, &offsets),
	); err != nil {
		return err
	}
	at := c.MetaData.DataPageOffset
	if d := c.MetaData.DictionaryPageOffset; d > 0 {
		at = d
	}
	b, err := readSpan(w.copied, in, at, c.MetaData.TotalCompressedSize)
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
	w.columns, w.offsets = append(w.columns, index), append(w.offsets, offsets)
	return w.emit(b)
}

// readThrift reads a part of a file's indexes.
func readThrift(in Input, at int64, length int32, into any) error {
	b, err := readSpan(nil, in, at, int64(length))
	if err != nil {
		return err
	}
	if thrift.Unmarshal(new(thrift.CompactProtocol), b, into) != nil {
		return errAltered
	}
	return nil
}

// intact says whether the pages of a column are as they were written: by their checksums, which do not cover the
// headers, and by what the index and the footer say of all of them. The bytes begin at offset at of the file.
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
		if !ok || p.Offset != next || h.Type != format.DataPage || !h.DataPageHeader.Valid ||
			!slices.Contains(c.Encoding, d.Encoding) ||
			d.DefinitionLevelEncoding != format.RLE || d.RepetitionLevelEncoding != format.RLE {
			return false
		}
		next += int64(p.CompressedPageSize)
		values += int64(d.NumValues)
	}
	return next == at+int64(len(b)) && values == c.NumValues && size == c.TotalUncompressedSize
}
