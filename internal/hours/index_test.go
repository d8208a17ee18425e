package hours

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"sluice/internal/lake"
)

var halfPastNoon = time.Date(2026, 11, 14, 12, 30, 0, 0, time.UTC)

// The windows that the console offers.
var testWindows = map[string]Window{
	"day": NewWindow(time.Hour, 24, halfPastNoon), "week": NewWindow(time.Hour, 7*24, halfPastNoon), "month": NewWindow(24*time.Hour, 30, halfPastNoon), "year": NewWindow(24*time.Hour, 396, halfPastNoon),
}

func hourRow(ago time.Duration, id, kind, name, field string, count int64, value float64) lake.Hour {
	at := halfPastNoon.Add(-ago).Unix()
	return lake.Hour{Hour: at - at%3600, DatasetID: id, Kind: kind, Name: name, Field: field, Count: count, Value: value}
}

// indexOf is an index of tables that have rows.
func indexOf(t *testing.T, rows []lake.Hour) *Index {
	w := newWorld(t, 1, halfPastNoon)
	w.commit(rows)
	w.read()
	return w.index
}

// datasetOf is the numbers of rows.
func datasetOf(rows ...lake.Hour) *Dataset {
	d := newDataset()
	for i := range rows {
		d.addHour(&rows[i], halfPastNoon.Add(-hoursKept).Unix())
	}
	return d
}

// A window has what happened inside of it, by the hour as by the day.
func TestWindows(t *testing.T) {
	d := datasetOf(
		hourRow(0, "a", KindEvents, "purchase", FieldAccepted, 5, 0), hourRow(0, "a", KindEvents, "purchase", FieldLate, 2, 0),
		hourRow(23*time.Hour, "a", KindEvents, "search", FieldAccepted, 11, 0),
		hourRow(24*time.Hour, "a", KindEvents, "search", FieldAccepted, 13, 0), hourRow(6*24*time.Hour, "a", KindEvents, "search", FieldAccepted, 17, 0),
		hourRow(100*24*time.Hour, "a", KindEvents, "search", FieldAccepted, 19, 0), hourRow(0, "a", KindRejections, "MISSING_FIELD", "/timestamp", 9, 4),
		hourRow(0, "a", KindValue, "USD", "purchase", 3, 30.5), hourRow(2*time.Hour, "a", KindValue, "USD", "refund", 1, -10.5),
	)
	for window, want := range map[string]Totals{
		"day": {Accepted: 16, Rejected: 4, Late: 2}, "week": {Accepted: 46, Rejected: 4, Late: 2},
		"month": {Accepted: 46, Rejected: 4, Late: 2}, "year": {Accepted: 65, Rejected: 4, Late: 2},
	} {
		if got := d.Totals(testWindows[window]); got != want {
			t.Errorf("%s: got %+v, want %+v", window, got, want)
		}
	}
	for _, name := range []string{"day", "month"} {
		w := testWindows[name]
		if v := d.Groups(KindValue, w); len(v) != 1 || v[0].Count != 4 || v[0].Value != 20 {
			t.Errorf("value: got %+v", v)
		}
		var all Totals
		for _, s := range d.TotalsBy(w) {
			all.Add(s)
		}
		if all != d.Totals(w) {
			t.Errorf("%s, by steps: got %+v, want %+v", name, all, d.Totals(w))
		}
		if r := d.Reasons(w); len(r) != 1 || r[0].Events != 4 || r[0].Problems != 9 || r[0].First != halfPastNoon.Truncate(time.Hour).Unix() {
			t.Errorf("reasons: got %+v", r)
		}
	}
}

// One dataset with many names does not fill the memory, and its totals stay right.
func TestDatasetIsBounded(t *testing.T) {
	d := newDataset()
	var rows []lake.Hour
	for i := range 3 * seriesMax {
		rows = append(rows, hourRow(0, "a", KindEvents, fmt.Sprint("type", i), FieldAccepted, 1, 0))
		d.addHour(&rows[i], 0)
	}
	x := indexOf(t, rows)
	w := testWindows["day"]
	if n, sum := len(d.series), d.Totals(w).Accepted; n > seriesMax+1 || sum != 3*seriesMax {
		t.Errorf("got %d series and %d events", n, sum)
	}
	v := x.View()
	defer v.Close()
	if sum := v.Dataset("a").Totals(w).Accepted; sum != 3*seriesMax {
		t.Errorf("in an index: got %d events", sum)
	}
}

