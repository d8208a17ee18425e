//go:build engines

package measure

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"sluice/internal/measure"
	"sluice/interop/engines"
)

// spelling is how an engine spells an operator's own impressions, and how its session names the events.
type spelling struct {
	dialect, events, log, show    string
	view, text, null, hex, micros string
}

var spellings = map[string]spelling{
	"trin": {
		"trino", "sluice.sluice.events", `"my log"`, "SHOW TABLES FROM sluice.sluice", "CREATE OR REPLACE VIEW", "CAST('%s' AS VARCHAR)", "CAST(NULL AS VARCHAR)", "from_hex('%s')",
		"CAST(from_unixtime_nanos(%d * 1000) AS TIMESTAMP(6) WITH TIME ZONE) AT TIME ZONE 'UTC'",
	},
	"sparky": {
		"spark", "lake.sluice.events", "`my log`", "SHOW VIEWS IN lake.sluice", "CREATE OR REPLACE TEMPORARY VIEW", "'%s'", "CAST(NULL AS STRING)", "unhex('%s')", "timestamp_micros(%d)",
	},
}

// impressions is the statement that makes the operator's own log.
func (s spelling) impressions(log []impression, bytes bool) string {
	value := func(text string) string {
		if text == "" {
			return s.null
		}
		return fmt.Sprintf(s.text, text)
	}
	hash := func(text string) string {
		switch {
		case !bytes:
			return value(text)
		case text == "":
			return "CAST(NULL AS " + map[string]string{"trino": "VARBINARY", "spark": "BINARY"}[s.dialect] + ")"
		}
		return fmt.Sprintf(s.hex, text)
	}
	one := func(i impression) string {
		return fmt.Sprintf("SELECT %s AS cp_id, %s AS impression_id, %s AS impression_time, %s AS email_sha256, %s AS ifa, %s AS ip_sha256, %s AS data_set_id, 1 AS more",
			value(i.cpID), value(i.ID), fmt.Sprintf(s.micros, i.Micros), hash(i.email), value(i.ifa), hash(i.ip), value(i.Dataset))
	}
	selects := []string{one(impression{ID: "none"}) + " WHERE 1 = 0"}
	for _, i := range log {
		selects = append(selects, one(i))
	}
	return s.view + " " + s.log + " AS " + strings.Join(selects, "\nUNION ALL ")
}

// cells are a row of an engine as the reference spells it.
func cells(columns []column, row map[string]any) ([]cell, error) {
	out := make([]cell, len(columns))
	for i, c := range columns {
		v, ok := row[c.name]
		if !ok {
			out[i] = null()
			continue
		}
		if parts, ok := v.(map[string]any); ok { // bytes or a time
			if v, ok = parts["hex"]; !ok {
				v = parts["micros"]
			}
		}
		switch c.kind {
		case "number":
			n, err := v.(json.Number).Float64()
			if err != nil {
				return nil, err
			}
			out[i] = cell{number: n, is: true}
		case "seconds":
			micros, err := v.(json.Number).Int64()
			if err != nil {
				return nil, err
			}
			out[i] = say(time.UnixMicro(micros).UTC().Format(time.RFC3339))
		case "list":
			out[i] = say(strings.ReplaceAll(fmt.Sprint(v), " ", ","))
		default:
			if out[i] = say(v); v == "" {
				out[i] = cell{text: "empty"}
			}
		}
	}
	return out, nil
}

// Trino and Spark give the rows of the reference, as DuckDB does, over random histories that they read through the catalog:
// in the views that the program prints, and in those of the catalog.
func TestViewsInEngines(t *testing.T) {
	usual := uint64(24)
	if os.Getenv("SIZE") == "small" {
		usual = 8
	}
	for _, e := range engines.Chosen(t) {
		s, ok := spellings[e.Module]
		if !ok {
			continue
		}
		t.Run(e.Name, func(t *testing.T) {
			tables := &engines.Shown{}
			address := tables.Serve(t)
			page, err := os.ReadFile("../../docs/catalog.md")
			if err != nil {
				t.Fatal(err)
			}
			d := engines.Start(t, e, engines.Place{
				"catalog": address + "/iceberg", "properties": strings.ReplaceAll(block(t, string(page), "engine: trino"), "http://127.0.0.1:8081", address) +
					"iceberg.rest-catalog.warehouse=sluice\n",
			})
			for seed := range seeds(usual) {
				t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
					f := newReference(t, seed)
					tables.Lake, _ = newLake(t, f.rows)
					tables.Views = f.settings
					s.try(t, d, f, seed)
				})
			}
		})
	}
}

// try makes the views of one history in an engine and reads them.
func (s spelling) try(t *testing.T, d *engines.Driver, f *reference, seed uint64) {
	do := func(request map[string]any) []map[string]any {
		rows, _, err := d.Do(request)
		if err != nil {
			t.Fatalf("%.2000v: %v", request, err)
		}
		return rows
	}
	do(map[string]any{"do": "session", "zone": sessions[seed%3]})
	settings := f.settings
	settings.Events = s.events
	if settings.Impressions != "" {
		settings.Impressions = s.log
		do(map[string]any{"do": "run", "text": s.impressions(f.log, seed%2 == 0)})
	}
	dialect, _ := measure.LookupDialect(s.dialect)
	if err := settings.Validate(); err != nil {
		t.Fatal(err)
	}
	views, err := measure.Statements(dialect, settings)
	if err != nil {
		t.Fatal(err)
	}
	do(map[string]any{"do": "run", "text": views})
	listed := fmt.Sprint(do(map[string]any{"do": "run", "text": s.show}))
	for _, name := range measure.Names() {
		if !strings.Contains(listed, ":"+name+" ") && !strings.Contains(listed, ":"+name+"]") {
			t.Errorf("%s does not list %s: %s", s.show, name, listed)
		}
	}
	want := f.views()
	from := []string{""}
	if f.settings.Impressions == "" { // a view of the catalog does not see a relation of the session
		from = append(from, strings.TrimSuffix(s.events, "events"))
	}
	for _, prefix := range from {
		for _, name := range measure.Names() {
			columns := columnsOf(name)
			var got [][]cell
			for _, row := range do(map[string]any{"do": "select", "text": "SELECT * FROM " + prefix + name}) {
				one, err := cells(columns, row)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, one)
			}
			if diff := differ(got, want[name]); diff != "" {
				t.Errorf("%s%s: %s", prefix, name, diff)
			}
		}
	}
	t.Logf("read from %q", from)
}
