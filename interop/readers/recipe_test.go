//go:build engines

package readers

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"sluice/interop/engines"
	"sluice/interop/gateway"
)

// The pages that have recipes, from here.
var pages = []string{"../../docs/catalog.md", "../../docs/tables.md"}

var recipeBlock = regexp.MustCompile("(?s)<!-- engine: ([a-z-]+) -->\n```([a-z]+)\n(.*?)```\n")

// recipe is a block of the documentation by its name.
func recipe(t *testing.T, name string) string {
	t.Helper()
	for _, page := range pages {
		b, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range recipeBlock.FindAllStringSubmatch(string(b), -1) {
			if m[1] == name {
				return m[3]
			}
		}
	}
	t.Fatalf("the documentation has no recipe %s", name)
	return ""
}

// fill puts the addresses and secrets of a world into the places that the documentation has for them. The listener and
// the bucket of a test have no TLS.
func (w *world) fill(text string) string {
	return fillBucket(w.bucket, strings.NewReplacer("https://sluice.example:8081", w.Ops(), "http://127.0.0.1:8081", w.Ops(),
		"READER_TOKEN", w.token, "/var/lib/sluice", w.dir).Replace(text))
}

// fillBucket is fill for what belongs to a bucket, if there is one.
func fillBucket(g *gateway.Gateway, text string) string {
	if g == nil {
		return text
	}
	return strings.NewReplacer("https://s3.example.com", g.URL, "s3.example.com", strings.TrimPrefix(g.URL, "http://"), "USE_SSL true", "USE_SSL false",
		"my-bucket/sluice", gateway.Bucket+"/lake", "my-bucket", gateway.Bucket, "eu-central-1", gateway.Region,
		"ACCESS_KEY", gateway.AccessKey, "SECRET_KEY", gateway.SecretKey, `"aws_allow_http": "false"`, `"aws_allow_http": "true"`).Replace(text)
}

// counted says whether an output has the number of events of each type.
func (w *world) tells(t *testing.T, name, output string) {
	t.Helper()
	counts := map[string]int{}
	for _, row := range w.want() {
		counts[row["event_type"].(string)]++
	}
	for kind, n := range counts {
		if !regexp.MustCompile(fmt.Sprintf(`(?s)\b%s\b[^0-9a-z]{1,60}\b%d\b`, kind, n)).MatchString(output) {
			t.Errorf("%s: got no %d of %s:\n%.3000s", name, n, kind, output)
		}
	}
}

// run runs a block of a language as a user does.
func (w *world) run(t *testing.T, home, language, text string) string {
	t.Helper()
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	bin := filepath.Join(engines.Installed(t, home), "bin")
	var cmd *exec.Cmd
	switch language {
	case "python":
		cmd = exec.CommandContext(ctx, filepath.Join(bin, "python"), "-c", text)
	case "sh":
		cmd = exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", text)
	}
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+filepath.Dir(w.bin)+":"+os.Getenv("PATH"), "TZ=UTC", "SLUICE_DATA="+w.dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%.4000s", err, out)
	}
	return string(out)
}

// The recipes of the documentation are run word for word, with the addresses and the secrets of this machine.
func TestEngineRecipes(t *testing.T) {
	for _, bucket := range []bool{false, true} {
		name := map[bool]string{false: "directory", true: "bucket"}[bucket]
		t.Run(name, func(t *testing.T) {
			w := startWorld(t, bucket)
			for range 3 {
				w.send(t, 10)
			}
			for name, r := range recipes {
				if r.bucket != bucket || !r.chosen(t) {
					continue
				}
				t.Run(name, func(t *testing.T) { w.tells(t, name, r.run(t, w, w.fill(recipe(t, name)))) })
			}
		})
	}
}

// howToRun is how a recipe is run.
type howToRun struct {
	bucket bool
	module string // of its engine
	run    func(t *testing.T, w *world, text string) (output string)
}

