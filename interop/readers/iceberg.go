package readers

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"
)

// openIceberg opens the newest version of a table, which the version hint names.
func openIceberg(ctx context.Context, src Source, name string) (*table.Table, error) {
	dir := filepath.Join(src.Dir, name, "metadata")
	hint, err := os.ReadFile(filepath.Join(dir, "version-hint.text"))
	if err != nil {
		return nil, err
	}
	location := filepath.Join(dir, "v"+strings.TrimSpace(string(hint))+".metadata.json")
	return table.NewFromLocation(ctx, table.Identifier{"sluice", name}, location, io.LoadFSFunc(nil, location), nil)
}

// readIceberg reads with the table scan of iceberg-go: from the metadata through manifest list and manifests to the files.
func readIceberg(ctx context.Context, src Source) (map[string]*Read, error) {
	out := map[string]*Read{}
	for _, t := range src.tables() {
		rows, err := scanIceberg(ctx, src, t)
		out[t.Name] = &Read{Rows: rows}
		if err != nil {
			out[t.Name].Errors = []string{err.Error()}
		}
	}
	return out, nil
}

func scanIceberg(ctx context.Context, src Source, t *Table) ([]Row, error) {
	tbl, err := openIceberg(ctx, src, t.Name)
	if err != nil {
		return nil, err
	}
	return scanTable(ctx, t, tbl)
}

// scanTable reads a table at its newest snapshot, or as the options say.
func scanTable(ctx context.Context, t *Table, tbl *table.Table, o ...table.ScanOption) ([]Row, error) {
	_, batches, err := tbl.Scan(o...).ToArrowRecords(ctx)
	if err != nil {
		return nil, err
	}
	var rows []Row
	for batch, err := range batches {
		if err != nil {
			return rows, err
		}
		some, err := fromArrow(t, batch)
		batch.Release()
		if err != nil {
			return rows, err
		}
		rows = append(rows, some...)
	}
	return rows, nil
}
