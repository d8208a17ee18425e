package console

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"sluice/internal/lake"
)

var noon = time.Date(2026, 11, 14, 12, 30, 0, 0, time.UTC)

func hourRow(ago time.Duration, id, kind, name, field string, count int64, value float64) Hour {
	at := noon.Add(-ago).Unix()
	return Hour{Hour: at - at%3600, DatasetID: id, Kind: kind, Name: name, Field: field, Count: count, Value: value}
}

func TestBook(t *testing.T) {
	b := newBook()
	b.add([]Hour{
		hourRow(0, "a", lake.KindEvents, "purchase", lake.FieldAccepted, 5, 0), hourRow(0, "a", lake.KindEvents, "purchase", lake.FieldLate, 2, 0),
		hourRow(0, "b", lake.KindEvents, "purchase", lake.FieldAccepted, 7, 0), hourRow(23*time.Hour, "a", lake.KindEvents, "search", lake.FieldAccepted, 11, 0),
		hourRow(24*time.Hour, "a", lake.KindEvents, "search", lake.FieldAccepted, 13, 0), hourRow(6*24*time.Hour, "a", lake.KindEvents, "search", lake.FieldAccepted, 17, 0),
		hourRow(100*24*time.Hour, "a", lake.KindEvents, "search", lake.FieldAccepted, 19, 0), hourRow(0, "a", lake.KindRejections, "MISSING_FIELD", "/timestamp", 9, 4),
		hourRow(0, "a", lake.KindValue, "USD", "purchase", 3, 30.5), hourRow(2*time.Hour, "a", lake.KindValue, "USD", "refund", 1, -10.5),
	}, noon)
	sum := func(id, name string) totals {
		w, ok := newWindow(name, noon)
		if !ok {
			t.Fatal(name)
		}
		return b.shelf(id).totals(w)
	}
	for _, c := range []struct {
		id, window string
		want       totals
	}{
		{"a", "day", totals{Accepted: 16, Rejected: 4, Late: 2}},
		{"", "day", totals{Accepted: 23, Rejected: 4, Late: 2}},
		{"a", "week", totals{Accepted: 46, Rejected: 4, Late: 2}},
		{"a", "month", totals{Accepted: 46, Rejected: 4, Late: 2}},
		{"a", "year", totals{Accepted: 65, Rejected: 4, Late: 2}},
		{"c", "year", totals{}},
	} {
		if got := sum(c.id, c.window); got != c.want {
			t.Errorf("%s of %q: got %+v, want %+v", c.window, c.id, got, c.want)
		}
	}
	day, _ := newWindow("day", noon)
	month, _ := newWindow("month", noon)
	for _, w := range []window{day, month} {
		if v := b.shelf("a").parts(w, of(lake.KindValue)); len(v) != 1 || v[0].count != 4 || v[0].value != 20 {
			t.Errorf("value: got %+v", v)
		}
		by := b.shelf("a").totalsBy(w)
		var all totals
		for _, s := range by {
			all.add(s)
		}
		if all != b.shelf("a").totals(w) {
			t.Errorf("%s by steps: got %+v, want %+v", w.name, all, b.shelf("a").totals(w))
		}
	}
	if r := b.shelf("a").refusals(day); len(r) != 1 || r[0].events != 4 || r[0].problems != 9 {
		t.Errorf("refusals: got %+v", r)
	}

	// A day that is read anew says what it says now, no more.
	today := int32(noon.Unix() / 86400)
	b.replace(today, []Hour{hourRow(0, "a", lake.KindEvents, "purchase", lake.FieldAccepted, 1, 0)}, noon)
	if got := sum("a", "day"); got != (totals{Accepted: 12}) {
		t.Errorf("after replacing today: got %+v", got)
	}
	if got := sum("b", "day"); got != (totals{}) {
		t.Errorf("after replacing today, b: got %+v", got)
	}
	b.prune(noon.Add(400 * 24 * time.Hour))
	if got := sum("a", "year"); len(b.sets) != 1 && got.Accepted != 0 {
		t.Errorf("after pruning: got %+v in %d sets", got, len(b.sets))
	}
}

// One dataset with many names does not fill the memory, and its totals stay right.
func TestBookIsBounded(t *testing.T) {
	b := newBook()
	for i := range 3 * linesMax {
		b.add([]Hour{hourRow(0, "a", lake.KindEvents, fmt.Sprint("type", i), lake.FieldAccepted, 1, 0)}, noon)
	}
	w, _ := newWindow("day", noon)
	if n, sum := len(b.sets["a"].lines), b.shelf("a").totals(w).Accepted; n > linesMax+1 || sum != 3*linesMax {
		t.Errorf("got %d lines and %d events", n, sum)
	}
}

func TestMinutes(t *testing.T) {
	var m minutes
	m.begin()
	at := time.Date(2026, 11, 14, 12, 0, 10, 0, time.UTC)
	m.look(at, totals{Accepted: 10})
	m.look(at.Add(20*time.Second), totals{Accepted: 15, Rejected: 1})
	m.look(at.Add(60*time.Second), totals{Accepted: 18, Rejected: 1})
	w, _ := newWindow("hour", at.Add(time.Minute))
	by := m.over(w)
	if got, want := by[58], (totals{Accepted: 15, Rejected: 1}); got != want {
		t.Errorf("first minute: got %+v, want %+v", got, want)
	}
	if got, want := by[59], (totals{Accepted: 3}); got != want {
		t.Errorf("second minute: got %+v, want %+v", got, want)
	}
	if got := m.lately(at.Add(60 * time.Second)); got.Accepted != 3+15*50/60 {
		t.Errorf("lately: got %+v", got)
	}
	m.look(at.Add(25*time.Hour), totals{Accepted: 18, Rejected: 1})
	w, _ = newWindow("hour", at.Add(25*time.Hour))
	for i, s := range m.over(w) {
		if s != (totals{}) {
			t.Errorf("a day later, step %d: got %+v, want nothing", i, s)
		}
	}
}

// bigBook is a thousand datasets with a busy week.
func bigBook(now time.Time) *book {
	b := newBook()
	r := rand.New(rand.NewPCG(1, 1))
	end := now.Unix() - now.Unix()%3600
	var rows []Hour
	for d := range 1000 {
		id := fmt.Sprintf("campaign-%04d", d)
		for h := end - 47*3600; h <= end; h += 3600 {
			for _, name := range []string{"page_view", "viewed_item", "add_to_cart", "purchase", "search"} {
				for _, field := range []string{lake.FieldAccepted, lake.FieldLate, lake.FieldRestricted} {
					rows = append(rows, Hour{Hour: h, DatasetID: id, Kind: lake.KindEvents, Name: name, Field: field, Count: r.Int64N(1000)})
				}
			}
			rows = append(rows, Hour{Hour: h, DatasetID: id, Kind: lake.KindRejections, Name: "MISSING_FIELD", Field: "/timestamp", Count: r.Int64N(9), Value: 3})
		}
	}
	b.add(rows, now)
	return b
}

// The book costs what its comment says.
func TestBookSize(t *testing.T) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	b := bigBook(noon)
	runtime.GC()
	runtime.ReadMemStats(&after)
	cells := 0
	for _, s := range b.sets {
		for _, t := range s.lines {
			cells += len(t.hours) + len(t.days)
		}
	}
	if per := float64(after.HeapAlloc-before.HeapAlloc) / float64(cells); per > 40 {
		t.Errorf("got %.0f bytes a cell, want 16 and what slices keep spare", per)
	}
	runtime.KeepAlive(b)
}
