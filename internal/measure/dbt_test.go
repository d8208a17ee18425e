package measure_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/event"
	"sluice/internal/lake"
	"sluice/internal/measure"
)

var update = flag.Bool("update", false, "write the models into measure/dbt")

// Settings that occur nowhere else in the statements. In a model a variable of dbt takes the place of each.
var marked = measure.Settings{
	ConversionTypes: []string{"purchase", "custom:MARKED"}, Window: 1234567 * time.Second, HouseholdMax: 7654321,
	TimeZone: "Antarctica/Troll", Events: "MARKED_EVENTS", Impressions: "MARKED_IMPRESSIONS",
}

// variables has each marked setting as the statements spell it, and the macro or variable that takes its place.
var variables = []string{
	"(event_type IN ('purchase') OR event_type = 'custom' AND custom_event_name IN ('MARKED'))", "{{ sluice.converts() }}",
	"CASE WHEN event_type = 'custom' AND custom_event_name IN ('MARKED') THEN concat('custom:', custom_event_name) ELSE event_type END",
	"{{ sluice.event_type() }}",
	"1234567000000", "{{ sluice.window_micros() }}",
	"7654321", "{{ sluice.household_max() }}",
	"'Antarctica/Troll'", "{{ sluice.time_zone() }}",
	"MARKED_EVENTS", "{{ source('sluice', 'events') }}",
	"MARKED_IMPRESSIONS", "{{ ref(var('sluice_impressions')) }}",
}

var reads = regexp.MustCompile(`(FROM|JOIN) (` + strings.Join(measure.Names(), "|") + `)\b`)

// models are the views as models of dbt.
func models(t *testing.T, impressions string) map[string]string {
	t.Helper()
	s := marked
	s.Impressions = impressions
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	d, _ := measure.LookupDialect("duckdb")
	views, err := measure.Views(d, s)
	if err != nil {
		t.Fatal(err)
	}
	out, all := map[string]string{}, ""
	for _, v := range views {
		all += v.Query
		text := strings.NewReplacer(variables...).Replace(v.Query)
		out[v.Name] = reads.ReplaceAllString(text, "$1 {{ ref('sluice', '$2') }}") + "\n"
		for _, left := range []string{"MARKED", "Troll", "custom:", "'purchase')"} {
			if strings.Contains(out[v.Name], left) {
				t.Errorf("%s: %s is left in the model", v.Name, left)
			}
		}
	}
	for i := 0; i < len(variables); i += 2 {
		if found := strings.Contains(all, variables[i]); !found && (impressions != "" || variables[i] != marked.Impressions) {
			t.Errorf("no statement has %s", variables[i])
		}
	}
	return out
}

const made = "make generate makes this file from internal/measure. Do not change it here."

// The dbt package has the views that sluice lake views prints, and says of each column what the catalog says.
func TestDBT(t *testing.T) {
	files := map[string]string{}
	without, with := models(t, ""), models(t, marked.Impressions)
	for name, text := range without {
		if with[name] != text {
			text = "{% if var('sluice_impressions') %}\n" + with[name] + "{% else %}\n" + text + "{% endif %}\n"
		}
		files["models/"+name+".sql"] = "-- " + made + "\n" + text
	}
	var types []string
	for _, info := range event.Types() {
		types = append(types, info.Name)
	}
	files["macros/event_types.sql"] = "{# " + made + " #}\n{% macro event_types() %}\n  {{ return(['" + strings.Join(types, "', '") + "']) }}\n{% endmacro %}\n"
	tables := describe(t)
	files["models/schema.yml"] = schema(tables["events"])
	files["models/sources.yml"] = sources(tables)
	for name, want := range files {
		file := filepath.Join("..", "..", "measure", "dbt", name)
		got, err := os.ReadFile(file)
		switch {
		case err == nil && string(got) == want:
		case *update:
			if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		default:
			t.Errorf("%s is not what is made from the views: run make generate", name)
		}
	}
	found, err := filepath.Glob("../../measure/dbt/models/*")
	if err != nil || len(found) != len(files)-1 {
		t.Errorf("got the models %v, %v", found, err)
	}
}

// docs are what the tables say of their columns.
type docs []struct{ Name, Doc string }

// of is what a column means.
func (d docs) of(name string) string {
	return d[slices.IndexFunc(d, func(c struct{ Name, Doc string }) bool { return c.Name == name })].Doc
}

