package lake

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
	"sync"

	"github.com/apache/iceberg-go"
	"github.com/parquet-go/parquet-go"
)

// layout is what a table looks like to other programs.
type layout struct {
	name   string
	schema *iceberg.Schema
	day    int   // field id of the timestamp whose day is the partition
	order  []int // field ids the rows of a file are sorted by
	bounds []int // field ids whose least and greatest value a snapshot lists
}

// schema is a table's columns, and what else has to be known of its rows. T is a row.
type schema[T any] struct {
	layout
	columns []column[T]
	compare func(a, b *T) int
	// fold adds b to a if the two can be one row; nil keeps every row.
	fold    func(a, b *T) bool
	parquet func() *parquet.Schema
}

const (
	dayField    = 1000 // Iceberg numbers partition fields from here
	sortOrderID = 1    // 0 means unsorted
)

// newSchema is a table of these columns, divided by the day of one and sorted by others, as compare does it.
func newSchema[T any](
	name string, columns []column[T], day int, order []int, compare func(a, b *T) int, fold func(a, b *T) bool,
) *schema[T] {
	s := &schema[T]{
		layout: layout{name: name, day: day, order: order}, columns: columns, compare: compare, fold: fold,
		parquet: sync.OnceValue(func() *parquet.Schema { return parquetSchema(name, columns) }),
	}
	var fields []iceberg.NestedField
	for i := range columns {
		fields = append(fields, columns[i].field())
		if columns[i].bounded {
			s.bounds = append(s.bounds, columns[i].id)
		}
	}
	s.schema = iceberg.NewSchema(0, fields...)
	return s
}

// spec divides by the day of receipt and nothing else: files per commit must not grow with the number of
// datasets, and the bounds on data_set_id, by which files are sorted, prune as well (docs/decisions/0004).
func (l *layout) spec() iceberg.PartitionSpec {
	return iceberg.NewPartitionSpecID(0, iceberg.PartitionField{
		SourceIDs: []int{l.day}, FieldID: dayField, Name: "day", Transform: iceberg.DayTransform{},
	})
}

func (l *layout) bounded(id int) bool { return slices.Contains(l.bounds, id) }

func (l *layout) isText(id int) bool {
	f, _ := l.schema.FindFieldByID(id)
	return f.Type == iceberg.PrimitiveTypes.String
}

// compareValues orders two values of a column in Iceberg's single-value form.
func (l *layout) compareValues(id int, a, b []byte) int {
	f, _ := l.schema.FindFieldByID(id)
	if f.Type == iceberg.PrimitiveTypes.TimestampTz {
		return cmp.Compare(int64(binary.LittleEndian.Uint64(a)), int64(binary.LittleEndian.Uint64(b)))
	}
	return bytes.Compare(a, b) // texts and UUIDs
}
