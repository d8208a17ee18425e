package readers

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	_ "github.com/duckdb/duckdb-go/v2" // the driver
)

func openDuckDB() (*sql.DB, error) {
	db, err := sql.Open("duckdb", "")
	if err != nil {
		return nil, err
	}
	if _, err := db.Exec("SET TimeZone='UTC'"); err != nil {
		db.Close()
		return nil, err
	}
	return db, nil
}

// list is a list of texts in SQL.
func list(texts []string) string { return "['" + strings.Join(texts, "','") + "']" }

// expression gives a column in the form of a Row.
func (c *Column) expression() string {
	switch c.Kind {
	case UUID:
		return c.Name + "::VARCHAR"
	case Hash:
		return "lower(hex(" + c.Name + "))"
	case Time:
		return "epoch_us(" + c.Name + ")"
	}
	return c.Name
}

func readDuckDB(ctx context.Context, src Source) (map[string]*Read, error) {
	db, err := openDuckDB()
	if err != nil {
		return nil, err
	}
	defer db.Close()
	out := map[string]*Read{}
	for _, t := range src.tables() {
		read := &Read{}
		out[t.Name] = read
		for _, name := range src.Files[t.Name] {
			rows, err := queryRows(ctx, db, t, "read_parquet('"+name+"')")
			if err != nil {
				read.Errors = append(read.Errors, err.Error())
			}
			read.Rows = append(read.Rows, rows...)
		}
	}
	return out, nil
}

// queryRows selects every column by its name.
func queryRows(ctx context.Context, db *sql.DB, t *Table, from string) ([]Row, error) {
	names := make([]string, len(t.Columns))
	for i := range t.Columns {
		names[i] = t.Columns[i].expression()
	}
	rows, err := db.QueryContext(ctx, "SELECT "+strings.Join(names, ", ")+" FROM "+from)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []Row
	cells := make([]any, len(t.Columns))
	into := make([]any, len(t.Columns))
	for i := range cells {
		into[i] = &cells[i]
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return out, err
		}
		row := make(Row, len(cells))
		for i, v := range cells {
			if v == nil {
				continue
			}
			value, err := duckValue(t.Columns[i].Kind, v)
			if err != nil {
				return out, fmt.Errorf("column %s: %w", t.Columns[i].Name, err)
			}
			row[t.Columns[i].Name] = value
		}
		out = append(out, row)
	}
	return out, rows.Err()
}

func duckValue(kind Kind, v any) (any, error) {
	switch v := v.(type) {
	case int32:
		if kind == Int32 {
			return int64(v), nil
		}
	case int64:
		if kind == Int64 || kind == Time {
			return v, nil
		}
	case string:
		if kind == Text || kind == UUID || kind == Hash {
			return v, nil
		}
	case float64:
		if kind == Double {
			return v, nil
		}
	case bool:
		if kind == Bool {
			return v, nil
		}
	case []any:
		out := make([]int64, len(v))
		for i := range v {
			n, ok := v[i].(int32)
			if !ok {
				return nil, fmt.Errorf("an element of type %T", v[i])
			}
			out[i] = int64(n)
		}
		return out, nil
	}
	return nil, fmt.Errorf("unexpected type %T", v)
}

// checkDuckDB asks questions that DuckDB answers from statistics where it can, and compares the answers with the rows.
func checkDuckDB(ctx context.Context, report *Report, src Source, want map[string][]Row, facts map[string]*fileFacts) error {
	db, err := openDuckDB()
	if err != nil {
		return err
	}
	defer db.Close()
	for _, t := range src.tables() {
		files := src.Files[t.Name]
		if len(files) == 0 {
			continue
		}
		from := "read_parquet(" + list(files) + ", union_by_name = true)"
		if len(t.Sums) == 0 {
			for i := range t.Columns {
				checkPredicates(ctx, db, report, t, &t.Columns[i], from, want[t.Name])
			}
		}
		if err := checkDuckMetadata(ctx, db, report, t, files, facts); err != nil {
			report.add("DuckDB metadata", t.Name, "unreadable", err.Error())
		}
	}
	return nil
}

// checkPredicates counts nulls, and the rows that have the least, the greatest and one other value of a column.
func checkPredicates(ctx context.Context, db *sql.DB, report *Report, t *Table, col *Column, from string, rows []Row) {
	ask := func(where string, want int, args ...any) {
		var got int
		err := db.QueryRowContext(ctx, "SELECT count(*) FROM "+from+" WHERE "+where, args...).Scan(&got)
		if err != nil {
			report.add("DuckDB predicates", t.Name, "error", col.Name+": "+err.Error())
		} else if got != want {
			report.add("DuckDB predicates", t.Name, "count", fmt.Sprintf("%s: %d rows, want %d", where, got, want))
		}
	}
	counts := map[any]int{}
	var some []any
	nulls := 0
	for _, row := range rows {
		v, ok := row[col.Name]
		if !ok {
			nulls++
			continue
		}
		if col.Kind == Int32s {
			continue
		}
		if counts[v] == 0 && len(some) < 2 {
			some = append(some, v)
		}
		counts[v]++
	}
	ask(col.Name+" IS NULL", nulls)
	ask(col.Name+" IS NOT NULL", len(rows)-nulls)
	for _, v := range some {
		switch col.Kind {
		case Hash:
			ask(col.Name+" = from_hex(?)", counts[v], v)
		case Time:
			ask(col.Name+" = make_timestamptz(?)", counts[v], v)
		case UUID:
			ask(col.Name+" = ?::UUID", counts[v], v)
		default:
			ask(col.Name+" = ?", counts[v], v)
		}
	}
}

// checkDuckMetadata compares what DuckDB finds in the footers.
func checkDuckMetadata(ctx context.Context, db *sql.DB, report *Report, t *Table, files []string, facts map[string]*fileFacts) error {
	rows, err := db.QueryContext(ctx, `SELECT file_name, row_group_id, column_id, path_in_schema, num_values, stats_null_count
		FROM parquet_metadata(`+list(files)+`)`)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var name, path string
		var group, column int
		var values int64
		var nulls sql.NullInt64
		if err := rows.Scan(&name, &group, &column, &path, &values, &nulls); err != nil {
			return err
		}
		if facts[name] == nil || column >= len(t.Columns) || group >= len(facts[name].columns[column].groups) {
			report.add("DuckDB metadata", t.Name, "unknown column", path)
			continue
		}
		want := facts[name].columns[column].groups[group]
		if got := strings.ReplaceAll(path, ", ", "."); got != want.path {
			report.add("DuckDB metadata", t.Name, "column path", fmt.Sprintf("%q, want %q", got, want.path))
		}
		if values != want.values || nulls.Int64 != want.nulls || !nulls.Valid {
			report.add("DuckDB metadata", t.Name, "null count", fmt.Sprintf("%s: %v of %d, want %d of %d", want.path, nulls, values, want.nulls, want.values))
		}
	}
	return rows.Err()
}
