//go:build engines

package readers

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// engine is a query engine that people use. engines/MODULE.py lets it read; tools/engines installs it.
type engine struct {
	name, module string
	home         string // the virtual environment it is in
}

var allEngines = []engine{
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

// installed is where tools/engines puts engines.
func installed(t *testing.T, name ...string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(append([]string{"..", "..", "bin", "engines"}, name...)...))
	if err != nil {
		t.Fatal(err)
	}
	if found, err := filepath.Glob(path); err != nil || len(found) == 0 {
		t.Fatalf("%s is not there: run tools/engines", filepath.Join(name...))
	}
	return path
}

// driver is an engine that runs.
type driver struct {
	engine
	version string
	in      io.Writer
	out     *bufio.Scanner
	words   *bytes.Buffer
}

// place says where the tables are, as the module of an engine takes it.
type place map[string]any

// drive starts an engine. It ends with the test.
func drive(t *testing.T, e engine, p place) *driver {
	t.Helper()
	d := &driver{engine: e, words: &bytes.Buffer{}}
	cmd := exec.Command(installed(t, e.home, "bin", "python"), filepath.Join("engines", "drive.py"), e.module)
	// Nothing of this machine's own settings for a bucket, and no time zone but that of the tables.
	cmd.Env = append(os.Environ(), "TZ=UTC", "PYTHONDONTWRITEBYTECODE=1", "DAFT_ANALYTICS_ENABLED=0", "DO_NOT_TRACK=true")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = d.words
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
		t.Fatalf("%s does not start: %v\n%s", e.name, err, d.words)
	}
	d.version, _ = done["version"].(string)
	t.Logf("%s %s, started in %v", e.name, d.version, time.Since(begun).Round(time.Millisecond))
	return d
}

// do has the engine answer a request.
func (d *driver) do(request map[string]any) (rows []map[string]any, done map[string]any, err error) {
	if err := json.NewEncoder(d.in).Encode(request); err != nil {
		return nil, nil, err
	}
	return d.answer()
}

func (d *driver) answer() (rows []map[string]any, done map[string]any, err error) {
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
	return nil, nil, fmt.Errorf("the engine ended: %v\n%s", d.out.Err(), d.words)
}

// number is a number of an answer.
func number(done map[string]any, name string) int64 {
	n, _ := integer(done[name])
	return n
}

// read reads a table, at a snapshot unless it is 0.
func (d *driver) read(t *testing.T, table *Table, snapshot int64) []Row {
	t.Helper()
	request := map[string]any{"do": "rows", "table": table.Name}
	if snapshot != 0 {
		request["snapshot"] = snapshot
	}
	found, _, err := d.do(request)
	if err != nil {
		t.Errorf("%s: read %s: %v", d.name, table.Name, err)
		return nil
	}
	rows := make([]Row, len(found))
	for i := range found {
		if rows[i], err = fromJSON(table, found[i]); err != nil {
			t.Errorf("%s: %s: %v", d.name, table.Name, err)
			return nil
		}
	}
	return rows
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// chosen are the engines that ENGINES names, by the names of their modules; all of them if it names none.
func chosen(t *testing.T) (out []engine) {
	t.Helper()
	names := strings.Fields(os.Getenv("ENGINES"))
	for _, e := range allEngines {
		if len(names) == 0 {
			out = append(out, e)
		}
		for _, name := range names {
			if name == e.module {
				out = append(out, e)
			}
		}
	}
	if len(out) == 0 {
		t.Fatalf("ENGINES names no engine: %v", names)
	}
	return out
}
