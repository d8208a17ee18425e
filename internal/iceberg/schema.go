package iceberg

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
	"sync"

	apache "github.com/apache/iceberg-go"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// layout is what a table looks like to other programs.
type layout struct {
	name   string
	schema *apache.Schema
	day    int   // field id of the timestamp whose day is the partition
	order  []int // field ids the rows of a file are sorted by
	bounds []int // field ids whose least and greatest value a snapshot lists
}

// Definition says what a table is made of. T is a row. Field ids never change their meaning.
type Definition[T any] struct {
	Name    string
	Columns []Column[T]
	Day     string   // the column of times whose day the table is divided by
	Order   []string // the columns by which the rows of a file are sorted
	Time    func(*T) int64
	Compare func(a, b *T) int
	// Fold adds b to a if the two can be one row; nil keeps every row.
	Fold func(a, b *T) bool
}

// Schema is a definition in the forms that are needed to read and write.
type Schema[T any] struct {
	layout
	Definition[T]
	parquet func() *parquet.Schema
	footer  func() format.FileMetaData // of a file without rows
	writers chan *parquetWriter[T]     // that have written their file; their memory is used again
}

const (
	dayField    = 1000 // Iceberg numbers partition fields from here
	sortOrderID = 1    // 0 means unsorted
)

// NewSchema makes the schema of a definition.
func NewSchema[T any](d Definition[T]) *Schema[T] {
	s := &Schema[T]{
		layout: layout{name: d.Name}, Definition: d, writers: make(chan *parquetWriter[T], 2), // a commit and a compaction
		parquet: sync.OnceValue(func() *parquet.Schema { return parquetSchema(d.Name, d.Columns) }),
	}
	s.footer = sync.OnceValue(func() format.FileMetaData { return emptyFooter(s.parquet()) })
	var fields []apache.NestedField
	ids := map[string]int{}
	for i := range d.Columns {
		c := &d.Columns[i]
		fields = append(fields, c.field())
		ids[c.name] = c.id
		if c.bounded {
			s.bounds = append(s.bounds, c.id)
		}
	}
	s.schema = apache.NewSchema(0, fields...)
	s.day = ids[d.Day]
	for _, name := range d.Order {
		s.order = append(s.order, ids[name])
	}
	return s
}

// ColumnNames lists the columns in order.
func (s *Schema[T]) ColumnNames() []string {
	var out []string
	for i := range s.Columns {
		out = append(out, s.Columns[i].name)
	}
	return out
}

func (s *Schema[T]) dayOf(row *T) int32 { return dayOf(s.Time(row)) }

// spec divides by the day of receipt and nothing else: files per commit must not grow with the number of
// datasets, and the bounds on data_set_id, by which files are sorted, prune as well (docs/decisions/0004).
func (l *layout) spec() apache.PartitionSpec {
	return apache.NewPartitionSpecID(0, apache.PartitionField{
		SourceIDs: []int{l.day}, FieldID: dayField, Name: "day", Transform: apache.DayTransform{},
	})
}

func (l *layout) bounded(id int) bool { return slices.Contains(l.bounds, id) }

func (l *layout) isText(id int) bool {
	f, _ := l.schema.FindFieldByID(id)
	return f.Type == apache.PrimitiveTypes.String
}

// compareValues orders two values of a column in Iceberg's single-value form.
func (l *layout) compareValues(id int, a, b []byte) int {
	f, _ := l.schema.FindFieldByID(id)
	if f.Type == apache.PrimitiveTypes.TimestampTz {
		return cmp.Compare(int64(binary.LittleEndian.Uint64(a)), int64(binary.LittleEndian.Uint64(b)))
	}
	return bytes.Compare(a, b) // texts and UUIDs
}
