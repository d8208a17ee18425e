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
	want := []Campaign{
		{"spring", "Spring sale", map[string]int64{"purchase": 4, "refund": 2, "add_to_cart": 1}, map[string]float64{"EUR": 11.5}, map[string]float64{"EUR": 2, "USD": 3}},
		{"autumn", "", map[string]int64{"search": 1}, map[string]float64{}, map[string]float64{}},
		{None, "", map[string]int64{"purchase": 1}, map[string]float64{"EUR": 1}, map[string]float64{}},
		{Other, "", map[string]int64{"search": 1}, map[string]float64{}, map[string]float64{}},
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
		if tally.Len() > Max+1 {
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
