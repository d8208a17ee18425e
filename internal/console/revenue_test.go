package console

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"sluice/internal/dataset"
	"sluice/internal/lake"
)

// Revenue is purchases minus refunds. What other events are worth stands apart. Refunds that an earlier version
// counted with their sign are taken off as well, whatever the sign.
func TestRevenue(t *testing.T) {
	b := newBook()
	b.add([]Hour{
		hourRow(0, "a", lake.KindValue, "EUR", "purchase", 4, 100), hourRow(time.Hour, "a", lake.KindValue, "EUR", "purchase", 1, 20),
		hourRow(0, "a", lake.KindRefunds, "EUR", "", 2, 12.5), hourRow(30*time.Hour, "a", lake.KindValue, "EUR", "refund", 1, -7),
		hourRow(0, "a", lake.KindValue, "EUR", "begin_checkout", 5, 150), hourRow(0, "a", lake.KindValue, "USD", "refund", 1, 3),
		hourRow(0, "b", lake.KindValue, "EUR", "purchase", 9, 900),
	}, noon)
	for name, want := range map[string][]revenue{
		"day":  {{"EUR", 5, 2, 120, 12.5}, {"USD", 0, 1, 0, 3}},
		"week": {{"EUR", 5, 3, 120, 19.5}, {"USD", 0, 1, 0, 3}},
		"year": {{"EUR", 5, 3, 120, 19.5}, {"USD", 0, 1, 0, 3}},
	} {
		w, _ := newWindow(name, noon)
		if got := b.shelf("a").revenue(w); !slices.Equal(got, want) {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
		if got, want := b.shelf("a").otherValues(w), (typeValue{"begin_checkout", "EUR", 5, 150}); len(got) != 1 || got[0] != want || got[0].Mean() != 30 {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
	}
	if got := (revenue{Purchased: 120, Refunded: 19.5}).Net(); got != 100.5 {
		t.Errorf("got %v, want 100.5", got)
	}
}

// What is sent as refunds of either sign and as checkouts stands on the dataset's page, in a browser, as revenue and
// as values apart.
func TestRevenueOnThePage(t *testing.T) {
	s := openService(t)
	s.dataset(dataset.Spec{ID: "shop"})
	now := time.Now().Unix()
	for _, e := range []struct {
		event string
		value string
	}{{"purchase", "1200.50"}, {"purchase", "99.50"}, {"refund", "100"}, {"refund", "-50.25"}, {"begin_checkout", "700"}} {
		status, answer := s.post("shop", "/v1/events", `{"data_set_id":"shop","timestamp":`+strconv.FormatInt(now, 10)+`,"event_type":"`+e.event+`","value":`+e.value+
			`,"currency_code":"EUR","identifiers":{"partner_id":"customer-1","ifa":"0f8fad5b-d9cb-469f-a165-70867728950e"}}`)
		if status != 200 {
			t.Fatalf("got %d %s", status, answer)
		}
	}
	until(t, "five events", func() bool { return figuresOf(s, datasetPath("shop")).Accepted == 5 })
	p := openBrowser(t).open(t, s.url+datasetPath("shop"), 1280, "light")
	defer p.close()
	for figure, want := range map[string]string{"revenue-EUR": "1,149.75", "value-begin_checkout-EUR": "700.00"} {
		if got := eval[string](p, `document.querySelector("[data-figure='`+figure+`']").textContent`); got != want {
			t.Errorf("%s: got %s, want %s", figure, got, want)
		}
	}
	if got, want := eval[string](p, `[...document.querySelectorAll("#revenue tbody tr")].map(r => [...r.children].map(c => c.textContent).join(" ")).join("\n")`),
		"EUR 2 1,300.00 2 150.25 1,149.75"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