// describe reads the tables of a new lake.
func describe(t *testing.T) map[string]docs {
	t.Helper()
	dir := t.TempDir()
	if _, err := lake.OpenDir(t.Context(), dir, lake.Options{Now: time.Now}); err != nil {
		t.Fatal(err)
	}
	out := map[string]docs{}
	for _, table := range []string{"events", "hours"} {
		b, err := os.ReadFile(filepath.Join(dir, table, "metadata", "v1.metadata.json"))
		if err != nil {
			t.Fatal(err)
		}
		var m struct{ Schemas []struct{ Fields docs } }
		if err := json.Unmarshal(b, &m); err != nil {
			t.Fatal(err)
		}
		out[table] = m.Schemas[0].Fields
	}
	return out
}

// together are the columns of which a view has each combination once.
var together = map[string]string{
	"campaign_days":    "data_set_id, cp_id, day, event_type, currency_code",
	"touches":          "impression_id, basis",
	"attribution_days": "data_set_id, cp_id, day, event_type, basis, currency_code",
	"quality_days":     "data_set_id, day, event_type",
}

// nullable are the columns of a view's own that may be null, and those of events that may be null in a view alone.
var nullable = []string{"refunds.amount", "refunds.order_event_id", "refunds.order_time", "refunds.order_cp_id", "touches.data_set_id"}

// tests are what dbt holds of a column. Columns that a view takes from events as they are need no test in each view.
func tests(view string, c measure.ViewColumn) (out []string) {
	if c.Name == "event_id" {
		out = append(out, "unique")
	}
	taken := (view == "conversions" || view == "refunds") && c.Of == c.Name && c.Name != "event_id"
	optional := slices.ContainsFunc(event.Columns(), func(e event.Column) bool { return e.Name == c.Of && e.Optional })
	if !taken && !optional && !slices.Contains(nullable, view+"."+c.Name) {
		out = append(out, "not_null")
	}
	switch {
	case c.Name == "basis":
		out = append(out, accepted([]string{"person", "device", "household"}))
	case strings.HasSuffix(c.Name, "_share"):
		out = append(out, "sluice.share")
	case view == "attributions" && c.Name == "event_id":
		out = append(out, "relationships: {arguments: {to: \"ref('sluice', 'conversions')\", field: event_id}}")
	}
	return out
}

func accepted(values []string) string {
	return "accepted_values: {arguments: {values: [" + strings.Join(values, ", ") + "]}}"
}

// column is a column in YAML.
func column(indent, name, doc string, tests []string) string {
	out := fmt.Sprintf("%s- name: %s\n%s  description: %q\n", indent, name, indent, doc)
	if len(tests) > 0 {
		out += indent + "  data_tests:\n"
	}
	for _, test := range tests {
		out += indent + "    - " + test + "\n"
	}
	return out
}

// schema is the description of the models.
func schema(events docs) string {
	out := "# " + made + "\nversion: 2\nmodels:\n"
	for _, name := range measure.Names() {
		out += fmt.Sprintf("  - name: %s\n    description: %q\n", name, measure.Doc(name))
		if columns := together[name]; columns != "" {
			out += "    data_tests:\n      - sluice.unique_together: {arguments: {columns: [" + columns + "]}}\n"
		}
		out += "    columns:\n"
		v := measure.View{Name: name}
		for _, c := range v.Columns() {
			doc := c.Doc
			if doc == "" {
				doc = events.of(c.Of)
			}
			out += column("      ", c.Name, doc, tests(name, c))
		}
	}
	return out
}

// sources is the description of the tables that the models and tests read.
func sources(tables map[string]docs) string {
	out := "# " + made + `
version: 2
sources:
  - name: sluice
    description: The tables of Sluice
    database: "{{ var('sluice_database') or target.database }}"
    schema: "{{ var('sluice_schema') }}"
    tables:
`
	for _, table := range []string{"events", "hours"} {
		out += "      - name: " + table + "\n        columns:\n"
		for _, c := range tables[table] {
			var tests []string
			switch {
			case table == "hours":
			case c.Name == "event_id":
				tests = []string{"unique", "not_null"}
			case c.Name == "privacy":
				tests = []string{"not_null", accepted([]string{event.Unrestricted.String(), event.MeasurementOnly.String(), event.Suppressed.String()})}
			case slices.Contains([]string{"data_set_id", "event_type", "event_time", "received_at"}, c.Name):
				tests = []string{"not_null"}
			}
			out += column("          ", c.Name, c.Doc, tests)
		}
	}
	return out
}
