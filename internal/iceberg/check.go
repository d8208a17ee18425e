package iceberg

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/parquet-go/parquet-go"
)

// Finding is something that Check found wrong.
type Finding struct {
	Table   string `json:"table"`
	File    string `json:"file"`    // where it lies
	Problem string `json:"problem"` // never a value of a row
	// Repairable says that Repair can write the file anew with every row that was stored. What is not was damaged after
	// it was written.
	Repairable bool `json:"repairable"`
}

// Checked is what Check looked at.
type Checked struct {
	Files, Manifests int
	Rows             int64
	Findings         int
}

// Check reads every manifest and every file that a kept snapshot lists, and hands what is damaged, unreadable by name
// or wrong to found. It reads by name and by position, and compares null counts and bounds in pages, footers and
// manifests with those of the values themselves. progress is called after each file.
func (t *Table[T]) Check(ctx context.Context, found func(Finding), progress func(done, total int)) (out Checked, err error) {
	report := func(name, problem string, repairable bool) {
		out.Findings++
		found(Finding{t.layout.name, t.store.Location(name), problem, repairable})
	}
	files, err := t.checkMetadata(ctx, &out, report)
	if err != nil {
		return out, err
	}
	for i, f := range files {
		if ctx.Err() != nil {
			return out, ctx.Err()
		}
		problems, damage := t.checkFile(f)
		if damage != nil {
			report(f.name, "damaged: "+damage.Error(), false)
		} else {
			out.Rows += f.rows
		}
		for _, problem := range problems {
			report(f.name, problem, true)
		}
		out.Files++
		progress(i+1, len(files))
	}
	return out, nil
}

// checkMetadata checks what lists files, and returns those that are listed.
func (t *table) checkMetadata(ctx context.Context, out *Checked, report func(name, problem string, repairable bool)) ([]*dataFile, error) {
	s, err := t.refresh(ctx)
	if err != nil {
		return nil, err
	}
	if s.read != s.version {
		report(metadataName(s.version), "this version is damaged; an older one is in use until the next commit", false)
	}
	if s.meta.Location != t.store.Location("") {
		report(metadataName(s.version), "the table says that it lies elsewhere", true)
	}
	var files []*dataFile
	seen := map[string]bool{} // manifests and files
	known := s.manifests
	for i := range s.meta.Snapshots {
		list, err := t.readList(&s.meta.Snapshots[i], known)
		if err != nil {
			name, _ := below(s.meta.Snapshots[i].ManifestList, metadataDir)
			report(name, err.Error(), false)
			continue
		}
		for _, m := range list {
			if seen[m.name] {
				continue
			}
			seen[m.name] = true
			out.Manifests++
			if m.damaged != nil {
				report(m.name, m.damaged.Error(), false)
			}
			if m.file.FilePath() != t.store.Location(m.name) {
				report(m.name, "a list has another location for this manifest", true)
			}
			known = append(slices.Clip(known), m)
			for _, f := range m.files {
				if !seen[f.name] {
					seen[f.name] = true
					files = append(files, f)
				}
			}
		}
	}
	return files, nil
}

// checkFile says what is wrong with a file that can be written anew, or why it cannot be read.
func (t *Table[T]) checkFile(p *dataFile) (problems []string, damage error) {
	o, err := t.store.Open(p.name)
	if err != nil {
		return nil, errors.New("the file cannot be opened")
	}
	defer o.Close()
	f, err := openParquet(p, o)
	if err != nil {
		return nil, err
	}
	return checkColumns(f, p, t.schema)
}