// Numbers are the same before and after they are packed.
func TestPack(t *testing.T) {
	d := datasetOf(
		hourRow(0, "a", KindEvents, "purchase", FieldAccepted, 5_000_000, 0), hourRow(time.Hour, "a", KindEvents, "purchase", FieldAccepted, 1, 0),
		hourRow(3*time.Hour, "a", KindEvents, "search", FieldAccepted, 300, 0), hourRow(150*time.Hour, "a", KindEvents, "search", FieldLate, 7, 0),
		hourRow(2*time.Hour, "a", KindValue, "EUR", "purchase", 3, 0.1), hourRow(4*time.Hour, "a", KindValue, "EUR", "purchase", 2, 0),
		hourRow(time.Hour, "a", KindRejections, "MISSING_FIELD", "/timestamp", 9, 4), hourRow(time.Hour, "a", KindWarnings, "W", "", 3, 0),
		hourRow(time.Hour, "a", KindSubmissions, "single", "", 4, 0), hourRow(2*time.Hour, "a", KindRequests, "MALFORMED_JSON", FieldRejected, 2, 0),
	)
	var k keys
	p := k.pack(d, halfPastNoon.Add(-hoursKept).Unix(), recentFrom(halfPastNoon), shareMax)
	got := k.unpack(p)
	day, week := testWindows["day"], testWindows["week"]
	if !slices.Equal(got.TotalsBy(week), d.TotalsBy(week)) { // as they are packed
		t.Errorf("got %+v, want %+v", got.Totals(week), d.Totals(week))
	}
	accepted, rejected := got.RequestsBy(day)
	wantAccepted, wantRejected := d.RequestsBy(day)
	if r := got.Requests(day); r.Accepted != 4 || r.Rejected != 2 || len(r.ByCode) != 1 || got.Count(KindWarnings, "W", day) != 3 || len(got.recent) == 0 ||
		!slices.Equal(accepted, wantAccepted) || !slices.Equal(rejected, wantRejected) {
		t.Errorf("got requests %+v, %v and %v, want %v and %v of a dataset that stays packed", r, accepted, rejected, wantAccepted, wantRejected)
	}
	if g := got.Groups(KindWarnings, day); len(g) != 1 || g[0].Count != 3 {
		t.Errorf("got warnings %+v, want 3 of one code", g)
	}
	if a, b := got.Revenue(day), d.Revenue(day); !slices.Equal(a, b) {
		t.Errorf("got %+v, want %+v", a, b)
	}
	if !slices.Equal(got.TotalsBy(week), d.TotalsBy(week)) { // and unpacked
		t.Errorf("unpacked: got %+v, want %+v", got.Totals(week), d.Totals(week))
	}
	if a, b := got.Reasons(day), d.Reasons(day); len(a) != 1 || a[0].Events != b[0].Events || a[0].First != b[0].First {
		t.Errorf("got %+v, want %+v", a, b)
	}
	small := k.unpack(k.pack(d, halfPastNoon.Add(-hoursKept).Unix(), recentFrom(halfPastNoon), 60))
	if !slices.Equal(small.TotalsBy(week), d.TotalsBy(week)) || small.Count(KindWarnings, "W", day) != 3 || len(small.Types(day)) != 0 {
		t.Errorf("with little memory: got %+v, %+v", small.Totals(week), small.Types(day))
	}
	for i := range len(p.recent) { // what is torn ends; it does not panic
		_ = k.unpack(&packed{totals: p.totals[:min(i, len(p.totals))], recent: p.recent[:i]}).Reasons(day)
		_ = k.unpack(&packed{totals: p.totals[:min(i, len(p.totals))]}).Totals(week)
	}
}

