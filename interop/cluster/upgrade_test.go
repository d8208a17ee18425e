//go:build faults

package cluster

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/internal/servicetest"
)

// later builds a program that writes later versions than this source: its files, with other numbers. What each version means is
// the same, so that the program reads all.
func (w *world) later(name string, change map[string][]string) servicetest.Program {
	w.t.Helper()
	root, err := filepath.Abs("../..")
	dir := filepath.Join(w.dir, name)
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	replace := map[string]string{}
	for file, with := range change {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			w.t.Fatal(err)
		}
		for i := 0; i < len(with); i += 2 {
			if !strings.Contains(string(text), with[i]) {
				w.t.Fatalf("%s has no %q", file, with[i])
			}
		}
		replace[filepath.Join(root, file)] = filepath.Join(dir, filepath.Base(file))
		if err := os.WriteFile(replace[filepath.Join(root, file)], []byte(strings.NewReplacer(with...).Replace(string(text))), 0o600); err != nil {
			w.t.Fatal(err)
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	p, err := servicetest.Build(root, dir, "-overlay", filepath.Join(dir, "overlay.json"))
	if err != nil {
		w.t.Fatal(err)
	}
	p.Env = w.program.Env
	return p
}

// What a later version of the program changes: of the tables, and also of the records in the stream.
var (
	laterTables = map[string][]string{"internal/metadata/metadata.go": {"\tFormatVersion   = 1\n", "\tFormatVersion   = 2\n"}}
	laterAll    = map[string][]string{
		"internal/metadata/metadata.go": laterTables["internal/metadata/metadata.go"],
		"internal/submission/record.go": {"const RecordVersion = 1\n", "const RecordVersion = 2\n", "!= RecordVersion {", "> RecordVersion {"},
	}
)

// Nodes are replaced one by one by those of a later version, under load, and one of them goes back. UPGRADE_FROM names a program
// to begin with; without it, that is the program of this source.
func TestUpgrade(t *testing.T) {
	w := newServers(t, nil)
	older := w.program
	if path := os.Getenv("UPGRADE_FROM"); path != "" {
		older = servicetest.Program{Path: path, Env: w.program.Env}
	}
	tables, records := w.later("tables", laterTables), w.later("records", laterAll)
	w.program = records // commands read everything
	for _, at := range w.sites {
		at.program = older
	}
	w.startNodes()
	w.endure(t, []fault{
		{"upgrade to tables of a later version", false, func(t *testing.T, w *world, l *ledger) {
			w.replaceAll(t, l, tables, func(left int) {
				if got := w.tableVersion(t); left > 0 && got != 1 {
					t.Errorf("%d older nodes run, and the table has version %d", left, got)
				}
			})
			servicetest.Eventually(t, 60*time.Second, "tables of the later version", func() error {
				if got := w.tableVersion(t); got != 2 {
					return fmt.Errorf("got %d", got)
				}
				return nil
			})
		}},
		{"node goes back to the older version", false, func(t *testing.T, w *world, l *ledger) {
			w.node(0).Stop(syscall.SIGTERM)
			n, err := servicetest.Launch{Program: older, Data: t.TempDir(), Args: w.flags, Within: 60 * time.Second}.Start()
			if err == nil {
				n.Stop(syscall.SIGKILL)
			}
			if err == nil || !strings.Contains(err.Error(), "use the sluice that wrote it, or a newer one") {
				t.Errorf("got %v, want that it does not start, and why", err)
			}
			w.processed(t, l, 1)
			w.startNode(0)
		}},
		{"records of a later version before all nodes read them", false, func(t *testing.T, w *world, l *ledger) {
			loads, _ := w.holder("committer")
			w.replaceNode((loads+1)%nodes, records)
			w.served(t, l, moveWithin)
			w.stopsLoading(t, loads)
			w.processed(t, l, loads)
			w.replaceAll(t, l, records, func(int) {})
		}},
		{"all nodes go back to one that does not read the records", false, func(t *testing.T, w *world, l *ledger) {
			w.spoiler.Set(func(*http.Request) string { return "reset" }) // so that such records wait
			w.replaceAll(t, l, tables, func(int) {})
			w.spoiler.Set(nil)
			for i := range w.nodes {
				w.stopsLoading(t, i)
			}
			time.Sleep(15 * time.Second) // the fault itself
			w.replaceAll(t, l, records, func(int) {})
		}},
	})
}

// replaceNode stops a node as an operator does, and starts one of another program in its place.
func (w *world) replaceNode(i int, program servicetest.Program) {
	w.t.Helper()
	w.node(i).Stop(syscall.SIGTERM)
	w.noQuarantine(i)
	w.sites[i].program = program
	w.startNode(i)
}

// replaceAll replaces the nodes one by one. check is called after each, with how many are left.
func (w *world) replaceAll(t *testing.T, l *ledger, program servicetest.Program, check func(left int)) {
	t.Helper()
	for i := range w.nodes {
		w.replaceNode(i, program)
		w.served(t, l, moveWithin)
		check(nodes - 1 - i)
	}
}

// noQuarantine makes sure that a node took nothing for damaged.
func (w *world) noQuarantine(i int) {
	w.t.Helper()
	found, err := filepath.Glob(filepath.Join(w.dir, fmt.Sprint("node", i, "-*"), "quarantine", "*"))
	if err != nil || len(found) > 0 {
		w.t.Errorf("node %d: got %v %q in quarantine, want nothing", i, err, found)
	}
}

// stopsLoading waits for the critical alarm of a node that is too old to load. It says what to do, and takes events.
func (w *world) stopsLoading(t *testing.T, i int) {
	t.Helper()
	servicetest.Eventually(t, 60*time.Second, "a node that stops loading", func() error {
		if !w.says(i, "/metrics", 200, `sluice_alarm{alarm="SluiceLoadStopped",dataset=""} 1`) ||
			!w.says(i, "/", 200, "A newer sluice has written it") || !w.says(i, "/readyz", 200, "") {
			return fmt.Errorf("node %d says something else", i)
		}
		return nil
	})
	w.noQuarantine(i)
}

// tableVersion is the version that the newest metadata of the table of events says.
func (w *world) tableVersion(t *testing.T) int {
	t.Helper()
	dir := filepath.Join(w.bucket.Dir, "lake", "events", "metadata")
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	newest, name := 0, ""
	for _, e := range entries {
		var n int
		if _, err := fmt.Sscanf(e.Name(), "v%d.metadata.json", &n); err == nil && n > newest && strings.HasSuffix(e.Name(), ".json") {
			newest, name = n, e.Name()
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, name))
	var table struct{ Properties map[string]string }
	if err == nil {
		err = json.Unmarshal(text, &table)
	}
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(table.Properties["sluice.table-version"])
	if err != nil {
		t.Fatal(err)
	}
	return n
}
