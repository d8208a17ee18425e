package lake

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"sluice/event"
	"sluice/internal/identifier"
)

// commit adds rows as frames from to+1 on and fails the test if it cannot.
func commit(t testing.TB, l *Lake, rows []event.Row) {
	t.Helper()
	marks, err := l.Watermarks(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Commit(t.Context(), Batch{Spans: []Span{{From: marks, To: marks.Events + 1}}, Events: rows}, 0); err != nil {
		t.Fatal(err)
	}
}

// collect reads everything a query chooses, by event id.
func collect(t testing.TB, l *Lake, q Query) []event.Row {
	t.Helper()
	var out []event.Row
	for row, err := range l.Scan(t.Context(), q) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, *row)
	}
	return byID(out)
}

func byID(rows []event.Row) []event.Row {
	rows = slices.Clone(rows)
	slices.SortFunc(rows, func(a, b event.Row) int { return slices.Compare(a.EventID[:], b.EventID[:]) })
	return rows
}

func same(t testing.TB, got, want []event.Row) {
	t.Helper()
	got, want = byID(got), byID(want)
	if len(got) != len(want) {
		t.Fatalf("got %d rows, want %d", len(got), len(want))
	}
	for i := range got {
		if !reflect.DeepEqual(got[i], want[i]) {
			t.Fatalf("row %d: got\n%+v, want\n%+v", i, got[i], want[i])
		}
	}
}

func TestRowsComeBackAsTheyWere(t *testing.T) {
	dir := t.TempDir()
	l := openLake(t, Options{Store: at(t, dir)})
	s := newSampler(1, 3, 100)
	rows := s.rows(3000, noon)
	rows[0] = event.Row{ // as little as can be
		EventID: event.ID{1}, SubmissionID: "single.x", ReceivedAt: noon.Unix(), DatasetID: "d", EventTime: noon.Unix(),
		EventType: "lead", SchemaVersion: "1.0",
	}
	rows[1].Value, rows[1].HasValue = 0, true // zero is a value
	rows[2].CustomEventName, rows[2].CampaignName = "żółć 🛒", "\x01control\u2028"
	rows[3].CustomData = `{"a":[1,2.50,"x"],"b":{"c":true}}`
	commit(t, l, rows)
	more := s.rows(500, noon.Add(36*time.Hour))
	commit(t, l, more)

	l = openLake(t, Options{Store: at(t, dir)})
	same(t, collect(t, l, Query{}), append(slices.Clone(rows), more...))
	if m, err := l.Watermarks(t.Context(), 0); err != nil || m.Events != 2 {
		t.Errorf("got marks %+v, %v, want 2", m, err)
	}
}

func TestQueriesChoose(t *testing.T) {
	l := openLake(t, Options{})
	s := newSampler(1, 5, 7)
	var all []event.Row
	for i := range 4 {
		rows := s.rows(1500, noon.Add(time.Duration(i)*10*time.Hour))
		commit(t, l, rows)
		all = append(all, rows...)
	}
	one := all[2000]
	person := all[slices.IndexFunc(all, func(r event.Row) bool { return r.EmailSHA256 != "" })]
	for name, c := range map[string]struct {
		q    Query
		want func(*event.Row) bool
	}{
		"dataset": {Query{Dataset: "shop-3"}, func(r *event.Row) bool { return r.DatasetID == "shop-3" }},
		"nobody":  {Query{Dataset: "shop-"}, func(r *event.Row) bool { return false }},
		"from":    {Query{From: noon.Add(20 * time.Hour)}, func(r *event.Row) bool { return r.ReceivedAt >= noon.Unix()+72000 }},
		"to":      {Query{To: noon.Add(20 * time.Hour)}, func(r *event.Row) bool { return r.ReceivedAt < noon.Unix()+72000 }},
		"submission": {
			Query{SubmissionID: one.SubmissionID}, func(r *event.Row) bool { return r.SubmissionID == one.SubmissionID },
		},
		"event": {Query{EventID: one.EventID}, func(r *event.Row) bool { return r.EventID == one.EventID }},
		"type":  {Query{EventType: "lead"}, func(r *event.Row) bool { return r.EventType == "lead" }},
		"event time": {
			Query{EventFrom: noon, EventTo: noon.Add(10 * time.Hour)},
			func(r *event.Row) bool { return r.EventTime >= noon.Unix() && r.EventTime < noon.Unix()+36000 },
		},
		"identifier": {
			Query{Identifier: identifier.ID{Kind: identifier.Email, Value: person.EmailSHA256}}, func(r *event.Row) bool { return r.EmailSHA256 == person.EmailSHA256 },
		},
		"not an identifier": {Query{Identifier: identifier.ID{Kind: identifier.Email, Value: "x"}}, func(r *event.Row) bool { return false }},
	} {
		t.Run(name, func(t *testing.T) {
			want := slices.DeleteFunc(slices.Clone(all), func(r event.Row) bool { return !c.want(&r) })
			same(t, collect(t, l, c.q), want)
		})
	}
	for row, err := range l.Scan(t.Context(), Query{Dataset: "shop-1", Columns: []string{"event_type", "value"}}) {
		if err != nil || row.EventType == "" || row.PageURL != "" {
			t.Fatalf("got %+v, %v, want two columns", row, err)
		}
		break
	}
}

