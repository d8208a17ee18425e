package parquetfile

import (
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"
)

// Check reads every page of a file, which has a checksum, and counts rows. It says why the file cannot be read, or that
// it has not so many bytes or rows.
func Check(in Input, size, rows int64) (damage error) {
	defer recovered(&damage)
	f, err := open(in, size)
	if err != nil {
		return err
	}
	if f.NumRows() != rows {
		return fmt.Errorf("%d rows instead of %d", f.NumRows(), rows)
	}
	for _, group := range f.RowGroups() {
		for i, chunk := range group.ColumnChunks() {
			n, err := countRows(chunk)
			if err == nil && n != group.NumRows() {
				err = fmt.Errorf("%d rows instead of %d", n, group.NumRows())
			}
			if err != nil {
				return fmt.Errorf("column %s: %w", f.Schema().Columns()[i][0], err)
			}
		}
	}
	return nil
}

// countRows reads the pages of one column of a row group.
func countRows(chunk parquet.ColumnChunk) (rows int64, err error) {
	pages := chunk.Pages()
	defer pages.Close()
	for {
		page, err := pages.ReadPage()
		if errors.Is(err, io.EOF) {
			return rows, nil
		}
		if err != nil {
			return 0, err
		}
		rows += page.NumRows()
		parquet.Release(page)
	}
}
