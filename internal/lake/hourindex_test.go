package lake

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"
)

var halfPastNoon = time.Date(2026, 11, 14, 12, 30, 0, 0, time.UTC)

// The windows that the console offers.
var testWindows = map[string]Window{
	"day": NewWindow(time.Hour, 24, halfPastNoon), "week": NewWindow(time.Hour, 7*24, halfPastNoon), "month": NewWindow(24*time.Hour, 30, halfPastNoon), "year": NewWindow(24*time.Hour, 396, halfPastNoon),
}

func dataset(x *HourIndex, id string) *DatasetHours {
	v := x.View()
	defer v.Close()
	return v.Dataset(id)
}

func hourRow(ago time.Duration, id, kind, name, field string, count int64, value float64) Hour {
	at := halfPastNoon.Add(-ago).Unix()
	return Hour{Hour: at - at%3600, DatasetID: id, Kind: kind, Name: name, Field: field, Count: count, Value: value}
}

func TestHourIndex(t *testing.T) {
	x := NewHourIndex()
	x.Add([]Hour{
		hourRow(0, "a", KindEvents, "purchase", FieldAccepted, 5, 0), hourRow(0, "a", KindEvents, "purchase", FieldLate, 2, 0),
		hourRow(0, "b", KindEvents, "purchase", FieldAccepted, 7, 0), hourRow(23*time.Hour, "a", KindEvents, "search", FieldAccepted, 11, 0),
		hourRow(24*time.Hour, "a", KindEvents, "search", FieldAccepted, 13, 0), hourRow(6*24*time.Hour, "a", KindEvents, "search", FieldAccepted, 17, 0),
		hourRow(100*24*time.Hour, "a", KindEvents, "search", FieldAccepted, 19, 0), hourRow(0, "a", KindRejections, "MISSING_FIELD", "/timestamp", 9, 4),
		hourRow(0, "a", KindValue, "USD", "purchase", 3, 30.5), hourRow(2*time.Hour, "a", KindValue, "USD", "refund", 1, -10.5),
	}, halfPastNoon)
	sum := func(id, name string) Totals {
		w, ok := testWindows[name]
		if !ok {
			t.Fatal(name)
		}
		return dataset(x, id).Totals(w)
	}
	for _, c := range []struct {
		id, window string
		want       Totals
	}{
		{"a", "day", Totals{Accepted: 16, Rejected: 4, Late: 2}},
		{"", "day", Totals{Accepted: 23, Rejected: 4, Late: 2}},
		{"a", "week", Totals{Accepted: 46, Rejected: 4, Late: 2}},
		{"a", "month", Totals{Accepted: 46, Rejected: 4, Late: 2}},
		{"a", "year", Totals{Accepted: 65, Rejected: 4, Late: 2}},
		{"c", "year", Totals{}},
	} {
		if got := sum(c.id, c.window); got != c.want {
			t.Errorf("%s of %q: got %+v, want %+v", c.window, c.id, got, c.want)
		}
	}
	day := testWindows["day"]
	month := testWindows["month"]
	for _, w := range []Window{day, month} {
		if v := dataset(x, "a").Groups(KindValue, w); len(v) != 1 || v[0].Count != 4 || v[0].Value != 20 {
			t.Errorf("value: got %+v", v)
		}
		by := dataset(x, "a").TotalsBy(w)
		var all Totals
		for _, s := range by {
			all.Add(s)
		}
		if all != dataset(x, "a").Totals(w) {
			t.Errorf("step %s, by steps: got %+v, want %+v", fmt.Sprint(w.Step), all, dataset(x, "a").Totals(w))
		}
	}
	if r := dataset(x, "a").Reasons(day); len(r) != 1 || r[0].Events != 4 || r[0].Problems != 9 {
		t.Errorf("reasons: got %+v", r)
	}

	// A day that is read anew says what it says now, no more.
	today := int32(halfPastNoon.Unix() / 86400)
	x.Replace(today, []Hour{hourRow(0, "a", KindEvents, "purchase", FieldAccepted, 1, 0)}, halfPastNoon)
	if got := sum("a", "day"); got != (Totals{Accepted: 12}) {
		t.Errorf("after replacing today: got %+v", got)
	}
	if got := sum("b", "day"); got != (Totals{}) {
		t.Errorf("after replacing today, b: got %+v", got)
	}
	x.Prune(halfPastNoon.Add(400 * 24 * time.Hour))
	if got := sum("a", "year"); len(x.sets) != 1 && got.Accepted != 0 {
		t.Errorf("after pruning: got %+v in %d sets", got, len(x.sets))
	}
}

// One dataset with many names does not fill the memory, and its Totals stay right.
func TestHourIndexIsBounded(t *testing.T) {
	x := NewHourIndex()
	for i := range 3 * seriesMax {
		x.Add([]Hour{hourRow(0, "a", KindEvents, fmt.Sprint("type", i), FieldAccepted, 1, 0)}, halfPastNoon)
	}
	w := testWindows["day"]
	if n, sum := len(x.sets["a"].series), dataset(x, "a").Totals(w).Accepted; n > seriesMax+1 || sum != 3*seriesMax {
		t.Errorf("got %d series and %d events", n, sum)
	}
}

