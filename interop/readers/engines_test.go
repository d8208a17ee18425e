//go:build engines

package readers

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/servicetest"
	"sluice/interop/engines"
	"sluice/interop/gateway"
	"sluice/interop/readers/sent"
)

// world is a service under the eyes of engines: what was sent to it, and where its tables are.
type world struct {
	*site
	bucket *gateway.Gateway // nil for a directory
	keys   map[string]string

	mu    sync.Mutex
	lines []sent.Line    // everything that was sent
	rows  map[string]Row // accepted and not erased, by event id
}

func startWorld(t *testing.T, bucket bool) *world {
	t.Helper()
	w := &world{rows: map[string]Row{}}
	args := []string{"--commit-every", "200ms"}
	if bucket {
		w.site, w.bucket = startBucketSite(t, args...)
	} else {
		w.site = startSite(t, args...)
	}
	other, err := sent.CreateDataset(w.bin, w.dir, "other")
	if err != nil {
		t.Fatal(err)
	}
	w.keys = map[string]string{"shop": w.key, "other": other}
	return w
}

// location is where the tables are, as the settings of a reader name it.
func (w *world) location() string {
	if w.bucket != nil {
		return "s3://" + gateway.Bucket + "/lake"
	}
	return "file://" + filepath.Join(w.dir, "lake")
}

// local is the path of a file that lake files names.
func (w *world) local(name string) string {
	if rest, ok := strings.CutPrefix(name, "s3://"+gateway.Bucket); ok {
		return w.bucket.Dir + rest
	}
	return name
}

// place is what the module of an engine has to know.
func (w *world) place(t *testing.T, e engines.Engine) engines.Place {
	t.Helper()
	p := engines.Place{"catalog": w.Ops() + "/iceberg", "location": w.location()}
	if w.bucket != nil {
		p["s3"] = placeOf(w.bucket)
	}
	if e.Module == "trin" {
		name := "trino"
		if w.bucket != nil {
			name = "trino-bucket"
		}
		p["properties"] = w.fill(recipe(t, name))
	}
	return p
}

// placeOf is what the module of an engine has to know of a bucket.
func placeOf(g *gateway.Gateway) map[string]string {
	return map[string]string{
		"host": strings.TrimPrefix(g.URL, "http://"), "region": gateway.Region, "key": gateway.AccessKey, "secret": gateway.SecretKey,
		"bucket": gateway.Bucket,
	}
}

// send sends a batch to each dataset, and waits until they are in the table of events.
func (w *world) send(t *testing.T, n int) {
	t.Helper()
	w.round++
	for _, dataset := range slices.Sorted(maps.Keys(w.keys)) {
		events := append(w.gen.Events(dataset, n, w.round, time.Now()), w.gen.Rejected(dataset, time.Now()))
		lines, err := w.Send(w.keys[dataset], events, "")
		if err != nil {
			t.Fatal(err)
		}
		w.mu.Lock()
		w.lines = append(w.lines, lines...)
		for _, l := range lines {
			if l.Row != nil {
				w.rows[l.Row["event_id"].(string)] = l.Row
			}
		}
		w.mu.Unlock()
		if err := w.AwaitProcessed(w.keys[dataset], lines[0].SubmissionID); err != nil {
			t.Fatal(err)
		}
	}
}

// want is what the table of events must hold now.
func (w *world) want() []Row {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Values(w.rows))
}

