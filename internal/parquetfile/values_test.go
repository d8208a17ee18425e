package parquetfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"

	"github.com/parquet-go/parquet-go"
)

// checkValues holds null counts and bounds, in pages, in the footer and in what the writer said, against the values of
// a file, read by name and by position.
func checkValues(t testing.TB, made *file) {
	t.Helper()
	in := bytes.NewReader(made.data)
	if err := Check(in, made.Bytes, made.Rows); err != nil {
		t.Fatal(err)
	}
	f, err := open(in, made.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	for i := range sampleColumns {
		c := &sampleColumns[i]
		wrong := func(problem string) { t.Errorf("column %s %s", c.Name, problem) }
		leaf, ok := f.Schema().Lookup(c.path()...)
		if !ok || leaf.ColumnIndex != i {
			t.Fatalf("column %s is not at its place", c.Name)
		}
		found, err := checkColumn(f, i, c, wrong)
		if err != nil {
			t.Fatalf("column %s: %v", c.Name, err)
		}
		said := made.Columns[i]
		if found.Nulls != said.Nulls || found.Field != said.Field {
			wrong("has other contents than its writer said")
		}
		leafType := c.leaf()
		lower, upper := leafType.cutBounds(found.Lower, found.Upper)
		if c.Bounded && (!bytes.Equal(lower, said.Lower) || !bytes.Equal(upper, said.Upper)) {
			wrong("has other bounds than its writer said")
		}
	}
}

// checkColumn reads a column of all row groups.
func checkColumn[T any](f *parquet.File, leaf int, c *Column[T], note func(string)) (ColumnContents, error) {
	var all measured
	out := ColumnContents{Field: c.Field}
	for g, group := range f.RowGroups() {
		meta := &f.Metadata().RowGroups[g].Columns[leaf].MetaData
		if !slices.Equal(meta.PathInSchema, c.path()) {
			note("cannot be found by its name in the footer")
		}
		chunk := group.ColumnChunks()[leaf]
		t := chunk.Type()
		v, err := checkChunk(chunk, note)
		if err != nil {
			return out, err
		}
		if v.rows != group.NumRows() {
			return out, fmt.Errorf("%d rows instead of %d", v.rows, group.NumRows())
		}
		if meta.Statistics.NullCount != v.nulls {
			note("has another null count in the footer")
		}
		if v.has && !v.within(t, meta.Statistics.MinValue, meta.Statistics.MaxValue) {
			note("has values outside of the bounds in the footer")
		}
		all.join(t, &v)
	}
	out.Nulls = all.nulls
	if all.has {
		out.Lower, out.Upper = all.least.AppendBytes([]byte{}), all.greatest.AppendBytes([]byte{})
	}
	return out, nil
}

// measured is what the values of a chunk, or of a page, say of themselves.
type measured struct {
	rows, nulls     int64
	has             bool // there is a value
	least, greatest parquet.Value
}

func (m *measured) add(t parquet.Type, v parquet.Value) {
	if v.IsNull() {
		m.nulls++
		return
	}
	if !m.has || t.Compare(v, m.least) < 0 {
		m.least = v.Clone()
	}
	if !m.has || t.Compare(v, m.greatest) > 0 {
		m.greatest = v.Clone()
	}
	m.has = true
}

// join adds what other values say.
func (m *measured) join(t parquet.Type, other *measured) {
	m.rows += other.rows
	m.nulls += other.nulls
	if other.has {
		m.add(t, other.least)
		m.add(t, other.greatest)
	}
}

// within says whether all values lie between two bounds in Parquet's plain form; nil bounds nothing.
func (m *measured) within(t parquet.Type, least, greatest []byte) bool {
	k := t.Kind()
	return (least == nil || t.Compare(k.Value(least), m.least) <= 0) &&
		(greatest == nil || t.Compare(k.Value(greatest), m.greatest) >= 0)
}

// checkChunk reads one column of a row group and compares each page with the index of pages.
func checkChunk(chunk parquet.ColumnChunk, note func(string)) (all measured, err error) {
	index, err := chunk.ColumnIndex()
	if err != nil {
		return all, err
	}
	t := chunk.Type()
	pages := chunk.Pages()
	defer pages.Close()
	values := make([]parquet.Value, readRows)
	for n := 0; ; n++ {
		page, err := pages.ReadPage()
		if errors.Is(err, io.EOF) {
			if n != index.NumPages() {
				note("has another number of pages in the index")
			}
			return all, nil
		}
		if err != nil {
			return all, err
		}
		one, err := checkPage(page, t, values)
		parquet.Release(page)
		if err != nil {
			return all, err
		}
		if n < index.NumPages() {
			checkIndex(index, n, &one, t, note)
		}
		all.join(t, &one)
	}
}

func checkPage(page parquet.Page, t parquet.Type, values []parquet.Value) (m measured, err error) {
	in := page.Values()
	for {
		n, err := in.ReadValues(values)
		for _, v := range values[:n] {
			if v.RepetitionLevel() == 0 {
				m.rows++
			}
			m.add(t, v)
		}
		if errors.Is(err, io.EOF) {
			return m, nil
		}
		if err != nil {
			return m, err
		}
	}
}

func checkIndex(index parquet.ColumnIndex, n int, one *measured, t parquet.Type, note func(string)) {
	defer func() {
		if recover() != nil { // it has fewer bounds than pages
			note("has an index of pages that other programs cannot read")
		}
	}()
	if index.NullCount(n) != one.nulls {
		note("has another null count in the index of pages")
	}
	if index.NullPage(n) == one.has {
		note("has a page that the index takes for empty, or the other way round")
	}
	if !one.has || index.NullPage(n) {
		return
	}
	least, greatest := index.MinValue(n), index.MaxValue(n)
	// Bounds of bytes may be cut; they still compare as bytes.
	if k := t.Kind(); k == parquet.ByteArray || k == parquet.FixedLenByteArray {
		if bytes.Compare(least.ByteArray(), one.least.ByteArray()) > 0 ||
			bytes.Compare(greatest.ByteArray(), one.greatest.ByteArray()) < 0 {
			note("has values outside of the bounds in the index of pages")
		}
		return
	}
	if t.Compare(least, one.least) > 0 || t.Compare(greatest, one.greatest) < 0 {
		note("has values outside of the bounds in the index of pages")
	}
}
