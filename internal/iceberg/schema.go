package iceberg

import (
	"bytes"
	"cmp"
	"encoding/binary"

	apache "github.com/apache/iceberg-go"

	"sluice/internal/parquetfile"
)

// layout is what a table looks like to other programs.
type layout struct {
	name   string
	schema *apache.Schema
	day    int   // field id of the timestamp whose day, or month, is the partition
	months bool  // the partition is its month
	order  []int // field ids the rows of a file are sorted by

	comment string         // what the table is
	docs    map[int]string // what each column is, by field id
}

// Definition says what a table is made of. T is a row. Field ids never change their meaning.
type Definition[T any] struct {
	Name    string
	Comment string            // what the table is, for people
	Docs    map[string]string // what each column is, for people
	Columns []parquetfile.Column[T]
	Day     string   // the column of times whose day the table is divided by
	Months  bool     // it is divided by the month instead: few rows a day that are read for many days
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
	file *parquetfile.Schema[T]
}

const (
	dayField    = 1000 // Iceberg numbers partition fields from here
	sortOrderID = 1    // 0 means unsorted
)

// NewSchema makes the schema of a definition.
func NewSchema[T any](d Definition[T]) *Schema[T] {
	s := &Schema[T]{
		layout:     layout{name: d.Name, months: d.Months, comment: d.Comment, docs: map[int]string{}},
		Definition: d, file: parquetfile.NewSchema(d.Name, d.Columns),
	}
	var fields []apache.NestedField
	ids := map[string]int{}
	for i := range d.Columns {
		c := &d.Columns[i]
		field := nestedField(&c.Field)
		field.Doc = d.Docs[c.Name]
		fields = append(fields, field)
		ids[c.Name], s.docs[c.ID] = c.ID, field.Doc
	}
	s.schema = apache.NewSchema(0, fields...)
	s.day = ids[d.Day]
	for _, name := range d.Order {
		s.order = append(s.order, ids[name])
	}
	return s
}

// types are what Iceberg calls the types of columns. A list is made for each column: its elements have an id.
var types = map[parquetfile.Type]apache.Type{
	parquetfile.TypeUUID: apache.PrimitiveTypes.UUID, parquetfile.TypeText: apache.PrimitiveTypes.String,
	parquetfile.TypeHash: apache.FixedTypeOf(32), parquetfile.TypeTime: apache.PrimitiveTypes.TimestampTz,
	parquetfile.TypeInt32: apache.PrimitiveTypes.Int32, parquetfile.TypeInt64: apache.PrimitiveTypes.Int64,
	parquetfile.TypeFloat: apache.PrimitiveTypes.Float64, parquetfile.TypeBool: apache.PrimitiveTypes.Bool,
}

// nestedField is a column as Iceberg describes it.
func nestedField(c *parquetfile.Field) apache.NestedField {
	f := apache.NestedField{ID: c.ID, Name: c.Name, Type: types[c.Type], Required: !c.Optional}
	if c.Type == parquetfile.TypeList {
		f.Type = &apache.ListType{ElementID: c.Element, Element: apache.PrimitiveTypes.Int32, ElementRequired: true}
	}
	return f
}

// dayOf is the first day of the partition of a row.
func (s *Schema[T]) dayOf(row *T) int32 { return s.partition(dayOf(s.Time(row))) }

// spec divides by the time of receipt and nothing else: files per commit must not grow with the number of
// datasets, and the bounds on data_set_id, by which files are sorted, prune as well (docs/decisions/0004).
func (l *layout) spec() apache.PartitionSpec {
	field := apache.PartitionField{SourceIDs: []int{l.day}, FieldID: dayField}
	field.Name, field.Transform = "day", apache.DayTransform{}
	if l.months {
		field.Name, field.Transform = "month", apache.MonthTransform{}
	}
	return apache.NewPartitionSpecID(0, field)
}

// compareValues orders two values of a column in Iceberg's single-value form.
func (l *layout) compareValues(id int, a, b []byte) int {
	f, _ := l.schema.FindFieldByID(id)
	if f.Type == apache.PrimitiveTypes.TimestampTz {
		return cmp.Compare(int64(binary.LittleEndian.Uint64(a)), int64(binary.LittleEndian.Uint64(b)))
	}
	return bytes.Compare(a, b) // texts and UUIDs
}
