package readers

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/iceberg-go/table"

	"sluice/event"
	"sluice/internal/iceberg"
	"sluice/internal/objectstore"
	"sluice/internal/parquetfile"
	"sluice/internal/watermark"
)

// added are the columns that the table of events got after the first ones.
var added = []string{"sender_event_id", "order_id"}

// columnsBefore are the columns of events before those were added.
func columnsBefore() (out []parquetfile.Column[event.Row]) {
	for i, c := range event.Columns() {
		if slices.Contains(added, c.Name) {
			continue
		}
		id := Events.Columns[i].ID
		var column parquetfile.Column[event.Row]
		switch {
		case c.ID != nil:
			column = parquetfile.UUID(id, c.Name, "", func(r *event.Row) *[16]byte { return (*[16]byte)(c.ID(r)) })
		case c.Text != nil:
			column = parquetfile.Text(id, c.Name, "dict", c.Text)
		case c.JSON != nil:
			column = parquetfile.Text(id, c.Name, "", c.JSON)
		case c.Hash != nil:
			column = parquetfile.Hash(id, c.Name, "uncompressed", c.Hash)
		case c.Index != nil:
			column = parquetfile.Int32(id, c.Name, "delta", c.Index)
		case c.Time != nil:
			column = parquetfile.Time(id, c.Name, "delta", c.Time).Bound()
		case c.Number != nil:
			column = parquetfile.Float(id, c.Name, c.Number, c.Has)
		case c.List != nil:
			column = parquetfile.List(id, Events.Columns[i].Element, c.Name, "dict", c.List)
		case c.Outcome != nil:
			column = parquetfile.Enum(id, c.Name, "dict", func(r *event.Row) string { return c.Outcome(r).String() }, nil)
		case c.Flag != nil:
			column = parquetfile.Bool(id, c.Name, c.Flag)
		}
		if c.Optional {
			column = column.Null()
		}
		out = append(out, column)
	}
	return out
}

// makeBefore makes a table of events without the columns, with rows.
func makeBefore(t *testing.T, tables objectstore.Store, rows []event.Row) {
	t.Helper()
	schema := iceberg.NewSchema(iceberg.Definition[event.Row]{
		Name: "events", Columns: columnsBefore(), Day: "received_at", Order: []string{"data_set_id", "event_time", "event_id"},
		Time: func(r *event.Row) int64 { return r.ReceivedAt }, Compare: func(a, b *event.Row) int { return strings.Compare(order(a), order(b)) },
	})
	before := iceberg.New(schema, iceberg.Options{
		Store: tables.Sub("events"), Now: func() time.Time { return noon }, SnapshotRetention: 24 * time.Hour, FileBytes: 1 << 20,
	})
	if err := before.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := before.Append(t.Context(), rows, watermark.Origin{Spans: []watermark.Span{{To: 1}}}, nil); err != nil {
		t.Fatal(err)
	}
}

// checkAdded compares what the readers of Iceberg find in a table of which some files lack columns, and DuckDB in its files.
func checkAdded(t *testing.T, when string, src Source, want []Row) {
	t.Helper()
	report := &Report{}
	if err := compareAll(t.Context(), report, src, map[string][]Row{"events": want}, true); err != nil {
		t.Fatal(err)
	}
	db, err := openDuckDB()
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := queryRows(t.Context(), db, Events, "read_parquet("+list(src.Files["events"])+", union_by_name = true)")
	if err != nil {
		t.Fatalf("%s: DuckDB: %v", when, err)
	}
	Compare(report, "DuckDB", Events, rows, want)
	if !report.Empty() {
		t.Errorf("%s:\n%s", when, report)
	}
}

// A table from before two columns were added reads the same in every reader, with null where there is nothing, after the
// service has opened it, written to it and compacted it; and its older snapshot still does.
func TestColumnsAreAdded(t *testing.T) {
	dir := t.TempDir()
	m := &maker{Rand: rand.New(rand.NewPCG(11, 1))}
	rows := m.events(400, 2, 1, noon)
	store, err := objectstore.OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	makeBefore(t, store, rows)
	var want []Row
	keep := func(rows []event.Row, columns bool) {
		for i := range rows {
			row := eventRow(&rows[i])
			if !columns {
				delete(row, added[0])
				delete(row, added[1])
			}
			want = append(want, row)
		}
	}
	keep(rows, false)

	now := noon
	l, err := openLake(t.Context(), settings{dir: dir, now: func() time.Time { return now }, retain: 10000 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	read := func() Source {
		src := source(t, l, dir)
		src.Tables = []*Table{Events}
		return src
	}
	old, err := openIceberg(t.Context(), read(), "events")
	if err != nil {
		t.Fatal(err)
	}
	first, before := old.CurrentSnapshot().SnapshotID, slices.Clone(want)
	report := &Report{}
	if err := compareAll(t.Context(), report, read(), map[string][]Row{"events": want}, true); err != nil || !report.Empty() {
		t.Errorf("opened: %v\n%s", err, report)
	}
	for range 3 {
		rows := m.events(200, 2, 1, noon)
		if err := commit(t.Context(), l, rows, nil, nil); err != nil {
			t.Fatal(err)
		}
		keep(rows, true)
	}
	checkAdded(t, "written to", read(), want)
	tbl, err := openIceberg(t.Context(), read(), "events")
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(tbl.Schema().ID, len(tbl.Schemas())); got != "1 2" {
		t.Errorf("got schema and schemas %s, want 1 2", got)
	}
	got, err := scanTable(t.Context(), &Table{Name: "events", Columns: Events.Columns[:28]}, tbl, table.WithSnapshotID(first))
	if err != nil {
		t.Fatal(err)
	}
	report = &Report{}
	Compare(report, "iceberg-go, the first snapshot", Events, got, before)
	if !report.Empty() {
		t.Error(report)
	}
	now = now.Add(72 * time.Hour) // the day is over, so its files are merged whatever their number
	for more := true; more; {
		if more, err = l.Compact(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if files := read().Files["events"]; len(files) != 1 {
		t.Fatalf("got %d files, want one", len(files))
	}
	checkAdded(t, "compacted", read(), want)
	report, err = Check(t.Context(), read(), map[string][]Row{"events": want})
	if err != nil || !report.Empty() {
		t.Errorf("compacted, all readers: %v\n%s", err, report)
	}
}
