//go:build faults

package faults

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/iceberg-go"
	_ "github.com/duckdb/duckdb-go/v2" // the SQL driver "duckdb"
)

// dataFiles lists the data files of a table's newest snapshot, read as any other program would: the metadata file with the
// highest number, its current snapshot, that one's manifests.
func dataFiles(dir, table string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "lake", table, "metadata", "v*.metadata.json"))
	if err != nil {
		return nil, err
	}
	newest, name := 0, ""
	for _, f := range files {
		n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(filepath.Base(f), "v"), ".metadata.json"))
		if err == nil && n > newest {
			newest, name = n, f
		}
	}
	if name == "" {
		return nil, fmt.Errorf("no metadata of table %s", table)
	}
	raw, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var meta struct {
		Current   int64 `json:"current-snapshot-id"`
		Snapshots []struct {
			ID   int64  `json:"snapshot-id"`
			List string `json:"manifest-list"`
		} `json:"snapshots"`
	}
	if err := json.Unmarshal(raw, &meta); err != nil {
		return nil, err
	}
	for _, s := range meta.Snapshots {
		if s.ID == meta.Current {
			return listed(s.List)
		}
	}
	return nil, nil
}

// listed lists the data files of a manifest list.
func listed(path string) ([]string, error) {
	raw, err := os.ReadFile(local(path))
	if err != nil {
		return nil, err
	}
	manifests, err := iceberg.ReadManifestList(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	var out []string
	for _, m := range manifests {
		raw, err := os.ReadFile(local(m.FilePath()))
		if err != nil {
			return nil, err
		}
		entries, err := iceberg.ReadManifest(m, bytes.NewReader(raw), true)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			out = append(out, local(e.DataFile().FilePath()))
		}
	}
	return out, nil
}

// local is the path of a file at a location.
func local(location string) string { return strings.TrimPrefix(location, "file://") }

// query runs SQL over a table, which it calls t, and hands every row's first two columns to yield. A table without files
// has no rows.
func query(t *testing.T, dir, table, text string, yield func(name string, n int64)) {
	t.Helper()
	files, err := dataFiles(dir, table)
	if err != nil {
		t.Fatalf("table %s: %v", table, err)
	}
	queryFiles(t, files, text, yield)
}

// queryFiles is query over files that were chosen otherwise.
func queryFiles(t *testing.T, files []string, text string, yield func(name string, n int64)) {
	t.Helper()
	if len(files) == 0 {
		return
	}
	db, err := sql.Open("duckdb", "")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	from := "read_parquet(['" + strings.Join(files, "','") + "'], filename=true)"
	rows, err := db.QueryContext(t.Context(), "with t as (from "+from+") "+text)
	if err != nil {
		t.Fatalf("DuckDB: %v", err)
	}
	defer rows.Close()
	for rows.Next() {
		var name sql.NullString
		var n int64
		if err := rows.Scan(&name, &n); err != nil {
			t.Fatal(err)
		}
		yield(name.String, n)
	}
	if err := rows.Err(); err != nil {
		t.Fatalf("DuckDB: %v", err)
	}
}

// stored counts the rows of a dataset by partner_id, under which the ledger sends its marks.
func stored(t *testing.T, dir, id string) map[string]int {
	t.Helper()
	found := map[string]int{}
	query(t, dir, "events", "select partner_id, count(*) from t where data_set_id = '"+id+"' group by 1",
		func(mark string, n int64) { found[mark] = int(n) })
	query(t, dir, "events", "select 'ids', count(*) - count(distinct event_id) from t", func(_ string, n int64) {
		if n != 0 {
			t.Errorf("%d event ids are given twice", n)
		}
	})
	return found
}

// rejected is how many events of a dataset the table of rejections counts.
func rejected(t *testing.T, dir, id string) (total int) {
	t.Helper()
	query(t, dir, "rejections", "select '', sum(events)::bigint from t where data_set_id = '"+id+"'",
		func(_ string, n int64) { total = int(n) })
	return total
}
