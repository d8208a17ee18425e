//go:build engines

package measure

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/internal/measure"
	"sluice/interop/engines"
)

// The models of the dbt package give the rows of the reference, with the settings of random histories as variables.
func TestViewsInDBT(t *testing.T) {
	usual := uint64(12)
	if os.Getenv("SIZE") == "small" {
		usual = 2
	}
	packages, err := filepath.Abs("../../measure/dbt")
	if err != nil {
		t.Fatal(err)
	}
	for seed := range seeds(usual) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			tr := newTrial(t, seed)
			s := tr.settings
			vars := map[string]any{
				"sluice_conversion_types": s.ConversionTypes, "sluice_window": fmt.Sprintf("%ds", int(s.Window.Seconds())),
				"sluice_household_max": s.HouseholdMax, "sluice_time_zone": s.TimeZone,
			}
			project := engines.Project{
				"dbt_project.yml": "name: reports\nprofile: sluice\n", "packages.yml": "packages:\n  - local: " + packages + "\n",
				"profiles.yml": fmt.Sprintf("sluice: {target: dev, outputs: {dev: {type: duckdb, path: sluice.duckdb, settings: {TimeZone: %s}}}}\n", sessions[seed%3]),
			}
			if s.Impressions != "" {
				vars["sluice_impressions"] = "ad_log"
				project["models/ad_log.sql"] = `SELECT * FROM "my log"`
			}
			dir := project.Dir(t)
			file := filepath.Join(dir, "sluice.duckdb")
			// The models read what tr reads, from a file of their own.
			tr.exec("ATTACH '" + file + "' AS made")
			var events string
			if err := tr.QueryRowContext(t.Context(), "SELECT sql FROM duckdb_views() WHERE view_name = 'events'").Scan(&events); err != nil {
				t.Fatal(err)
			}
			tr.exec(strings.Replace(events, "VIEW events", "VIEW made.main.events", 1))
			tr.exec(`CREATE TABLE made.main."my log" AS FROM "my log"`)
			tr.exec("CREATE TABLE made.main.hours (hour TIMESTAMPTZ, data_set_id VARCHAR, kind VARCHAR, name VARCHAR, field VARCHAR, count BIGINT)")
			tr.exec("DETACH made")
			out, err := engines.Build(t, dir, vars)
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			tr.exec("ATTACH '" + file + "' AS sluice (READ_ONLY)") // the models name their database
			tr.exec("USE sluice")
			for _, name := range measure.Names() {
				got, err := tr.read(t.Context(), name)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				if diff := differ(got, tr.want[name]); diff != "" {
					t.Errorf("%s: %s", name, diff)
				}
			}
		})
	}
}
