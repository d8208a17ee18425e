//go:build engines

package readers

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"sluice/event"
	"sluice/internal/lake"
	"sluice/internal/objectstore"
	"sluice/interop/engines"
	"sluice/interop/gateway"
)

// Engines read every value of every table through the catalog: of events from before columns were added, after the program
// has opened the table and written to it, at its first snapshot, after compaction, and after an erasure. The directory has a
// name of several words with a letter that is not ASCII, and what looks like an escape. This is the smallest run of the
// engines.
func TestEngineValues(t *testing.T) {
	for _, e := range engines.Chosen(t) {
		t.Run(e.Name, func(t *testing.T) {
			dir := t.TempDir() + "/two wörds+1 50%25/lake"
			store, err := objectstore.OpenDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			examineValues(t, e, store, engines.Place{"location": "file://" + dir, "properties": recipe(t, "trino")})
		})
	}
}

// The same in a bucket, where readers of a path are behind.
func TestEngineValuesInABucket(t *testing.T) {
	for _, e := range engines.Chosen(t) {
		if e.Module == "duckpath" {
			continue
		}
		t.Run(e.Name, func(t *testing.T) {
			g := startBucket(t)
			store, err := objectstore.OpenS3(t.Context(), objectstore.S3Options{
				Bucket: gateway.Bucket, Prefix: "lake", Endpoint: g.URL, Region: gateway.Region, PathStyle: true,
				AccessKey: gateway.AccessKey, SecretKey: gateway.SecretKey,
			})
			if err != nil {
				t.Fatal(err)
			}
			properties, _, _ := strings.Cut(recipe(t, "trino"), "fs.native-local")
			_, access, _ := strings.Cut(recipe(t, "trino-bucket"), "fs.native-s3")
			examineValues(t, e, store, engines.Place{
				"location": "s3://" + gateway.Bucket + "/lake", "s3": placeOf(g), "properties": properties + fillBucket(g, "fs.native-s3"+access),
			})
		})
	}
}

func examineValues(t *testing.T, e engines.Engine, store objectstore.Store, place engines.Place) {
	m := &maker{Rand: rand.New(rand.NewPCG(11, 1))}
	made := func(n int) []event.Row {
		rows := m.events(n, 2, 1, noon)
		for i := 0; i < len(rows); i += 7 {
			rows[i].PartnerID = "to be erased"
		}
		return rows
	}
	old := made(200)
	makeBefore(t, store, old)
	now := noon
	l, err := lake.Open(t.Context(), lake.Options{Store: store, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	snapshot, err := l.Snapshot(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	address := (&engines.Shown{Lake: l}).Serve(t)
	place["catalog"] = address + "/iceberg"
	place["properties"] = strings.ReplaceAll(place["properties"].(string), "http://127.0.0.1:8081", address)
	d := engines.Start(t, e, place)
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
	report, values := &Report{}, 0
	compareTable := func(when string, table *Table, snapshot int64, want []Row) {
		rows := readTable(t, d, table, snapshot)
		Compare(report, d.Name+", "+when, table, rows, want)
		for _, row := range rows {
			values += len(row)
		}
	}
	compare := func(when string, snapshot int64, want []Row) { compareTable(when, Events, snapshot, want) }
	var rejections, hours []Row
	keep(old, false)
	compare("opened", 0, want)
	for range 3 {
		rows := made(100)
		rejected, counted := m.rejections(20, 2, noon), m.hours(40, 3, 2, noon)
		if err := commit(t.Context(), l, rows, rejected, counted); err != nil {
			t.Fatal(err)
		}
		keep(rows, true)
		for i := range rejected {
			rejections = append(rejections, rejectionRow(&rejected[i]))
		}
		for i := range counted {
			hours = append(hours, hourRow(&counted[i]))
		}
	}
	compare("written to", 0, want)
	compare("the first snapshot", snapshot.ID, want[:len(old)])
	now = now.Add(72 * time.Hour) // the day is over, so its files are merged whatever their number
	for more := true; more; {
		if more, err = l.Compact(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for more := true; more; {
		if more, err = l.SumDay(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	compare("compacted", 0, want)
	compareTable("compacted", Rejections, 0, rejections)
	compareTable("compacted", Hours, 0, hours)
	compareTable("compacted", Days, 0, sumsOf(hours, now))
	erased, err := erase(t.Context(), l, "partner_id", "to be erased")
	if err != nil {
		t.Fatal(err)
	}
	var left []Row
	for _, row := range want {
		if row["partner_id"] != "to be erased" {
			left = append(left, row)
		}
	}
	if erased == 0 || int(erased) != len(want)-len(left) {
		t.Fatalf("erased %d rows, want %d", erased, len(want)-len(left))
	}
	compare("after an erasure", 0, left)
	if !report.Empty() {
		t.Error(report)
	}
	t.Logf("%s %s: %d values compared", d.Name, d.Version, values)
}