// busy are the rows of a dataset with 30 numbers around the clock, for a day; and before that, its totals.
func busy(id string) (rows []lake.Hour) {
	for h := range 7 * 24 {
		put := func(kind, name, field string, count int64, value float64) {
			rows = append(rows, hourRow(time.Duration(h)*time.Hour, id, kind, name, field, count, value))
		}
		for i, name := range []string{"page_view", "viewed_item", "add_to_cart", "purchase", "search"} {
			put(KindEvents, name, FieldAccepted, int64(20+7*i+h%5), 0)
			put(KindEvents, name, FieldRestricted, int64(1+i), 0)
		}
		for i, name := range identifierNames {
			put(KindIdentifiers, name, "", int64(40+i), 0)
		}
		for i, name := range AgeNames[1:6] {
			put(KindAge, name, "", int64(3+i), 0)
		}
		put(KindPrivacy, "unrestricted", "", 100, 0)
		put(KindPrivacy, "measurement_only", "", 15, 0)
		put(KindEvents, "purchase", FieldLate, 2, 0)
		put(KindEvents, "purchase", FieldSuppressed, 1, 0)
		put(KindRejections, "MISSING_FIELD", "/timestamp", 3, 3)
		put(KindValue, "EUR", "purchase", 20, 1234.5)
		put(KindSubmissions, "single", "", 60, 0)
	}
	return rows
}

// Twenty thousand datasets with 30 numbers around the clock take less than 64 MiB, 2 KiB each.
func TestMemoryOfManyDatasets(t *testing.T) {
	const datasets = 20_000
	var before, after runtime.MemStats
	x := NewIndex(nil)
	rows := busy("")
	one := newDataset()
	for i := range rows {
		one.addHour(&rows[i], 0)
	}
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range datasets {
		x.sets[fmt.Sprintf("campaign-%05d", i)] = x.pack(one, nil, halfPastNoon)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	took := int64(after.HeapAlloc) - int64(before.HeapAlloc)
	if each := took / datasets; each > 2048 {
		t.Errorf("got %d bytes for a dataset, want 2 KiB at the most", each)
	}
	if took > 64<<20-cacheMax {
		t.Errorf("got %d MiB, want 64 with the cache", took>>20)
	}
	v := x.View()
	defer v.Close()
	if w := testWindows["day"]; !v.Whole("campaign-19999") || v.Dataset("campaign-19999").Readiness(w) != one.Readiness(w) {
		t.Errorf("got %+v, want %+v", v.Dataset("campaign-19999").Readiness(w), one.Readiness(w))
	}
	t.Logf("%d bytes for a dataset, %d MiB in all", took/datasets, took>>20)
}

// Revenue is purchases minus refunds. What other events are worth stands apart.
func TestRevenue(t *testing.T) {
	d := datasetOf(
		hourRow(0, "a", KindValue, "EUR", "purchase", 4, 100), hourRow(time.Hour, "a", KindValue, "EUR", "purchase", 1, 20),
		hourRow(0, "a", KindRefunds, "EUR", "", 2, 12.5), hourRow(30*time.Hour, "a", KindRefunds, "EUR", "", 1, 7),
		hourRow(0, "a", KindValue, "EUR", "begin_checkout", 5, 150), hourRow(0, "a", KindRefunds, "USD", "", 1, 3),
	)
	for name, want := range map[string][]Revenue{
		"day":  {{"EUR", 5, 2, 120, 12.5}, {"USD", 0, 1, 0, 3}},
		"week": {{"EUR", 5, 3, 120, 19.5}, {"USD", 0, 1, 0, 3}},
		"year": {{"EUR", 5, 3, 120, 19.5}, {"USD", 0, 1, 0, 3}},
	} {
		w := testWindows[name]
		if got := d.Revenue(w); !slices.Equal(got, want) {
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
		d := newDataset()
		for _, ago := range c.ago {
			r := hourRow(ago, "shop", KindRejections, "MISSING_FIELD", "/timestamp", 1, 1)
			d.addHour(&r, halfPastNoon.Add(-hoursKept).Unix())
		}
		want := halfPastNoon.Add(-c.want).Truncate(time.Hour).Unix()
		if got := d.Onset("MISSING_FIELD", "/timestamp"); got != want {
			t.Errorf("%s: got %v ago, want %v", name, halfPastNoon.Sub(time.Unix(got, 0)), c.want)
		}
		if got := d.Onset("MISSING_FIELD", "/value"); got != 0 {
			t.Errorf("%s: another field: got %d", name, got)
		}
	}
}