// erase erases one person, and returns how many rows that were.
func (w *world) erase(t *testing.T) (n int) {
	t.Helper()
	email := ""
	for _, row := range w.want() {
		if text, ok := row["email_sha256"].(string); ok {
			email = text
			break
		}
	}
	if email == "" {
		t.Fatal("nobody has an address")
	}
	out, err := exec.Command(w.bin, "erase", "--email-sha256", email, "--yes", "--data", w.dir).CombinedOutput()
	if err != nil {
		t.Fatalf("erase: %v\n%s", err, out)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, row := range w.rows {
		if row["email_sha256"] == email {
			delete(w.rows, id)
			n++
		}
	}
	return n
}

// described is what the catalog says of the table of events.
type described struct {
	Current   int64 `json:"current-snapshot-id"`
	Snapshots []struct {
		ID      int64 `json:"snapshot-id"`
		At      int64 `json:"timestamp-ms"`
		Summary map[string]string
	}
}

func (w *world) metadata(t *testing.T) described {
	t.Helper()
	var loaded struct{ Metadata described }
	if err := json.Unmarshal(w.ask("/iceberg/v1/namespaces/sluice/tables/events"), &loaded); err != nil {
		t.Fatal(err)
	}
	return loaded.Metadata
}

// snapshot is the newest snapshot of the table of events, and what it holds.
func (m described) snapshot(t *testing.T) (id int64, records, files string) {
	t.Helper()
	for _, s := range m.Snapshots {
		if s.ID == m.Current {
			return s.ID, s.Summary["total-records"], s.Summary["total-data-files"]
		}
	}
	t.Fatal("the table has no snapshot")
	return 0, "", ""
}

// time is when the newest snapshot was made, in milliseconds.
func (m described) time(t *testing.T) int64 {
	t.Helper()
	for _, s := range m.Snapshots {
		if s.ID == m.Current {
			return s.At
		}
	}
	t.Fatal("the table has no snapshot")
	return 0
}

// settle waits until nothing changes any more: every event is in the tables, the small ones have their numbers, and
// compaction has nothing to do.
func (w *world) settle(t *testing.T) (rejections, hours []Row) {
	t.Helper()
	accepted := int64(0)
	for _, l := range w.lines {
		if l.Row != nil {
			accepted++
		}
	}
	src := Source{Tables: []*Table{Rejections, Hours}}
	servicetest.Eventually(t, time.Minute, "the numbers of all events", func() error {
		src.Files = map[string][]string{}
		for _, table := range src.Tables {
			out, err := exec.Command(w.bin, "lake", "files", table.Name, "--data", w.dir).Output()
			if err != nil {
				return err
			}
			for _, name := range strings.Fields(string(out)) {
				src.Files[table.Name] = append(src.Files[table.Name], w.local(name))
			}
		}
		read, err := readDuckDB(t.Context(), src)
		if err != nil {
			return err
		}
		got, rejected := int64(0), int64(0)
		for _, row := range read["hours"].Rows {
			if row["kind"] == "events" && row["field"] == "accepted" {
				got += row["count"].(int64)
			}
		}
		for _, row := range read["rejections"].Rows {
			rejected += row["events"].(int64)
		}
		if want := int64(len(w.lines)) - accepted; got != accepted || rejected != want {
			return fmt.Errorf("got %d accepted and %d rejected, want %d and %d", got, rejected, accepted, want)
		}
		return nil
	})
	return counted(t, src, w.lines)
}

// Engines read what was sent: each value of each table, at snapshots, by filters, through metadata tables, and beside
// commits, compaction and an erasure; from a directory, and from a bucket. ENGINES names some of them;
// SIZE=small is a few rounds.
func TestEngines(t *testing.T) {
	for _, bucket := range []bool{false, true} {
		t.Run(map[bool]string{false: "directory", true: "bucket"}[bucket], func(t *testing.T) {
			w := startWorld(t, bucket)
			for range 20 { // so many that compaction has something to do
				w.send(t, 6)
			}
			for _, e := range engines.Chosen(t) {
				t.Run(e.Name, func(t *testing.T) { w.examine(t, engines.Start(t, e, w.place(t, e))) })
			}
		})
	}
}

// examine is everything that one engine is held to. It prints a line of figures.
func (w *world) examine(t *testing.T, d *engines.Driver) {
	begun := time.Now()
	before := w.want()
	past, _, _ := w.metadata(t).snapshot(t)
	w.send(t, 12)
	rejections, hours := w.settle(t)
	report := &Report{}
	values := 0
	compare := func(who string, table *Table, snapshot int64, want []Row) {
		rows := readTable(t, d, table, snapshot)
		Compare(report, who, table, rows, want)
		for _, row := range rows {
			values += len(row)
		}
	}
	if d.Module == "duckpath" && w.bucket != nil { // there the hint is up to a minute behind; it must lead to what is there
		reads, again, erased := w.beside(t, d)
		t.Logf("%s %s: %d reads beside an erasure of %d rows, %d of them repeated", d.Name, d.Version, reads, erased, again)
		return
	}
	compare(d.Name, Events, 0, w.want())
	compare(d.Name, Rejections, 0, rejections)
	compare(d.Name, Hours, 0, hours)
	compare(d.Name, Days, 0, nil) // no day is over
	compare(d.Name+", in the past", Events, past, before)
	w.filters(t, d)
	w.metadataTables(t, d)
	w.descriptions(t, d)
	if d.Module == "trin" { // the others are in TestEngineRecipes; a Trino takes its time to start
		rows, _, err := d.Do(map[string]any{"do": "run", "text": recipe(t, "trino-query")})
		if err != nil {
			t.Error(err)
		}
		text := ""
		for _, row := range rows {
			text += fmt.Sprintln(row["0"], row["1"])
		}
		w.tells(t, "trino-query", text)
	}
	if trap := traps[d.Module]; trap != nil {
		trap(w, t, d)
	}
	message := w.rejected(t, d)
	reads, again, erased := w.beside(t, d)
	compare(d.Name+", after an erasure", Events, 0, w.want())
	if !report.Empty() {
		t.Errorf("%s:\n%s", d.Name, report)
	}
	t.Logf("%s %s: %d values of %d events compared, %d reads beside commits, compaction and an erasure of %d rows, %d of them repeated; a write: %s; %v",
		d.Name, d.Version, values, len(w.want()), reads, erased, again, message, time.Since(begun).Round(time.Second))
}

// filters asks for the events of a dataset, of a type, and for one event.
func (w *world) filters(t *testing.T, d *engines.Driver) {
	want := w.want()
	for _, column := range []string{"data_set_id", "event_type", "event_id"} {
		value, n := want[0][column], 0
		for _, row := range want {
			if row[column] == value {
				n++
			}
		}
		_, done, err := d.Do(map[string]any{"do": "find", "column": column, "value": value})
		if err != nil {
			t.Errorf("%s: %s = %v: %v", d.Name, column, value, err)
			continue
		}
		if got := number(done, "rows"); got != int64(n) {
			t.Errorf("%s: %s = %v: got %d rows, want %d", d.Name, column, value, got, n)
		}
		t.Logf("%s: %s: %d of %d rows, looked at %v", d.Name, column, n, len(want), done)
	}
}

// metadataTables holds what the engine's own tables about the table say against the catalog.
func (w *world) metadataTables(t *testing.T, d *engines.Driver) {
	_, done, err := d.Do(map[string]any{"do": "metadata"})
	if err != nil {
		t.Errorf("%s: metadata tables: %v", d.Name, err)
		return
	}
	if len(done) == 0 {
		return // it has none
	}
	m := w.metadata(t)
	_, records, files := m.snapshot(t)
	got := fmt.Sprintf("%d snapshots, %d files, %d records", number(done, "snapshots"), number(done, "files"), number(done, "records"))
	if want := fmt.Sprintf("%d snapshots, %s files, %s records", len(m.Snapshots), files, records); got != want {
		t.Errorf("%s: metadata tables: got %s, want %s", d.Name, got, want)
	}
}

// descriptions holds that the engine shows what the columns mean, if it shows such a thing at all.
func (w *world) descriptions(t *testing.T, d *engines.Driver) {
	_, done, err := d.Do(map[string]any{"do": "describe", "table": "events"})
	if err != nil {
		t.Errorf("%s: describe: %v", d.Name, err)
		return
	}
	if len(done) == 0 {
		return
	}
	columns, _ := done["columns"].(map[string]any)
	for _, c := range Events.Columns {
		if text, _ := columns[c.Name].(string); text == "" {
			t.Errorf("%s: the column %s has no description", d.Name, c.Name)
		}
	}
	if text, ok := done["comment"].(string); ok && text == "" {
		t.Errorf("%s: the table has no comment", d.Name)
	}
}

// rejected tries to write. The engine must say that it does not work, and nothing may have changed.
func (w *world) rejected(t *testing.T, d *engines.Driver) string {
	before := w.metadata(t).Current
	_, done, err := d.Do(map[string]any{"do": "write"})
	if err != nil {
		t.Errorf("%s: write: %v", d.Name, err)
		return ""
	}
	message, _ := done["message"].(string)
	if message == "" || w.metadata(t).Current != before {
		t.Errorf("%s: a write was not rejected: %q", d.Name, message)
	}
	line, _, _ := strings.Cut(message, "\n")
	return fmt.Sprintf("%.120s", line)
}

// beside has the engine read in a loop while events come, are compacted, and one person is erased. Every read is of one
// snapshot: no event is there twice, and none that was there is gone, but those of the person. A read that was under way
// while files were erased may fail, and works when it is repeated.
func (w *world) beside(t *testing.T, d *engines.Driver) (reads, again int64, erased int) {
	var good, failures atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	first := len(w.want())
	go func() {
		defer close(done)
		least := int64(first)
		failed := false
		for ctx.Err() == nil {
			_, got, err := d.Do(map[string]any{"do": "count"})
			switch {
			case err != nil && failed:
				t.Errorf("%s: two reads in a row failed: %v", d.Name, err)
				return
			case err != nil:
				failures.Add(1)
				failed = true
				t.Logf("%s: read again: %.300v", d.Name, err)
				continue
			}
			failed = false
			good.Add(1)
			rows, distinct := number(got, "rows"), number(got, "distinct")
			if rows != distinct {
				t.Errorf("%s: got %d rows with %d ids", d.Name, rows, distinct)
			}
			if rows < least-int64(erasable) && (d.Module != "duckpath" || w.bucket == nil) {
				t.Errorf("%s: got %d rows after %d", d.Name, rows, least)
			}
			least = max(least, rows)
		}
	}()
	rounds := rounds()
	for i := range rounds {
		w.send(t, 4)
		if i == rounds/2 {
			erased = w.erase(t)
		}
	}
	deadline := time.Now().Add(2 * time.Minute)
	for good.Load() < 3 && time.Now().Before(deadline) && !t.Failed() { // a slow engine reads beside the last commits at least
		w.send(t, 1)
	}
	cancel()
	<-done
	reads, again = good.Load(), failures.Load()
	if reads < 3 {
		t.Errorf("%s: got %d reads, want some", d.Name, reads)
	}
	if again > 1 {
		t.Errorf("%s: got %d failed reads, want at most one, beside the erasure", d.Name, again)
	}
	return reads, again, erased
}

// rounds is how many commits come beside the reads of an engine.
func rounds() int {
	if os.Getenv("SIZE") == "small" {
		return 3
	}
	return 30
}

// erasable is how many rows one person has at most: addresses are random.
const erasable = 1

// number is a number of an answer.
func number(done map[string]any, name string) int64 {
	n, _ := integer(done[name])
	return n
}

// readTable reads a table, at a snapshot unless it is 0.
func readTable(t *testing.T, d *engines.Driver, table *Table, snapshot int64) []Row {
	t.Helper()
	request := map[string]any{"do": "rows", "table": table.Name}
	if snapshot != 0 {
		request["snapshot"] = snapshot
	}
	found, _, err := d.Do(request)
	if err != nil {
		t.Errorf("%s: read %s: %v", d.Name, table.Name, err)
		return nil
	}
	rows := make([]Row, len(found))
	for i := range found {
		if rows[i], err = fromJSON(table, found[i]); err != nil {
			t.Errorf("%s: %s: %v", d.Name, table.Name, err)
			return nil
		}
	}
	return rows
}
