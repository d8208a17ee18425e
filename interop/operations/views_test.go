package operations

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"strings"

	_ "github.com/duckdb/duckdb-go/v2" // the driver

	"sluice/internal/measure"
)

// report is what makes events reports of the same conversion; without an order each is one of its own.
type report struct{ dataset, order string }

// checkViews reads the views in DuckDB, over the files that the table lists: whatever was erased, compacted, moved or restored,
// each order is one conversion, and those of all days are as many.
func (w *world) checkViews(ctx context.Context) error {
	t, err := w.openAt(ctx, w.location())
	if err != nil {
		return err
	}
	rows, err := scan(ctx, t, w.location())
	if err != nil || len(rows) == 0 {
		return err
	}
	tasks, err := t.Scan().PlanFiles(ctx)
	if err != nil {
		return err
	}
	var files []string
	for _, task := range tasks {
		files = append(files, w.onDisk(task.File.FilePath()))
	}
	db, err := sql.Open("duckdb", "")
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	dialect, _ := measure.LookupDialect("duckdb")
	views, err := measure.Statements(dialect, measure.Defaults())
	if err != nil {
		return err
	}
	events := "CREATE VIEW events AS FROM read_parquet(['" + strings.Join(files, "', '") + "'], hive_partitioning = false, union_by_name = true);"
	if _, err := db.ExecContext(ctx, events+views); err != nil {
		return err
	}
	want, all := map[report]int{}, 0
	for _, r := range rows {
		if want[report{r.dataset, r.order}]++; r.order == "" || want[report{r.dataset, r.order}] == 1 {
			all++
		}
	}
	found, err := db.QueryContext(ctx, "SELECT data_set_id, coalesce(order_id, ''), reports FROM conversions")
	if err != nil {
		return err
	}
	defer found.Close()
	got, n := map[report]int{}, 0
	for ; found.Next(); n++ {
		var r report
		var reports int
		if err := found.Scan(&r.dataset, &r.order, &reports); err != nil {
			return err
		}
		got[r] += reports
	}
	if err := found.Err(); err != nil {
		return err
	}
	var days int
	if err := db.QueryRowContext(ctx, "SELECT CAST(sum(conversions) AS BIGINT) FROM campaign_days").Scan(&days); err != nil {
		return err
	}
	if !maps.Equal(got, want) || n != all || days != all {
		return fmt.Errorf("got %d conversions, %d in all days, of %v; want %d of %v", n, days, got, all, want)
	}
	return nil
}
