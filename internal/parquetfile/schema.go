// Package parquetfile writes, reads, merges and checks Parquet files of rows. A row is any Go type: its columns are
// written down once, and everything else is made from them. It knows no table, and it alone imports the Parquet
// library.
package parquetfile

import (
	"fmt"
	"io"
	"reflect"
	"slices"
	"sync"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// Schema is the columns of a file, in the forms that are needed to read and write. All goroutines may use it.
type Schema[T any] struct {
	columns []Column[T]
	parquet func() *parquet.Schema
	footer  func() format.FileMetaData // of a file without rows
	writers chan *Writer[T]            // that have written their file; their memory is used again
}

// NewSchema makes the schema of files with these columns, in this order. Readers see its name in the footers.
func NewSchema[T any](name string, columns []Column[T]) *Schema[T] {
	s := &Schema[T]{columns: columns, writers: make(chan *Writer[T], 2)} // a commit and a compaction
	s.parquet = sync.OnceValue(func() *parquet.Schema { return parquetSchema(name, columns) })
	s.footer = sync.OnceValue(func() format.FileMetaData { return emptyFooter(s.parquet()) })
	return s
}

// parquetSchema is made through a struct type because parquet-go sorts the members of any other group by name.
func parquetSchema[T any](name string, columns []Column[T]) *parquet.Schema {
	var fields []reflect.StructField
	for i := range columns {
		c := &columns[i]
		fields = append(fields, reflect.StructField{
			Name: fmt.Sprintf("C%d", c.ID), Type: kinds[c.Type].golang, Tag: c.tag(),
		})
	}
	return parquet.NewSchema(name, parquet.SchemaOf(reflect.New(reflect.StructOf(fields)).Interface()))
}

// emptyFooter is the footer of a file without rows, as parquet-go makes it of a schema.
func emptyFooter(s *parquet.Schema) format.FileMetaData {
	w := parquet.NewGenericWriter[any](io.Discard, s, parquet.CreatedBy(writerName, writerVersion, ""))
	if err := w.Close(); err != nil {
		panic(err) // nothing is written that could fail
	}
	meta := *w.File().Metadata()
	meta.RowGroups = nil
	meta.KeyValueMetadata = []format.KeyValue{{Key: checkKey, Value: noCheck}}
	return meta
}

// wrote says whether a file has the columns of the schema, as this version writes them.
func (s *Schema[T]) wrote(f *parquet.File) bool {
	have, want := f.Metadata(), s.footer()
	same := func(a, b format.SchemaElement) bool {
		return a.Name == b.Name && a.Type == b.Type && a.TypeLength == b.TypeLength &&
			a.RepetitionType == b.RepetitionType && a.NumChildren == b.NumChildren && a.FieldID == b.FieldID &&
			reflect.DeepEqual(a.LogicalType, b.LogicalType)
	}
	return have.CreatedBy == want.CreatedBy && slices.EqualFunc(have.Schema, want.Schema, same)
}
