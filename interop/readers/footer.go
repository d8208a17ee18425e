package readers

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/metadata"
)

// fileFacts is what follows from the values of a Parquet file.
type fileFacts struct {
	rows, bytes int64
	columns     []columnFacts // in the order of the table
}

type columnFacts struct {
	span                // of the whole file
	stored int64        // compressed bytes of its chunks, as the footer says
	groups []groupFacts // for each row group
}

type groupFacts struct {
	span
	path string
}

// checkFile holds a file's footer and page indexes against the values in it.
func checkFile(report *Report, t *Table, name string) (*fileFacts, error) {
	bad := func(what, format string, args ...any) {
		report.add("footers", t.Name, what, filepath.Base(name)+": "+fmt.Sprintf(format, args...))
	}
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	f, err := file.OpenParquetFile(name, false)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if n := f.MetaData().Schema.NumColumns(); n != len(t.Columns) {
		return nil, fmt.Errorf("%d columns, want %d", n, len(t.Columns))
	}
	checkSchema(bad, t, f)
	facts := &fileFacts{bytes: info.Size(), columns: make([]columnFacts, len(t.Columns))}
	for g := range f.NumRowGroups() {
		group := f.RowGroup(g)
		facts.rows += group.NumRows()
		for i := range t.Columns {
			found, stored, err := checkChunk(bad, &t.Columns[i], f, g, i)
			if err != nil {
				return nil, fmt.Errorf("column %s: %w", t.Columns[i].Name, err)
			}
			c := &facts.columns[i]
			c.stored += stored
			c.values += found.values
			c.nulls += found.nulls
			c.widen(t.Columns[i].Kind, found.min, found.max)
			c.groups = append(c.groups, groupFacts{found, t.Columns[i].path()})
		}
	}
	if facts.rows != f.NumRows() {
		bad("row count", "the row groups hold %d rows, the footer says %d", facts.rows, f.NumRows())
	}
	return facts, nil
}

type complain func(what, format string, args ...any)

// checkSchema compares names, field ids and nullability.
func checkSchema(bad complain, t *Table, f *file.Reader) {
	schema := f.MetaData().Schema
	for i := range t.Columns {
		col := &t.Columns[i]
		if got := schema.Column(i).Path(); got != col.path() {
			bad("schema name", "column %d is %q, want %q", i, got, col.path())
		}
		if got := schema.Column(i).SchemaNode().FieldID(); int(got) != col.leaf() {
			bad("field id", "%s has field id %d, want %d", col.path(), got, col.leaf())
		}
		field := schema.Root().Field(i)
		if int(field.FieldID()) != col.ID {
			bad("field id", "%s has field id %d, want %d", col.Name, field.FieldID(), col.ID)
		}
		if optional := field.RepetitionType() == parquet.Repetitions.Optional; optional != col.Optional {
			bad("nullability", "%s is optional: %v, want %v", col.Name, optional, col.Optional)
		}
	}
}

// checkChunk reads one column chunk, compares what is stored about it, and gives what follows from its values.
func checkChunk(bad complain, col *Column, f *file.Reader, g, i int) (span, int64, error) {
	meta, err := f.RowGroup(g).MetaData().ColumnChunk(i)
	if err != nil {
		return span{}, 0, err
	}
	if got := meta.PathInSchema().String(); got != col.path() {
		bad("column path", "path_in_schema is %q, want %q", got, col.path())
	}
	reader, err := f.RowGroup(g).Column(i)
	if err != nil {
		return span{}, 0, err
	}
	c, err := readChunk(col.Kind, reader, meta.NumValues())
	if err != nil {
		return span{}, 0, err
	}
	whole := c.spans([]int64{0})[0]
	checkStatistics(bad, col, f, g, i, whole)
	return whole, meta.TotalCompressedSize(), checkPages(bad, col, f, g, i, c)
}

// checkStatistics compares the statistics of a chunk as they stand in the footer.
func checkStatistics(bad complain, col *Column, f *file.Reader, g, i int, want span) {
	got := f.MetaData().RowGroups[g].Columns[i].MetaData.Statistics
	if got == nil || got.NullCount == nil {
		bad("null count", "%s: the footer has none", col.Name)
		return
	}
	if *got.NullCount != want.nulls {
		bad("null count", "%s: the footer says %d, %d are null", col.Name, *got.NullCount, want.nulls)
	}
	if want.min == nil {
		if len(got.MinValue) > 0 || len(got.MaxValue) > 0 {
			bad("bound", "%s: the footer has bounds and there is no value", col.Name)
		}
		return
	}
	if got.MinValue != nil && !lowerFits(col.Kind, got.MinValue, want.min) {
		bad("bound", "%s: the least value in the footer is not that of the column", col.Name)
	}
	if got.MaxValue != nil && !upperFits(col.Kind, got.MaxValue, want.max) {
		bad("bound", "%s: the greatest value in the footer is not that of the column", col.Name)
	}
}

// checkPages compares the page index, if there is one.
func checkPages(bad complain, col *Column, f *file.Reader, g, i int, c *chunk) error {
	group, err := f.GetPageIndexReader().RowGroup(g)
	if err != nil || group == nil {
		return err
	}
	columnIndex, err := group.GetColumnIndex(i)
	if err != nil {
		bad("page index", "%s: the column index cannot be read: %v", col.Name, err)
		return nil
	}
	if columnIndex == nil {
		return nil
	}
	offsets, err := group.GetOffsetIndex(i)
	if err != nil || offsets == nil {
		bad("page index", "%s: a column index without an offset index: %v", col.Name, err)
		return nil
	}
	var first []int64
	for _, l := range offsets.GetPageLocations() {
		first = append(first, l.FirstRowIndex)
	}
	if len(first) == 0 || first[0] != 0 || len(first) != len(columnIndex.GetNullPages()) {
		bad("page index", "%s: %d pages in one index, %d in the other", col.Name, len(first), len(columnIndex.GetNullPages()))
		return nil
	}
	for p, want := range c.spans(first) {
		checkPage(bad, col, columnIndex, p, want)
	}
	return nil
}

func checkPage(bad complain, col *Column, got metadata.ColumnIndex, p int, want span) {
	if want.values == 0 {
		bad("page index", "%s: page %d has no row", col.Name, p)
	}
	if nulls := got.GetNullCounts(); got.IsSetNullCounts() && nulls[p] != want.nulls {
		bad("page null count", "%s: page %d says %d, %d are null", col.Name, p, nulls[p], want.nulls)
	}
	if null := got.GetNullPages()[p]; null != (want.min == nil) {
		bad("page null count", "%s: page %d is all null: %v, want %v", col.Name, p, null, want.min == nil)
		return
	}
	if want.min == nil {
		return
	}
	if !lowerFits(col.Kind, got.GetMinValues()[p], want.min) || !upperFits(col.Kind, got.GetMaxValues()[p], want.max) {
		bad("page bound", "%s: the bounds of page %d are not those of its values", col.Name, p)
	}
}
