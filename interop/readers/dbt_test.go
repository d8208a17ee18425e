//go:build engines

package readers

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/interop/engines"
)

// dbtWays are the ways in that docs/catalog.md has for dbt, each with what the events are called there.
var dbtWays = map[string]string{
	"catalog": "lake.sluice.events", "path": "iceberg_scan('/var/lib/sluice/lake/events')", "files": "sluice.main.events", "plugin": "sluice.main.events",
}

// sameRows prints, for each view, how many rows it has that the model has not, and the other way round.
const sameRows = `
import sys, duckdb
extensions, file, attach, events, views = sys.argv[1:]
db = duckdb.connect(config={"extension_directory": extensions, "threads": 1})
for name in ("avro", "httpfs", "iceberg"):
    db.execute("LOAD " + name)
db.execute(attach)
db.execute(f"ATTACH '{file}' AS sluice (READ_ONLY); CREATE SCHEMA memory.want; USE memory.want")
db.execute("CREATE VIEW events AS SELECT * FROM " + events)
db.execute(views)
for name in ("conversions", "refunds", "campaign_days", "touches", "attributions", "attribution_days", "quality_days"):
    rows = db.execute("SELECT count(*) FROM " + name).fetchone()[0]
    differ = db.execute(
        f"SELECT count(*) FROM ((FROM {name} EXCEPT ALL FROM sluice.main.{name}) UNION ALL (FROM sluice.main.{name} EXCEPT ALL FROM {name}))"
    ).fetchone()[0]
    print(name, "has rows" if rows else "is empty", "and", differ, "differ")
`

// viewsOfFiles is what docs/tables.md has for making views.sql.
func viewsOfFiles(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/tables.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "<!-- run: views -->\n```sh\n")
	text, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("docs/tables.md does not say how to make views.sql")
	}
	return text
}

// The dbt package runs over the tables of a service, by every way in that the documentation has; its tests pass; its models
// have the rows of the views that the program prints. SIZE=small is two of the ways.
func TestEngineDBT(t *testing.T) {
	w := startWorld(t, false)
	for range 3 {
		w.send(t, 40)
	}
	w.settle(t)
	views, err := exec.Command(w.bin, "lake", "views", "--dialect", "duckdb", "--window", "12h", "--time-zone", "Asia/Tokyo").Output()
	if err != nil {
		t.Fatal(err)
	}
	packages, err := filepath.Abs("../../measure/dbt")
	if err != nil {
		t.Fatal(err)
	}
	extensions := engines.Installed(t, "duckdb-extensions")
	for way, events := range dbtWays {
		if os.Getenv("SIZE") == "small" && way != "catalog" && way != "files" {
			continue
		}
		t.Run(way, func(t *testing.T) {
			begun := time.Now()
			dir := engines.Project{
				"packages.yml":    strings.Replace(recipe(t, "dbt-packages"), "/opt/sluice/measure/dbt", packages, 1),
				"profiles.yml":    strings.Replace(w.fill(recipe(t, "dbt-"+way+"-profile")), "type: duckdb\n", "type: duckdb\n      config_options: {extension_directory: "+extensions+"}\n", 1),
				"dbt_project.yml": w.fill(recipe(t, "dbt-"+way)),
			}.Dir(t)
			file := filepath.Join(dir, "sluice.duckdb")
			if way == "files" {
				w.run(t, "readers", "sh", viewsOfFiles(t)+"\npython -c \"import duckdb; duckdb.connect('"+file+"').execute(open('views.sql').read())\"")
			}
			out, err := engines.Build(t, dir, map[string]any{"sluice_window": "12h", "sluice_time_zone": "Asia/Tokyo", "sluice_settled_minutes": -60})
			if err != nil || !strings.Contains(out, "WARN=0 ERROR=0 SKIP=0") {
				t.Fatalf("%v\n%s", err, out)
			}
			attach := ""
			if way == "catalog" {
				attach = fmt.Sprintf("ATTACH 'sluice' AS lake (TYPE iceberg, ENDPOINT '%s/iceberg', AUTHORIZATION_TYPE 'none', ACCESS_DELEGATION_MODE 'none')", w.Ops())
			}
			python := filepath.Join(engines.Installed(t, "dbt"), "bin", "python")
			said, err := exec.CommandContext(t.Context(), python, "-c", sameRows, extensions, file, attach, w.fill(events), string(views)).CombinedOutput()
			if err != nil || strings.Count(string(said), "and 0 differ") != 7 || !strings.Contains(string(said), "conversions has rows") {
				t.Errorf("%v\n%s", err, said)
			}
			t.Logf("%s: %v", way, time.Since(begun).Round(time.Second))
		})
	}
}