func (r howToRun) chosen(t *testing.T) bool {
	t.Helper()
	for _, e := range engines.Chosen(t) {
		if e.Module == r.module {
			return true
		}
	}
	return false
}

// Every recipe that the documentation has is here: TestEveryRecipeIsRun.
var recipes = map[string]howToRun{
	"duckdb":            {false, "duck", inDuckDB},
	"duckdb-path":       {false, "duck", inDuckDB},
	"duckdb-bucket":     {true, "duck", inDuckDB},
	"pyiceberg":         {false, "pyice", inPython},
	"pyiceberg-bucket":  {true, "pyice", inPython},
	"polars":            {false, "pola", inPython},
	"polars-bucket":     {true, "pola", inPython},
	"pandas":            {false, "panda", inPython},
	"pandas-files":      {false, "panda", inPython},
	"pandas-bucket":     {true, "panda", inPython},
	"daft":              {false, "dafty", inPython},
	"clickhouse":        {false, "click", inClickHouse},
	"clickhouse-path":   {false, "click", inClickHouse},
	"clickhouse-bucket": {true, "click", inClickHouse},
	"spark":             {false, "sparky", inSpark},
	"spark-path":        {false, "sparky", inSpark},
	"spark-bucket":      {true, "sparky", inSpark},
}

func inPython(t *testing.T, w *world, text string) string { return w.run(t, "readers", "python", text) }

// quoted is a text as Python takes it.
func quoted(text string) string { return fmt.Sprintf("%q", text) }

// inDuckDB runs statements in DuckDB's own interpreter of them, with the directory in which tools/engines has put its
// extensions.
func inDuckDB(t *testing.T, w *world, text string) string {
	return w.run(t, "readers", "python", fmt.Sprintf("import duckdb\ndb = duckdb.connect(config={'extension_directory': %s})\nprint(db.execute(%s).fetchall())",
		quoted(engines.Installed(t, "duckdb-extensions")), quoted(text)))
}

// inClickHouse runs statements one by one, in the directory that the page names.
func inClickHouse(t *testing.T, w *world, text string) string {
	return w.run(t, "readers", "python", fmt.Sprintf("import os\nfrom chdb import session\nos.chdir('/')\ns = session.Session()\nfor one in %s.split(';'):\n    if one.strip():\n        print(s.query(one, 'TSV'))", quoted(text)))
}

// inSpark runs spark-sql, which finds the packages that it is told to use in the directory in which tools/engines has put
// them.
func inSpark(t *testing.T, w *world, text string) string {
	conf := t.TempDir()
	settings := "spark.jars " + engines.Jars(t) + "\nspark.ui.enabled false\nspark.driver.memory 1g\nspark.driver.host 127.0.0.1\nspark.driver.bindAddress 127.0.0.1\n"
	if err := os.WriteFile(filepath.Join(conf, "spark-defaults.conf"), []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SPARK_CONF_DIR", conf)
	text = regexp.MustCompile(`--packages \S+`).ReplaceAllString(text, "")
	return w.run(t, "spark", "sh", text)
}

// No recipe escapes the tests, and no block of code under a heading for an engine is without a name.
func TestEveryRecipeIsRun(t *testing.T) {
	parts := map[string]bool{ // of recipes that need several, or that other tests run
		"trino": true, "trino-bucket": true, "trino-query": true, "dbt-packages": true,
	}
	for way := range dbtWays {
		parts["dbt-"+way], parts["dbt-"+way+"-profile"] = true, true
	}
	found := map[string]bool{}
	for _, page := range pages {
		b, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range recipeBlock.FindAllStringSubmatch(string(b), -1) {
			found[m[1]] = true
			if _, ok := recipes[m[1]]; !ok && !parts[m[1]] {
				t.Errorf("%s: the recipe %s is not run", page, m[1])
			}
		}
	}
	for name := range recipes {
		if !found[name] {
			t.Errorf("there is no recipe %s", name)
		}
	}
}