// checkColumns reads a file column by column.
func checkColumns[T any](f *parquet.File, p *dataFile, s *Schema[T]) (problems []string, damage error) {
	defer recovered(&damage)
	if p.old != nil {
		problems = append(problems, "written by version 1, whose manifests have private entries among the column sizes")
	}
	if f.NumRows() != p.rows {
		problems = append(problems, "the manifest counts other rows than the file has")
	}
	groups := f.RowGroups()
	for i := range s.Columns {
		c := &s.Columns[i]
		leaf, ok := f.Schema().Lookup(c.path()...)
		if !ok {
			continue // written before there was such a column
		}
		nulls := int64(0)
		seen := map[string]bool{}
		note := func(problem string) {
			if !seen[problem] {
				seen[problem] = true
				problems = append(problems, "column "+c.name+" "+problem)
			}
		}
		if leaf.ColumnIndex != i {
			note("is not at its place in the order of columns")
		}
		for g, group := range groups {
			meta := &f.Metadata().RowGroups[g].Columns[leaf.ColumnIndex].MetaData
			if !slices.Equal(meta.PathInSchema, c.path()) {
				note("cannot be found by its name in the footer")
			}
			chunk := group.ColumnChunks()[leaf.ColumnIndex]
			v, err := checkChunk(chunk, c.optional && c.element == 0, note)
			if err != nil {
				return nil, fmt.Errorf("column %s: %w", c.name, err)
			}
			if v.rows != group.NumRows() {
				return nil, fmt.Errorf("column %s: %d rows instead of %d", c.name, v.rows, group.NumRows())
			}
			if meta.Statistics.NullCount != v.nulls {
				note("has another null count in the footer")
			}
			if v.has && !v.within(chunk.Type(), meta.Statistics.MinValue, meta.Statistics.MaxValue) {
				note("has values outside of the bounds in the footer")
			}
			nulls += v.nulls
			if v.has && c.bounded && (outside(&s.layout, c.id, v.least, p.lower, -1) || outside(&s.layout, c.id, v.greatest, p.upper, 1)) {
				note("has values outside of the bounds in the manifest")
			}
		}
		if listed, ok := p.nulls[c.id]; ok && c.element == 0 && listed != nulls {
			note("has another null count in the manifest")
		}
	}
	return problems, nil
}

// outside says whether a value lies beyond a bound of the manifest: below the lower (side -1) or above the upper (1).
func outside(l *layout, id int, v parquet.Value, bounds map[int][]byte, side int) bool {
	bound, ok := bounds[id]
	return ok && l.compareValues(id, v.AppendBytes(nil), bound)*side > 0
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

// within says whether all values lie between two bounds in Parquet's plain form; nil bounds nothing.
func (m *measured) within(t parquet.Type, least, greatest []byte) bool {
	k := t.Kind()
	return (least == nil || t.Compare(k.Value(least), m.least) <= 0) && (greatest == nil || t.Compare(k.Value(greatest), m.greatest) >= 0)
}

// checkChunk reads one column of a row group and compares each page with the index of pages.
func checkChunk(chunk parquet.ColumnChunk, optional bool, note func(string)) (all measured, err error) {
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
		one, err := checkPage(page, t, values, optional, note)
		parquet.Release(page)
		if err != nil {
			return all, err
		}
		if n < index.NumPages() {
			checkIndex(index, n, &one, t, note)
		}
		all.rows += one.rows
		all.nulls += one.nulls
		if one.has {
			all.add(t, one.least)
			all.add(t, one.greatest)
		}
	}
}

func checkPage(page parquet.Page, t parquet.Type, values []parquet.Value, optional bool, note func(string)) (m measured, err error) {
	in := page.Values()
	for {
		n, err := in.ReadValues(values)
		for _, v := range values[:n] {
			if v.RepetitionLevel() == 0 {
				m.rows++
			}
			if optional && !v.IsNull() && isAbsent(t, v) {
				note("holds a value where there was none")
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

// isAbsent finds what version 1 wrote in the place of null.
func isAbsent(t parquet.Type, v parquet.Value) bool {
	switch t.Kind() {
	case parquet.ByteArray:
		return len(v.ByteArray()) == 0
	case parquet.FixedLenByteArray:
		return isZero(v.ByteArray())
	}
	return false
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
		if bytes.Compare(least.ByteArray(), one.least.ByteArray()) > 0 || bytes.Compare(greatest.ByteArray(), one.greatest.ByteArray()) < 0 {
			note("has values outside of the bounds in the index of pages")
		}
		return
	}
	if t.Compare(least, one.least) > 0 || t.Compare(greatest, one.greatest) < 0 {
		note("has values outside of the bounds in the index of pages")
	}
}
