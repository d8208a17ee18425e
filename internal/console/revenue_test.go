package console

import (
	"strconv"
	"testing"
	"time"

	"sluice/internal/dataset"
)

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
