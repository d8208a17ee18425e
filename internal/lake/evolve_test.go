package lake

import (
	"slices"
	"testing"
	"time"

	"sluice/event"
	"sluice/internal/iceberg"
	"sluice/internal/identifier"
	"sluice/internal/watermark"
)

// tableBefore makes the table of events as it was before sender_event_id and order_id, with rows.
func tableBefore(t *testing.T, dir string, rows []event.Row) {
	t.Helper()
	d := eventSchema.Definition
	d.Columns = slices.Clone(d.Columns[:28])
	table := iceberg.New(iceberg.NewSchema(d), iceberg.Options{
		Store: at(t, dir).Sub(eventsTable), Now: func() time.Time { return noon }, SnapshotRetention: 24 * time.Hour, FileBytes: 1 << 20,
	})
	if err := table.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	half := len(rows) / 2
	for i, some := range [][]event.Row{rows[:half], rows[half:]} {
		err := table.Append(t.Context(), some, watermark.Origin{Spans: []watermark.Span{{From: uint64(i), To: uint64(i + 1)}}}, nil)
		if err != nil {
			t.Fatal(err)
		}
	}
}

// A lake whose events lack the two columns gets them when it is opened, and holds old and new events, also after they were
// compacted and some were erased.
func TestColumnsAreAdded(t *testing.T) {
	dir := t.TempDir()
	s := newSampler(3, 2, 10)
	old := s.rows(200, noon)
	tableBefore(t, dir, old)
	for i := range old {
		old[i].SenderEventID, old[i].OrderID = "", ""
	}
	l := openLake(t, Options{Store: at(t, dir)})
	same(t, collect(t, l, Query{}), old)
	for range 3 {
		more := s.rows(100, noon)
		commit(t, l, more)
		old = append(old, more...)
	}
	same(t, collect(t, l, Query{}), old)
	for {
		more, err := l.Compact(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !more {
			break
		}
	}
	same(t, collect(t, l, Query{}), old)
	gone := old[len(old)-1].DatasetID
	if _, err := l.Erase(t.Context(), Choice{Match: func(r *event.Row) bool { return r.DatasetID == gone }}, nil); err != nil {
		t.Fatal(err)
	}
	same(t, collect(t, l, Query{}), slices.DeleteFunc(old, func(r event.Row) bool { return r.DatasetID == gone }))
	if found := findings(t, l); len(found) != 0 {
		t.Errorf("got findings %v, want none", found)
	}
}

// A UUID is found in any case, also in rows that were stored as they were sent. Another token is found as it was sent.
func TestAdvertisingIDsAreComparedWithoutCase(t *testing.T) {
	const uuid, token = "AEBE52E7-03EE-455A-B3C4-E57283966239", "Shop-Device-1"
	l := openLake(t, Options{})
	rows := newSampler(4, 1, 4).rows(4, noon)
	rows[0].IFA, rows[1].IFA, rows[2].IFA, rows[3].IFA = uuid, "aebe52e7-03ee-455a-b3c4-e57283966239", token, "shop-device-1"
	commit(t, l, rows)
	for ifa, want := range map[string]int64{uuid: 2, "aebe52e7-03EE-455a-b3c4-e57283966239": 2, token: 1, "shop-device-1": 1, "SHOP-DEVICE-1": 0} {
		if got, err := l.Count(t.Context(), carrying(identifier.IFA, ifa), nil); err != nil || got != want {
			t.Errorf("%s: got %d rows, %v, want %d", ifa, got, err, want)
		}
		id := identifier.ID{Kind: identifier.IFA, Value: identifier.IFA.Fold(ifa)}
		if got := collect(t, l, Query{Identifier: id}); int64(len(got)) != want {
			t.Errorf("%s: got %d rows by query, want %d", ifa, len(got), want)
		}
	}
}
