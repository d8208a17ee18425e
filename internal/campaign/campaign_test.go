package campaign

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"sluice/event"
)

// sums are what tallies add up to.
func sums(tallies ...*Tally) *Sums {
	s := &Sums{}
	for i, t := range tallies {
		t.Each(nil, func(n Number) { s.Add(Sum{n, int64(i), int64(i)}) })
	}
	return s
}

// Events count by type, values by currency, refunds apart and never negative; a value that nobody can mean counts nowhere.
func TestCampaign(t *testing.T) {
	var a, b Tally
	add := func(t *Tally, at int64, id, name, eventType, currency string, value float64) {
		t.Add(&event.Row{ReceivedAt: at, CampaignID: id, CampaignName: name, EventType: eventType, CurrencyCode: currency, Value: value, HasValue: currency != ""})
	}
	add(&a, 10, "spring", "Spring", "purchase", "EUR", 5)
	add(&a, 12, "spring", "Spring sale", "purchase", "EUR", 7.5)
	add(&a, 12, "spring", "", "refund", "EUR", -2)
	add(&a, 12, "spring", "", "refund", "USD", 3)
	add(&a, 13, "spring", "", "add_to_cart", "", 0)
	add(&a, 13, "spring", "", "purchase", "EUR", 2e15)
	add(&a, 13, "", "", "purchase", "EUR", 1)
	add(&b, 11, "spring", "Old", "purchase", "EUR", -1)
	add(&b, 11, "autumn", "", "search", "", 0)
	add(&b, 11, "(other)", "Mine", "search", "", 0)
	add(&b, 11, "(none)", "Mine", "search", "USD", 2)
	want := []Campaign{
		{"spring", "Spring sale", map[string]int64{"purchase": 4, "refund": 2, "add_to_cart": 1}, map[string]float64{"EUR": 11.5}, map[string]float64{"EUR": 2, "USD": 3}},
		{"autumn", "", map[string]int64{"search": 1}, map[string]float64{}, map[string]float64{}},
		{None, "", map[string]int64{"purchase": 1}, map[string]float64{"EUR": 1}, map[string]float64{}},
		{Other, "", map[string]int64{"search": 2}, map[string]float64{"USD": 2}, map[string]float64{}},
	}
	for _, order := range [][]*Tally{{&a, &b}, {&b, &a}} {
		if got := sums(order...).Campaigns(); !reflect.DeepEqual(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
}

// However many campaigns are sent, a bounded number is kept; those with many events are among them, and nothing is lost.
func TestBounded(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	all, events := &Sums{}, int64(0)
	for hour := range int64(20) {
		var tally Tally
		for i := range 4 * Max {
			row := event.Row{ReceivedAt: hour, CampaignID: fmt.Sprint("once-", hour, "-", i), CampaignName: "Once", EventType: "search"}
			if r.IntN(10) == 0 {
				row.CampaignID = fmt.Sprint("often-", r.IntN(30))
			}
			tally.Add(&row)
			events++
		}
		if tally.Len() > candidates+1 {
			t.Fatalf("a tally has %d campaigns", tally.Len())
		}
		tally.Each(nil, func(n Number) { all.Add(Sum{n, hour, hour}) })
		if len(all.totals) > sumsMax+2 {
			t.Fatalf("%d campaigns are added up", len(all.totals))
		}
	}
	got := all.Campaigns()
	if len(got) != Max+1 || got[Max].ID != Other || got[Max].Name != "" {
		t.Fatalf("got %d campaigns, and %+v", len(got), got[len(got)-1])
	}
	for i := range 30 {
		if got[i].ID[:6] != "often-" {
			t.Errorf("campaign %d is %s", i, got[i].ID)
		}
	}
	for i := range got {
		events -= got[i].Total()
	}
	if events != 0 {
		t.Errorf("%d events are missing", events)
	}
}

// A campaign of many events is kept whenever its first one comes, and nothing is lost of those that were given up.
func TestLateCampaign(t *testing.T) {
	var tally Tally
	add := func(id string) {
		tally.Add(&event.Row{ReceivedAt: 1, CampaignID: id, CampaignName: "Name of " + id, EventType: "purchase", CurrencyCode: "EUR", Value: 2, HasValue: true})
	}
	for i := range 10 * Max {
		add(fmt.Sprint("c", i))
		if i%100 == 0 {
			add("") // suppressed
		}
		if i > 8*Max {
			add("zbig")
		}
	}
	if tally.Len() > candidates+1 {
		t.Errorf("a tally has %d campaigns", tally.Len())
	}
	totals := map[string]int64{}
	tally.Totals(totals)
	got := map[string]Campaign{}
	s, numbers, events, value := &Sums{}, 0, int64(0), 0.0
	tally.Each(Most(totals, Max), func(n Number) { s.Add(Sum{Number: n}); numbers++ })
	for _, c := range s.Campaigns() {
		got[c.ID] = c
		events += c.Total()
		value += c.Value["EUR"]
	}
	if c := got["zbig"]; c.Total() != 2*Max-1 || c.Name != "Name of zbig" || c.Value["EUR"] != 2*(2*Max-1) {
		t.Errorf("got %+v", c)
	}
	none := got[None]
	if want := int64(10*Max + Max/10 + 2*Max - 1); events != want || value != 2*float64(want) || none.Total() != Max/10 {
		t.Errorf("got %d events of %v, want %d", events, value, want)
	}
	if len(got) != Max+2 || numbers > 3*(Max+2) {
		t.Errorf("got %d campaigns in %d numbers", len(got), numbers)
	}
}

// Campaigns that are not chosen are one.
func TestMost(t *testing.T) {
	totals := map[string]int64{"": 1, Other: 1, "a": 3, "b": 2, "c": 2, "d": 9}
	if Most(totals, 4) != nil {
		t.Error("four of four were chosen")
	}
	want := map[string]bool{"": true, Other: true, "d": true, "a": true, "b": true}
	if got := Most(totals, 3); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	var tally Tally
	for id, n := range totals {
		for range n {
			tally.Add(&event.Row{CampaignID: id, CampaignName: "Name of " + id, EventType: "search"})
		}
	}
	s := &Sums{}
	tally.Each(want, func(n Number) { s.Add(Sum{Number: n}) })
	for _, c := range s.Campaigns() {
		if c.ID == Other && (c.Total() != 3 || c.Name != "") || c.ID == "d" && c.Total() != 9 || c.ID == "c" {
			t.Errorf("got %+v", c)
		}
	}
}