// bigIndex is a thousand datasets with a busy week.
func bigIndex(now time.Time) *HourIndex {
	x := NewHourIndex()
	r := rand.New(rand.NewPCG(1, 1))
	end := now.Unix() - now.Unix()%3600
	var rows []Hour
	for d := range 1000 {
		id := fmt.Sprintf("campaign-%04d", d)
		for h := end - 47*3600; h <= end; h += 3600 {
			for _, name := range []string{"page_view", "viewed_item", "add_to_cart", "purchase", "search"} {
				for _, field := range []string{FieldAccepted, FieldLate, FieldRestricted} {
					rows = append(rows, Hour{Hour: h, DatasetID: id, Kind: KindEvents, Name: name, Field: field, Count: r.Int64N(1000)})
				}
			}
			rows = append(rows, Hour{Hour: h, DatasetID: id, Kind: KindRejections, Name: "MISSING_FIELD", Field: "/timestamp", Count: r.Int64N(9), Value: 3})
		}
	}
	x.Add(rows, now)
	return x
}

// The index takes what its comment says.
func TestHourIndexSize(t *testing.T) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	x := bigIndex(halfPastNoon)
	runtime.GC()
	runtime.ReadMemStats(&after)
	points := 0
	for _, s := range x.sets {
		for _, one := range s.series {
			points += len(one.hours) + len(one.days)
		}
	}
	if per := float64(after.HeapAlloc-before.HeapAlloc) / float64(points); per > 40 {
		t.Errorf("got %.0f bytes a point, want 16 and what slices keep spare", per)
	}
	runtime.KeepAlive(x)
}

// Revenue is purchases minus refunds. What other events are worth stands apart. Refunds that an earlier version
// counted with their sign are taken off as well, whatever the sign.
func TestRevenue(t *testing.T) {
	x := NewHourIndex()
	x.Add([]Hour{
		hourRow(0, "a", KindValue, "EUR", "purchase", 4, 100), hourRow(time.Hour, "a", KindValue, "EUR", "purchase", 1, 20),
		hourRow(0, "a", KindRefunds, "EUR", "", 2, 12.5), hourRow(30*time.Hour, "a", KindValue, "EUR", "refund", 1, -7),
		hourRow(0, "a", KindValue, "EUR", "begin_checkout", 5, 150), hourRow(0, "a", KindValue, "USD", "refund", 1, 3),
		hourRow(0, "b", KindValue, "EUR", "purchase", 9, 900),
	}, halfPastNoon)
	for name, want := range map[string][]Revenue{
		"day":  {{"EUR", 5, 2, 120, 12.5}, {"USD", 0, 1, 0, 3}},
		"week": {{"EUR", 5, 3, 120, 19.5}, {"USD", 0, 1, 0, 3}},
		"year": {{"EUR", 5, 3, 120, 19.5}, {"USD", 0, 1, 0, 3}},
	} {
		w := testWindows[name]
		if got := dataset(x, "a").Revenue(w); !slices.Equal(got, want) {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
		if got, want := dataset(x, "a").OtherValues(w), (TypeValue{"begin_checkout", "EUR", 5, 150}); len(got) != 1 || got[0] != want || got[0].Mean() != 30 {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
	}
	if got := (Revenue{Purchased: 120, Refunded: 19.5}).Net(); got != 100.5 {
		t.Errorf("got %v, want 100.5", got)
	}
}

// The onset is the beginning of what still goes on: an earlier time of the same problem does not count.
func TestOnset(t *testing.T) {
	const day = 24 * time.Hour
	for name, c := range map[string]struct {
		ago  []time.Duration
		want time.Duration
	}{
		"one hour":              {[]time.Duration{3 * time.Hour}, 3 * time.Hour},
		"all day":               {[]time.Duration{20 * time.Hour, 10 * time.Hour, 0}, 20 * time.Hour},
		"again after two days":  {[]time.Duration{5 * day, 4 * day, 2 * time.Hour, time.Hour}, 2 * time.Hour},
		"once a day":            {[]time.Duration{4 * day, 3 * day, 2 * day, day, 0}, 4 * day},
		"over for a month":      {[]time.Duration{31 * day, 30 * day}, 31 * day},
		"for two weeks":         {[]time.Duration{14 * day, 13 * day, 12 * day, 11 * day, 10 * day, 9 * day, 8 * day, 7 * day, 6 * day, 5 * day, 4 * day, 3 * day, 2 * day, day}, 14 * day},
		"months ago, and again": {[]time.Duration{90 * day, 3 * time.Hour, 2 * time.Hour}, 3 * time.Hour},
	} {
		x := NewHourIndex()
		for _, ago := range c.ago {
			x.Add([]Hour{hourRow(ago, "shop", KindRejections, "MISSING_FIELD", "/timestamp", 1, 1)}, halfPastNoon)
		}
		want := halfPastNoon.Add(-c.want).Truncate(time.Hour).Unix()
		if got := dataset(x, "shop").Onset("MISSING_FIELD", "/timestamp"); got != want {
			t.Errorf("%s: got %v ago, want %v", name, halfPastNoon.Sub(time.Unix(got, 0)), c.want)
		}
		if got := dataset(x, "shop").Onset("MISSING_FIELD", "/value"); got != 0 {
			t.Errorf("%s: another field: got %d", name, got)
		}
	}
}
