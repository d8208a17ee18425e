package console

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice/internal/alarm"
	"sluice/internal/dataset"
)

// What is sent as refunds of either sign and as checkouts stands on the dataset's page, in a browser, as revenue, and on the page
// of campaigns as it was reported.
func TestRevenueOnThePage(t *testing.T) {
	s := openService(t)
	s.dataset(dataset.Spec{ID: "shop"})
	now := time.Now().Unix()
	for _, e := range []struct {
		event string
		value string
	}{{"purchase", "1200.50"}, {"purchase", "99.50"}, {"refund", "100"}, {"refund", "-50.25"}, {"begin_checkout", "700"}} {
		status, answer := s.post("shop", "/v1/events", `{"data_set_id":"shop","timestamp":`+strconv.FormatInt(now, 10)+`,"event_type":"`+e.event+`","value":`+e.value+
			`,"currency_code":"EUR","cp_id":"-2+3","identifiers":{"partner_id":"customer-1","ifa":"0f8fad5b-d9cb-469f-a165-70867728950e"}}`)
		if status != 200 {
			t.Fatalf("got %d %s", status, answer)
		}
	}
	until(t, "five events", func() bool { return figuresOf(s, alarm.DatasetPath("shop")).Accepted == 5 })
	b := openBrowser(t)
	p := b.open(t, s.url+alarm.DatasetPath("shop"), 1280, "light")
	defer p.close()
	if got, want := eval[string](p, `document.querySelector("[data-figure='revenue-EUR']").textContent`), "1,149.75"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := eval[string](p, `[...document.querySelectorAll("#revenue tbody tr")].map(r => [...r.children].map(c => c.textContent).join(" ")).join("\n")`),
		"EUR 1,149.75 1,300.00 2 150.25 2"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	reported := b.open(t, s.url+campaignsPath("shop"), 1280, "light")
	defer reported.close()
	if got, want := eval[string](reported, `[...document.querySelectorAll("#campaigns tbody tr")].map(r => [...r.children].map(c => c.textContent).join("|")).join("\n")`),
		"-2+3|5|purchase 2, refund 2, begin_checkout 1|2,000.00 EUR|150.25 EUR"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := eval[string](reported, `document.querySelector("main").textContent`); !strings.Contains(got, "campaign_days") || !strings.Contains(got, "sent twice counts twice") {
		t.Errorf("got %q, want the views that count once", got)
	}
	asCSV := func(of string) string {
		return `(async () => { let file; const make = URL.createObjectURL.bind(URL); URL.createObjectURL = (b) => { file = b; return make(b); };
		document.querySelector("` + of + ` [data-csv]").click(); return await file.text(); })()`
	}
	if file := eval[string](reported, asCSV("#campaigns")); !strings.Contains(file, "\r\n'-2+3,5,") { // no formula
		t.Errorf("as CSV: got %q", file)
	}
	file := eval[string](p, asCSV("#revenue"))
	if want := "Currency,Revenue,Purchased,Purchases,Refunded,Refunds\r\nEUR,1149.75,1300.00,2,150.25,2\r\n"; file != want {
		t.Errorf("as CSV: got %q, want %q", file, want)
	}
	for _, width := range []int64{390, 1440} { // revenue is seen without a scroll
		p := b.open(t, s.url+alarm.DatasetPath("shop"), width, "light")
		if cut := eval[bool](p, `(() => { const c = document.querySelector("[data-figure='revenue-EUR']"); return c.getBoundingClientRect().right > c.closest(".scroll").getBoundingClientRect().right + 1; })()`); cut {
			t.Errorf("at %d pixels revenue is cut off", width)
		}
		p.close()
	}
}
