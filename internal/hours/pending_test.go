package hours

import (
	"testing"
	"time"

	"sluice/internal/lake"
)

// Hours that are not in the table yet are counted once: while they pend, when the table has them, and when the day is
// compacted meanwhile.
func TestPendingHours(t *testing.T) {
	now := halfPastNoon
	l, err := lake.OpenDir(t.Context(), t.TempDir(), lake.Options{Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	x := NewIndex(l)
	hour := now.Truncate(time.Hour).Unix()
	one := func(n int64) []lake.Hour {
		return []lake.Hour{
			{Hour: hour, DatasetID: "shop", Kind: KindEvents, Name: "purchase", Field: FieldAccepted, Count: n},
			{Hour: hour, DatasetID: "shop", Kind: KindValue, Name: "EUR", Field: "purchase", Count: n, Value: 2.5 * float64(n)},
			{Hour: hour, DatasetID: "shop", Kind: KindRejections, Name: "MISSING_FIELD", Field: "/timestamp", Count: n, Value: float64(n)},
			{Hour: hour, DatasetID: "shop", Kind: KindSubmissions, Name: "single", Count: n},
		}
	}
	shown := func(what string, want int64) {
		t.Helper()
		if err := x.Read(t.Context(), now); err != nil {
			t.Fatal(err)
		}
		v := x.View()
		defer v.Close()
		w := NewWindow(time.Hour, 24, now)
		got := v.Dataset("shop").Totals(w)
		list := v.Dataset("shop") // as lists of all datasets use it
		if r := list.Requests(w); list.Totals(w) != got || r.Accepted != want || x.sets["shop"] != nil && list.packed == nil {
			t.Errorf("%s: got %+v and %d requests, packed %v", what, list.Totals(w), r.Accepted, list.packed != nil)
		}
		money := 0.0
		for _, g := range v.Dataset("shop").Groups(KindValue, w) {
			money += g.Value
		}
		if got.Accepted != want || got.Rejected != want || money != 2.5*float64(want) {
			t.Errorf("%s: got %+v and %v, want %d accepted and rejected", what, got, money, want)
		}
	}
	to := uint64(0)
	commit := func(rows []lake.Hour) {
		t.Helper()
		from := lake.Watermarks{Events: to, Rejections: to, Hours: to}
		to++
		if err := l.Commit(t.Context(), lake.Batch{Spans: []lake.Span{{From: from, To: to}}, Hours: rows}, 0); err != nil {
			t.Fatal(err)
		}
	}
	shown("nothing", 0)
	l.Pend(one(3))
	shown("pending", 3)
	l.Pend(one(5))
	shown("more pending", 5)
	commit(one(5))
	shown("committed", 5)
	l.Pend(one(2))
	shown("committed and pending", 7)
	l.Pend(nil)
	shown("given up", 5)
	for range 17 {
		commit(one(1))
	}
	l.Pend(one(4))
	shown("many files", 26)
	for again := true; again; {
		if again, err = l.Compact(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	shown("compacted while some pend", 26)
	commit(one(4))
	shown("all committed", 26)
}

// A page of a dataset counts a row once also when a commit has brought it and the index has not seen that yet: yesterday's, which
// come from the tables, and today's of a dataset that memory does not have whole.
func TestPendingInDetail(t *testing.T) {
	for _, large := range []bool{false, true} {
		for _, ago := range []time.Duration{0, 24 * time.Hour} {
			now := halfPastNoon
			l, err := lake.OpenDir(t.Context(), t.TempDir(), lake.Options{Now: func() time.Time { return now }})
			if err != nil {
				t.Fatal(err)
			}
			rows := []lake.Hour{{
				Hour: now.Add(-ago).Truncate(time.Hour).Unix(), DatasetID: "shop", Kind: KindEvents, Name: "purchase", Field: FieldAccepted, Count: 3,
			}}
			to := uint64(0)
			commit := func() {
				from := lake.Watermarks{Events: to, Rejections: to, Hours: to}
				to++
				if err := l.Commit(t.Context(), lake.Batch{Spans: []lake.Span{{From: from, To: to}}, Hours: rows}, 0); err != nil {
					t.Fatal(err)
				}
			}
			x := NewIndex(l)
			read := func() {
				if err := x.Read(t.Context(), now); err != nil {
					t.Fatal(err)
				}
				x.sets["shop"].large = large
			}
			shown := func(what string, want int64) {
				t.Helper()
				for _, w := range []Window{NewWindow(time.Hour, 48, now), NewWindow(24*time.Hour, 2, now)} {
					d, err := x.Detail(t.Context(), "shop", w)
					if got := d.Totals(w).Accepted; got != want || err != nil {
						t.Errorf("large %v, %v ago, %s: got %d and %v, want %d", large, ago, what, got, err, want)
					}
				}
			}
			commit()
			read()
			shown("committed", 3)
			l.Pend(rows)
			read()
			shown("pending", 6)
			commit()
			if large || ago > 0 { // else memory has it, as it was
				shown("just committed", 6)
			}
			read()
			shown("read", 6)
		}
	}
}
