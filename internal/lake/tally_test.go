package lake

import (
	"strings"
	"testing"
	"time"
	"unsafe"

	"sluice/event"
	"sluice/internal/submission"
)

// A refund counts at its absolute value, whatever its sign, and never among the values of other events.
func TestTallyOfValues(t *testing.T) {
	at := time.Date(2026, 11, 14, 12, 0, 0, 0, time.UTC).Unix()
	row := func(eventType, currency string, value float64) event.Row {
		return event.Row{ReceivedAt: at, EventTime: at, DatasetID: "shop", EventType: eventType, CurrencyCode: currency, Value: value, HasValue: true}
	}
	tally := Tally{}
	tally.Add(&submission.Submission{ReceivedAt: at, DatasetID: "shop", Kind: submission.Batch, Rows: []event.Row{
		row("purchase", "EUR", 100), row("purchase", "EUR", 20), row("purchase", "EUR", -1), row("refund", "EUR", 5), row("refund", "EUR", -7.5),
		row("refund", "USD", -3), row("begin_checkout", "EUR", 90), row("refund", "EUR", 0),
		{ReceivedAt: at, EventTime: at, DatasetID: "shop", EventType: "refund"},
	}})
	type number struct {
		kind, name, field string
		count             int64
		value             float64
	}
	got := map[number]bool{}
	for _, h := range tally.Hours() {
		if h.Kind == KindValue || h.Kind == KindRefunds {
			got[number{h.Kind, h.Name, h.Field, h.Count, h.Value}] = true
		}
	}
	want := []number{
		{KindValue, "EUR", "purchase", 3, 119},
		{KindValue, "EUR", "begin_checkout", 1, 90},
		{KindRefunds, "EUR", "", 3, 12.5},
		{KindRefunds, "USD", "", 1, 3},
	}
	for _, w := range want {
		if !got[w] {
			t.Errorf("got %v, want %v among them", got, w)
		}
	}
	if len(got) != len(want) {
		t.Errorf("got %d numbers, want %d: %v", len(got), len(want), got)
	}
}

// A tally keeps no text of a submission: each would keep the frame in memory that it is a part of.
func TestTallyKeepsNoFrame(t *testing.T) {
	frame := "shop\x00purchase\x00EUR\x00INVALID_VALUE\x00/value"
	part := func(text string) string {
		at := strings.Index(frame, text)
		return frame[at : at+len(text)]
	}
	tally := Tally{}
	tally.Add(&submission.Submission{
		ReceivedAt: noon.Unix(), DatasetID: part("shop"), Kind: submission.Batch,
		Rows: []event.Row{{
			ReceivedAt: noon.Unix(), EventTime: noon.Unix(), EventType: part("purchase"), CurrencyCode: part("EUR"), Value: 1, HasValue: true,
		}},
		Rejections: []event.Rejection{{Code: event.Code(part("INVALID_VALUE")), Field: part("/value"), Count: 1, Events: 1}},
	})
	begin := uintptr(unsafe.Pointer(unsafe.StringData(frame)))
	hours := tally.Hours()
	for _, h := range hours {
		for _, text := range []string{h.DatasetID, h.Kind, h.Name, h.Field} {
			if at := uintptr(unsafe.Pointer(unsafe.StringData(text))); at >= begin && at < begin+uintptr(len(frame)) {
				t.Errorf("%s: got a text that is a part of the frame, want a copy", h.Kind)
			}
		}
	}
	if len(hours) < 4 {
		t.Errorf("got %d numbers, want those of the event and the rejection", len(hours))
	}
}
