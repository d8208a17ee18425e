package readers

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// nodeDir is where the script and its packages lie, for the tests of this package and of those beside it.
const nodeDir = "../readers/node"

type nodeTable struct {
	Files []string `json:"files,omitempty"`
	Table string   `json:"table,omitempty"`
}

func readHyparquet(ctx context.Context, src Source) (map[string]*Read, error) {
	tables := map[string]nodeTable{}
	for _, t := range src.tables() {
		tables[t.Name] = nodeTable{Files: src.Files[t.Name]}
	}
	return runNode(ctx, src, nodeInput{Tables: tables})
}

// readIcebird gives icebird addresses of a server on this machine: it reads no local files.
func readIcebird(ctx context.Context, src Source) (map[string]*Read, error) {
	tables := map[string]nodeTable{}
	for _, t := range src.tables() {
		tables[t.Name] = nodeTable{Table: filepath.Join(src.Dir, t.Name)}
	}
	base, stop, err := serveFiles()
	if err != nil {
		return nil, err
	}
	defer stop()
	return runNode(ctx, src, nodeInput{Base: base, Tables: tables})
}

// serveFiles serves the files of this machine by their path.
func serveFiles() (base string, stop func(), err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	server := httptest.NewUnstartedServer(http.FileServer(http.Dir("/")))
	server.Listener = listener
	server.Start()
	return server.URL, server.Close, nil
}

// nodeInput is the input of read.mjs.
type nodeInput struct {
	Base    string               `json:"base"`
	Tables  map[string]nodeTable `json:"tables"`
	Catalog *nodeCatalog         `json:"catalog,omitempty"`

	found *nodeFound // in the catalog
}

// nodeCatalog is a catalog to attach.
type nodeCatalog struct {
	URL   string `json:"url"`
	Token string `json:"token,omitempty"`
}

// nodeFound is what iceberg-js finds in a catalog.
type nodeFound struct {
	Namespaces, Tables []string
	Exists, Missing    bool
	Rejected           any // the status of an attempt to write
}

// runNode lets read.mjs read tables.
func runNode(ctx context.Context, src Source, in nodeInput) (map[string]*Read, error) {
	for _, name := range []string{"icebird", "iceberg-js"} {
		if _, err := os.Stat(filepath.Join(nodeDir, "node_modules", name)); err != nil {
			return nil, errors.New("the packages of interop/readers/node are not installed: run make setup")
		}
	}
	input, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "node", "read.mjs")
	cmd.Dir = nodeDir
	cmd.Stdin = bytes.NewReader(input)
	var words bytes.Buffer
	cmd.Stderr = &words
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("node is needed: %w", err)
	}
	reads := map[string]*Read{}
	for _, t := range src.tables() {
		reads[t.Name] = &Read{}
	}
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 16<<20)
	for err == nil && lines.Scan() {
		err = readLine(src, reads, in.found, lines.Bytes())
	}
	err = errors.Join(err, lines.Err(), cmd.Wait())
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, words.String())
	}
	return reads, nil
}

func readLine(src Source, reads map[string]*Read, found *nodeFound, text []byte) error {
	var line struct {
		Catalog *nodeFound     `json:"catalog"`
		Table   string         `json:"table"`
		File    string         `json:"file"`
		Error   string         `json:"error"`
		Row     map[string]any `json:"row"`
		Footer  *nodeFooter    `json:"footer"`
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&line); err != nil {
		return err
	}
	if line.Catalog != nil {
		*found = *line.Catalog
		return nil
	}
	read, t := reads[line.Table], src.table(line.Table)
	if read == nil {
		return fmt.Errorf("a line of table %q", line.Table)
	}
	switch {
	case line.Error != "":
		read.Errors = append(read.Errors, line.Error)
	case line.Footer != nil:
		read.Errors = append(read.Errors, line.Footer.faults(t)...)
	default:
		row, err := fromJSON(t, line.Row)
		if err != nil {
			read.Errors = append(read.Errors, err.Error())
		}
		read.Rows = append(read.Rows, row)
	}
	return nil
}

// nodeFooter is a footer as hyparquet sees it.
type nodeFooter struct {
	Columns []struct {
		Path string `json:"path"`
	} `json:"columns"`
}

func (f *nodeFooter) faults(t *Table) (out []string) {
	for i, c := range f.Columns {
		if want := t.Columns[i%len(t.Columns)].path(); c.Path != want {
			out = append(out, fmt.Sprintf("footer names a column %q, want %q", c.Path, want))
		}
	}
	return out
}

func (s *Source) table(name string) *Table {
	for _, t := range s.tables() {
		if t.Name == name {
			return t
		}
	}
	return nil
}

// fromJSON takes a row as read.mjs writes it.
func fromJSON(t *Table, in map[string]any) (Row, error) {
	row := make(Row, len(in))
	var bad error
	for name, v := range in {
		row[name] = v
		for i := range t.Columns {
			if t.Columns[i].Name != name {
				continue
			}
			value, ok := fromValue(t.Columns[i].Kind, v)
			if !ok {
				bad = fmt.Errorf("column %s: a value of another type (%T)", name, v)
			}
			row[name] = value
		}
	}
	return row, bad
}

func fromValue(kind Kind, v any) (any, bool) {
	switch kind {
	case Text:
		s, ok := v.(string)
		return s, ok
	case UUID:
		if m, ok := v.(map[string]any); ok { // older releases of hyparquet give its bytes
			digits, _ := m["hex"].(string)
			return hyphened(digits)
		}
		s, ok := v.(string)
		return s, ok
	case Hash:
		m, _ := v.(map[string]any)
		s, ok := m["hex"].(string)
		return s, ok
	case Time:
		m, _ := v.(map[string]any)
		return integer(m["micros"])
	case Int32, Int64:
		return integer(v)
	case Double:
		n, ok := v.(json.Number)
		f, err := strconv.ParseFloat(string(n), 64)
		return f, ok && err == nil
	case Bool:
		b, ok := v.(bool)
		return b, ok
	}
	list, ok := v.([]any)
	out := make([]int64, len(list))
	for i := range list {
		n, fine := integer(list[i])
		out[i], ok = n, ok && fine
	}
	return out, ok
}

// hyphened is the canonical form of the 32 digits of a UUID.
func hyphened(s string) (string, bool) {
	if len(s) != 32 {
		return s, false
	}
	return s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:], true
}

func integer(v any) (int64, bool) {
	number, ok := v.(json.Number)
	n, err := number.Int64()
	return n, ok && err == nil
}
