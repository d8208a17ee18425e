package readers

import (
	"context"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
)

func readArrowByPosition(ctx context.Context, src Source) (map[string]*Read, error) {
	return readArrow(ctx, src, func(t *Table, f *file.Reader) ([]int, error) {
		all := make([]int, len(t.Columns))
		for i := range all {
			all[i] = i
		}
		if n := f.MetaData().Schema.NumColumns(); n != len(all) {
			return nil, fmt.Errorf("%d columns, want %d", n, len(all))
		}
		return all, nil
	})
}

func readArrowByName(ctx context.Context, src Source) (map[string]*Read, error) {
	return readArrow(ctx, src, func(t *Table, f *file.Reader) ([]int, error) {
		var out []int
		for i := range t.Columns {
			at := f.MetaData().Schema.ColumnIndexByName(t.Columns[i].path())
			if at < 0 {
				return nil, fmt.Errorf("no column %s", t.Columns[i].path())
			}
			out = append(out, at)
		}
		return out, nil
	})
}

// readArrow reads every file with the columns that choose picks, in the order of the table.
func readArrow(ctx context.Context, src Source, choose func(*Table, *file.Reader) ([]int, error)) (map[string]*Read, error) {
	out := map[string]*Read{}
	for _, t := range src.tables() {
		read := &Read{}
		out[t.Name] = read
		for _, name := range src.Files[t.Name] {
			rows, err := readArrowFile(ctx, t, name, choose)
			if err != nil {
				read.Errors = append(read.Errors, err.Error())
			}
			read.Rows = append(read.Rows, rows...)
		}
	}
	return out, nil
}

func readArrowFile(ctx context.Context, t *Table, name string, choose func(*Table, *file.Reader) ([]int, error)) ([]Row, error) {
	f, err := file.OpenParquetFile(name, false)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	columns, err := choose(t, f)
	if err != nil {
		return nil, err
	}
	reader, err := pqarrow.NewFileReader(f, pqarrow.ArrowReadProperties{BatchSize: 4096}, memory.DefaultAllocator)
	if err != nil {
		return nil, err
	}
	batches, err := reader.GetRecordReader(ctx, columns, nil)
	if err != nil {
		return nil, err
	}
	defer batches.Release()
	var rows []Row
	for batches.Next() {
		some, err := fromArrow(t, batches.RecordBatch())
		if err != nil {
			return rows, err
		}
		rows = append(rows, some...)
	}
	return rows, batches.Err()
}

// fromArrow takes rows whose columns stand in the order of the table.
func fromArrow(t *Table, batch arrow.RecordBatch) ([]Row, error) {
	if int(batch.NumCols()) != len(t.Columns) {
		return nil, fmt.Errorf("%d columns, want %d", batch.NumCols(), len(t.Columns))
	}
	rows := make([]Row, batch.NumRows())
	for i := range rows {
		rows[i] = make(Row, len(t.Columns))
	}
	for c := range t.Columns {
		col := &t.Columns[c]
		if got := batch.ColumnName(c); got != col.Name {
			return nil, fmt.Errorf("column %d is called %q, want %q", c, got, col.Name)
		}
		values := batch.Column(c)
		if e, ok := values.(array.ExtensionArray); ok {
			values = e.Storage()
		}
		for i := range rows {
			if values.IsNull(i) {
				continue
			}
			v, err := arrowValue(col.Kind, values, i)
			if err != nil {
				return nil, fmt.Errorf("column %s: %w", col.Name, err)
			}
			rows[i][col.Name] = v
		}
	}
	return rows, nil
}

func arrowValue(kind Kind, values arrow.Array, i int) (any, error) {
	switch a := values.(type) {
	case *array.String:
		return strings.Clone(a.Value(i)), typed(kind == Text, values)
	case *array.LargeString:
		return strings.Clone(a.Value(i)), typed(kind == Text, values)
	case *array.FixedSizeBinary:
		digits := hex.EncodeToString(a.Value(i))
		if id, ok := hyphened(digits); ok && kind == UUID {
			return id, nil
		}
		return digits, typed(kind == Hash, values)
	case *array.Timestamp:
		unit := a.DataType().(*arrow.TimestampType)
		return int64(a.Value(i)), typed(kind == Time && unit.Unit == arrow.Microsecond && unit.TimeZone == "UTC", values)
	case *array.Int32:
		return int64(a.Value(i)), typed(kind == Int32, values)
	case *array.Int64:
		return a.Value(i), typed(kind == Int64, values)
	case *array.Float64:
		return a.Value(i), typed(kind == Double, values)
	case *array.Boolean:
		return a.Value(i), typed(kind == Bool, values)
	case array.ListLike:
		from, to := a.ValueOffsets(i)
		numbers, ok := a.ListValues().(*array.Int32)
		if !ok || kind != Int32s {
			return nil, typed(false, values)
		}
		out := make([]int64, 0, to-from)
		for _, n := range numbers.Int32Values()[from:to] {
			out = append(out, int64(n))
		}
		return out, nil
	}
	return nil, typed(false, values)
}

func typed(ok bool, values arrow.Array) error {
	if !ok {
		return fmt.Errorf("unexpected type %s", values.DataType())
	}
	return nil
}