func TestFind(t *testing.T) {
	l := openLake(t, Options{})
	s := newSampler(1, 5, 7)
	rows := s.rows(5000, noon)
	one := rows[777]
	err := l.Commit(t.Context(), Batch{Spans: []Span{{To: 9}}, Events: rows, Rejections: []Rejection{
		{noon.Unix(), one.DatasetID, one.SubmissionID, "MISSING_FIELD", "/timestamp", 2, 1},
		{noon.Unix(), one.DatasetID, "", "MALFORMED_JSON", "", 4, 4},
	}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	found, err := l.FindSubmission(t.Context(), one.DatasetID, one.SubmissionID)
	if err != nil {
		t.Fatal(err)
	}
	if found.Rejected != 1 {
		t.Errorf("got %d rejected, want 1", found.Rejected)
	}
	want := slices.DeleteFunc(slices.Clone(rows), func(r event.Row) bool { return r.SubmissionID != one.SubmissionID })
	if !reflect.DeepEqual(found.Rows, want) {
		t.Errorf("got %d rows, want %d in the order of the request", len(found.Rows), len(want))
	}
	if _, err := l.FindSubmission(t.Context(), "another", one.SubmissionID); !errors.Is(err, ErrNotFound) {
		t.Errorf("got %v for another dataset, want not found", err)
	}
	row, err := l.FindEvent(t.Context(), one.EventID)
	if err != nil || !reflect.DeepEqual(*row, one) {
		t.Errorf("got %+v, %v, want the event", row, err)
	}
	if _, err := l.FindEvent(t.Context(), event.ID{1}); !errors.Is(err, ErrNotFound) {
		t.Errorf("got %v, want not found", err)
	}
}

func TestABatchCountsOnce(t *testing.T) {
	l := openLake(t, Options{})
	rows := newSampler(1, 1, 10).rows(10, noon)
	b := Batch{Spans: []Span{{To: 5}}, Events: rows, Hours: []Hour{{noon.Unix(), "d", "k", "n", "f", 1, 2}}}
	for range 2 {
		if err := l.Commit(t.Context(), b, 0); err != nil {
			t.Fatal(err)
		}
	}
	same(t, collect(t, l, Query{}), rows)
	count := int64(0)
	err := l.ScanHours(t.Context(), NumberQuery{}, func(h *Hour) error { count += h.Count; return nil })
	if err != nil || count != 1 {
		t.Errorf("got %d, %v, want one hour", count, err)
	}
	for name, b := range map[string]Batch{
		"behind":  {Spans: []Span{{From: Watermarks{Events: 3}, To: 7}}, Events: rows},
		"ahead":   {Spans: []Span{{From: Watermarks{Events: 6}, To: 7}}, Events: rows},
		"overrun": {Spans: []Span{{From: Watermarks{Events: 0}, To: 3}}, Events: rows},
	} {
		if err := l.Commit(t.Context(), b, 0); !errors.Is(err, ErrFenced) {
			t.Errorf("%s: got %v, want fenced", name, err)
		}
	}
	same(t, collect(t, l, Query{}), rows)
}

// Two processes on one directory are two lakes on one directory.
func TestTwoLoadersOfTwoPartitions(t *testing.T) {
	dir := t.TempDir()
	const rounds = 30
	done := make(chan error, 2)
	var all [2][]event.Row
	for p := range 2 {
		l := openLake(t, Options{Store: at(t, dir)})
		s := newSampler(uint64(p), 3, 5)
		for range rounds {
			all[p] = append(all[p], s.rows(20, noon)...)
		}
		go func() {
			for i := range rounds {
				err := l.Commit(t.Context(), Batch{
					Spans:  []Span{{Partition: uint8(p), From: Watermarks{Events: uint64(i)}, To: uint64(i + 1)}},
					Events: all[p][20*i : 20*i+20],
				}, 0)
				if err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for range 2 {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	l := openLake(t, Options{Store: at(t, dir)})
	same(t, collect(t, l, Query{}), append(all[0], all[1]...))
}

// An erasure can be kept to one dataset, and tried first.
func TestEraseFromOneDataset(t *testing.T) {
	l := openLake(t, Options{})
	rows := newSampler(1, 2, 5).rows(200, noon)
	var keep []event.Row
	there := map[string]int64{}
	for i := range rows {
		if i%4 == 0 {
			rows[i].PartnerID = "marked"
			there[rows[i].DatasetID]++
		}
		if i%4 != 0 || rows[i].DatasetID != "shop-1" {
			keep = append(keep, rows[i])
		}
	}
	commit(t, l, rows)
	p := carrying(identifier.Partner, "marked")
	marked := p.Match
	p.Match = func(r *event.Row) bool { return r.DatasetID == "shop-1" && marked(r) }
	if n, err := l.Count(t.Context(), p, nil); err != nil || n != there["shop-1"] || n == 0 {
		t.Fatalf("got %d, %v, want %d", n, err, there["shop-1"])
	}
	same(t, collect(t, l, Query{}), rows)
	done, err := l.Erase(t.Context(), p, nil)
	if err != nil || done.Rows != there["shop-1"] {
		t.Fatalf("got %+v, %v, want %d rows", done, err, there["shop-1"])
	}
	same(t, collect(t, l, Query{}), keep)
	if n, err := l.Count(t.Context(), carrying(identifier.Partner, "marked"), nil); err != nil || n != there["shop-0"] {
		t.Errorf("got %d left, %v, want those of the other dataset, %d", n, err, there["shop-0"])
	}
}

// findings is how often Check says what.
func findings(t testing.TB, l *Lake) map[string]int {
	t.Helper()
	out := map[string]int{}
	c, err := l.Check(t.Context(), func(f Finding) { out[f.Problem]++ }, silent)
	if err != nil {
		t.Fatal(err)
	}
	if c.Files == 0 || c.Manifests == 0 || c.Rows == 0 {
		t.Fatalf("got %+v, want something that was checked", c)
	}
	return out
}

func silent(int, int) {}
