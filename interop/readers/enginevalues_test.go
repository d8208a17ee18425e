//go:build engines

package readers

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"sluice/event"
	"sluice/interop/engines"
)

// Engines read every value through the catalog: of a table from before columns were added, after the program has opened it and
// written to it, at its first snapshot, after compaction, and after an erasure. The directory has a name of two words with a
// letter that is not ASCII. This is the smallest run of the engines.
func TestEngineValues(t *testing.T) {
	for _, e := range engines.Chosen(t) {
		t.Run(e.Name, func(t *testing.T) { examineValues(t, e) })
	}
}

func examineValues(t *testing.T, e engines.Engine) {
	dir := t.TempDir() + "/two wörds+1/lake"
	m := &maker{Rand: rand.New(rand.NewPCG(11, 1))}
	made := func(n int) []event.Row {
		rows := m.events(n, 2, 1, noon)
		for i := 0; i < len(rows); i += 7 {
			rows[i].PartnerID = "to be erased"
		}
		return rows
	}
	old := made(200)
	makeBefore(t, dir, old)
	now := noon
	l, err := openLake(t.Context(), settings{dir: dir, now: func() time.Time { return now }, retain: 10000 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	snapshot, err := l.Snapshot(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	address := (&engines.Shown{Lake: l}).Serve(t)
	d := engines.Start(t, e, engines.Place{
		"catalog": address + "/iceberg", "location": "file://" + dir,
		"properties": strings.ReplaceAll(recipe(t, "trino"), "http://127.0.0.1:8081", address),
	})
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
	compare := func(when string, snapshot int64, want []Row) {
		rows := readTable(t, d, Events, snapshot)
		Compare(report, d.Name+", "+when, Events, rows, want)
		for _, row := range rows {
			values += len(row)
		}
	}
	keep(old, false)
	compare("opened", 0, want)
	for range 3 {
		rows := made(100)
		if err := commit(t.Context(), l, rows, nil, nil); err != nil {
			t.Fatal(err)
		}
		keep(rows, true)
	}
	compare("written to", 0, want)
	compare("the first snapshot", snapshot.ID, want[:len(old)])
	now = now.Add(72 * time.Hour) // the day is over, so its files are merged whatever their number
	for more := true; more; {
		if more, err = l.Compact(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	compare("compacted", 0, want)
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
