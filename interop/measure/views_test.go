// Package measure holds the SQL views against a reference that is not SQL, in real engines.
package measure

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	_ "github.com/duckdb/duckdb-go/v2" // the driver

	"sluice/event"
	"sluice/internal/lake"
	"sluice/internal/measure"
)

// duck is a DuckDB with the events of a history.
type duck struct {
	*sql.DB
	t testing.TB
}

func (d duck) exec(statement string, args ...any) {
	d.t.Helper()
	if _, err := d.ExecContext(d.t.Context(), statement, args...); err != nil {
		d.t.Fatalf("%v\n%s", err, statement)
	}
}

// openDuck makes the relations events and, if there is one, "my log". The events go through real Parquet files of a lake.
func openDuck(t testing.TB, rows []event.Row, log []impression, bytes bool, session string) duck {
	t.Helper()
	db, err := sql.Open("duckdb", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	db.SetMaxOpenConns(1)
	d := duck{db, t}
	d.exec("SET TimeZone = '" + session + "'")
	d.exec("CREATE VIEW events AS SELECT * FROM read_parquet(['" + strings.Join(files(t, rows), "', '") + "'], hive_partitioning = false, union_by_name = true)")
	kind, wrap := "VARCHAR", "?"
	if bytes {
		kind, wrap = "BLOB", "unhex(?)"
	}
	d.exec(fmt.Sprintf(`CREATE TABLE "my log" (cp_id VARCHAR, impression_id VARCHAR, impression_time TIMESTAMPTZ, email_sha256 %s, ifa VARCHAR, ip_sha256 %s, data_set_id VARCHAR, more INT)`, kind, kind))
	for _, i := range log {
		d.exec(fmt.Sprintf(`INSERT INTO "my log" VALUES (nullif(?, ''), ?, make_timestamptz(?), %s, nullif(?, ''), %s, replace(?, 'empty', ''), 1)`, wrap, wrap),
			i.cpID, i.ID, i.Micros, orNull(i.email), i.ifa, orNull(i.ip), orNull(i.Dataset))
	}
	return d
}

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// newLake is a lake with the rows, in a directory.
func newLake(t testing.TB, rows []event.Row) (l *lake.Lake, dir string) {
	t.Helper()
	dir = t.TempDir()
	l, err := lake.OpenDir(t.Context(), dir, lake.Options{Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	for some := range slices.Chunk(rows, 1+len(rows)/2) {
		marks, err := l.Watermarks(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Commit(t.Context(), lake.Batch{Spans: []lake.Span{{From: marks, To: marks.Events + 1}}, Events: some}, 0); err != nil {
			t.Fatal(err)
		}
	}
	return l, dir
}

// files are the Parquet files of a lake with the rows; an empty one for none.
func files(t testing.TB, rows []event.Row) []string {
	t.Helper()
	l, dir := newLake(t, rows)
	if len(rows) == 0 {
		empty, err := os.Create(filepath.Join(dir, "empty.parquet"))
		if err != nil {
			t.Fatal(err)
		}
		defer empty.Close()
		if _, err := l.WriteParquet(t.Context(), lake.Query{}, empty); err != nil {
			t.Fatal(err)
		}
		return []string{empty.Name()}
	}
	out, err := l.Files(t.Context(), "events")
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// column is a column of a view, and how the reference spells its values.
type column struct{ name, kind string }

// spelled is how DuckDB spells the values of a kind as the reference does.
var spelled = map[string]string{
	"": "%s", "number": "%s", "micros": "epoch_us(%s)", "seconds": "strftime(%s AT TIME ZONE 'UTC', '%%Y-%%m-%%dT%%H:%%M:%%SZ')",
	"hash": "lower(hex(%s))", "list": "replace(%s::VARCHAR, ' ', '')",
}

// columnsOf are the columns of a view in the order of the reference.
func columnsOf(view string) (out []column) {
	named := func(names string) []column {
		for _, name := range strings.Fields(names) {
			name, kind, _ := strings.Cut(name, ":")
			out = append(out, column{name, kind})
		}
		return out
	}
	wide := func() {
		for _, c := range event.Columns() {
			kind := ""
			switch {
			case c.Time != nil:
				kind = "seconds"
			case c.Number != nil:
				kind = "number"
			case c.Hash != nil:
				kind = "hash"
			case c.List != nil:
				kind = "list"
			}
			out = append(out, column{c.Name, kind})
		}
	}
	switch view {
	case "conversions":
		wide()
		return named("reports")
	case "refunds":
		wide()
		return named("amount:number order_event_id order_time:micros order_cp_id")
	case "campaign_days":
		return named("data_set_id cp_id day event_type currency_code conversions gross:number refunded:number net:number late restricted suppressed")
	case "touches":
		return named("impression_id impression_time:micros data_set_id cp_id basis identifier optimization_eligible")
	case "attributions":
		return named("event_id data_set_id event_type event_time:micros value:number currency_code impression_id impression_time:micros cp_id " +
			"basis delay_seconds optimization_eligible")
	case "attribution_days":
		return named("data_set_id cp_id day event_type basis currency_code conversions gross:number refunded:number net:number")
	}
	return named("data_set_id day event_type events email_share:number ifa_share:number ip_share:number partner_share:number late restricted suppressed " +
		"sent_again joined_by_event_id")
}

// read are the rows of a view.
func (d duck) read(ctx context.Context, view string) (out [][]cell, err error) {
	var expressions []string
	columns := columnsOf(view)
	for _, c := range columns {
		expressions = append(expressions, fmt.Sprintf(spelled[c.kind], c.name)+"::VARCHAR")
	}
	rows, err := d.QueryContext(ctx, "SELECT "+strings.Join(expressions, ", ")+" FROM "+view)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	texts := make([]sql.NullString, len(expressions))
	into := make([]any, len(texts))
	for i := range texts {
		into[i] = &texts[i]
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		row := make([]cell, len(texts))
		for i, s := range texts {
			row[i] = text(s.String)
			if s.Valid && s.String == "" {
				row[i] = cell{text: "empty"}
			}
			if s.Valid && columns[i].kind == "number" {
				n, err := strconv.ParseFloat(s.String, 64)
				if err != nil {
					return nil, err
				}
				row[i] = cell{number: n, is: true}
			}
		}
		out = append(out, row)
	}
	return out, rows.Err()
}

// differ says how rows differ from those of the reference, "" if they do not. Their order is free.
func differ(got, want [][]cell) string {
	key := func(row []cell) string {
		var b strings.Builder
		for _, c := range row {
			if !c.is {
				b.WriteString(c.text)
			}
			b.WriteByte('|')
		}
		return b.String()
	}
	order := func(rows [][]cell) {
		sort.Slice(rows, func(i, k int) bool { return key(rows[i]) < key(rows[k]) })
	}
	order(got)
	order(want)
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			return fmt.Sprintf("%d rows, want %d; missing %s", len(got), len(want), key(want[i]))
		case i >= len(want):
			return fmt.Sprintf("%d rows, want %d; too much: %s", len(got), len(want), key(got[i]))
		case key(got[i]) != key(want[i]):
			return fmt.Sprintf("%d rows, want %d; got\n%s, want\n%s", len(got), len(want), key(got[i]), key(want[i]))
		}
		for c := range want[i] {
			a, b := got[i][c], want[i][c]
			if a.is != b.is || math.Abs(a.number-b.number) > b.slack {
				return fmt.Sprintf("%s: number %d: got %v, want %v", key(want[i]), c, a.number, b.number)
			}
		}
	}
	return ""
}

// trial is a history in DuckDB, and what its views must hold.
type trial struct {
	duck
	settings measure.Settings
	want     map[string][][]cell
}

var sessions = []string{"UTC", "America/Los_Angeles", "Asia/Tokyo"}

func newTrial(t testing.TB, seed uint64) *trial {
	t.Helper()
	f := newReference(t, seed)
	return &trial{openDuck(t, f.rows, f.log, seed%2 == 0, sessions[seed%3]), f.settings, f.views()}
}

// newReference is a random history.
func newReference(t testing.TB, seed uint64) *reference {
	t.Helper()
	h := newHistory(seed)
	f := &reference{rows: h.rows([]int{0, 3, 60, 250, 250}[h.IntN(5)], h.IntN(2) == 0), settings: h.settings}
	if h.settings.Impressions != "" {
		f.log = append([]impression{}, h.log(h.IntN(80))...)
	}
	zone, err := time.LoadLocation(h.settings.TimeZone)
	if err != nil {
		t.Fatal(err)
	}
	f.zone = zone
	return f
}

// statements are what sluice lake views prints, one for each view.
func (tr *trial) views() []measure.View {
	tr.t.Helper()
	if err := tr.settings.Validate(); err != nil {
		tr.t.Fatal(err)
	}
	d, _ := measure.LookupDialect("duckdb")
	views, err := measure.Views(d, tr.settings)
	if err != nil {
		tr.t.Fatal(err)
	}
	return views
}

// seeds is how many histories a test tries: MEASURE_SEEDS, or as many as usual.
func seeds(usual uint64) uint64 {
	if n, err := strconv.ParseUint(os.Getenv("MEASURE_SEEDS"), 10, 64); err == nil {
		return n
	}
	return usual
}

// Over random histories every view has the rows of the reference. MEASURE_SEEDS says how many histories; a failure names its seed.
func TestViewsInDuckDB(t *testing.T) {
	filled := map[string]int{}
	for seed := range seeds(24) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			tr := newTrial(t, seed)
			d, _ := measure.LookupDialect("duckdb")
			all, err := measure.Statements(d, tr.settings)
			if err != nil {
				t.Fatal(err)
			}
			tr.exec(all)
			for _, name := range measure.Names() {
				got, err := tr.read(t.Context(), name)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				if diff := differ(got, tr.want[name]); diff != "" {
					t.Errorf("%s: %s", name, diff)
				}
				filled[name] += len(got)
			}
		})
	}
	for _, name := range measure.Names() {
		if filled[name] < 10 {
			t.Errorf("%s: got %d rows in all histories, want many", name, filled[name])
		}
	}
}
