package hours

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"sluice/event"
	"sluice/internal/campaign"
	"sluice/internal/lake"
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
	for _, h := range Hours(&tally) {
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

// Warnings are counted by code, over all submissions of an hour.
func TestWarningsInHours(t *testing.T) {
	tally := Tally{}
	for range 3 {
		tally.Add(&submission.Submission{
			ReceivedAt: halfPastNoon.Unix(), DatasetID: "shop", Kind: submission.Batch,
			Warned: []event.Warned{{Code: event.GPPVersionUnknown, Events: 7}, {Code: event.LateEvent, Events: 1}},
		})
	}
	got := map[string]int64{}
	for _, h := range Hours(&tally) {
		if h.Kind == KindWarnings {
			got[h.Name] += h.Count
		}
	}
	if len(got) != 2 || got["GPP_VERSION_UNKNOWN"] != 21 || got["LATE_EVENT"] != 3 {
		t.Errorf("got %v, want 21 and 3", got)
	}
}

// Requests that made no submission are counted by the code of their answer, and those that were answered again beside the
// submissions.
func TestRequestsInHours(t *testing.T) {
	var tally Tally
	at := func(kind submission.Kind, requests ...submission.Requests) {
		tally.Add(&submission.Submission{ReceivedAt: halfPastNoon.Unix(), DatasetID: "shop", Kind: kind, Requests: requests})
	}
	at(submission.Single)
	at(submission.Batch)
	at(submission.Rejected, submission.Requests{Code: event.MalformedJSON, Count: 5}, submission.Requests{Count: 3})
	at(submission.Rejected, submission.Requests{Code: event.DatasetForbidden, Count: 7}, submission.Requests{Code: event.MalformedJSON, Count: 1})
	view := indexOf(t, Hours(&tally)).View()
	defer view.Close()
	w := NewWindow(time.Hour, 24, halfPastNoon)
	got := view.Dataset("shop").Requests(w)
	if got.Accepted != 5 || got.Rejected != 13 || len(got.ByCode) != 2 || got.ByCode[0].Name != "DATASET_FORBIDDEN" || got.ByCode[0].Count != 7 || got.ByCode[1].Count != 6 {
		t.Errorf("got %+v, want 5 accepted, 13 rejected", got)
	}
	accepted, rejected := view.Dataset("shop").RequestsBy(w)
	if accepted[23] != 5 || rejected[23] != 13 {
		t.Errorf("got %v and %v, want 5 and 13 in the last hour", accepted, rejected)
	}
	if sum := view.Dataset("shop").Totals(w); sum != (Totals{}) {
		t.Errorf("got %+v events, want none", sum)
	}
}

// The campaigns that a commit names are those of the most events, in whatever order they come, in all hours and
// partitions together. The others are one row for each type.
func TestCampaignsOfMostEvents(t *testing.T) {
	tallies := make([]Tally, 2)
	at := halfPastNoon.Unix()
	add := func(partition int, id string, n int) {
		s := submission.Submission{ReceivedAt: at, DatasetID: "shop", Kind: submission.Batch}
		for range n {
			s.Rows = append(s.Rows, event.Row{ReceivedAt: at, EventTime: at, EventType: "purchase", CampaignID: id})
		}
		tallies[partition].Add(&s)
	}
	for i := range 3000 {
		add(i%2, fmt.Sprintf("c%04d", i), 1)
	}
	add(0, "zbig", 400)
	at += 3600
	add(1, "zbig", 500)
	got, rows := map[string]int64{}, 0
	for _, h := range Hours(&tallies[0], &tallies[1]) {
		if h.Kind == campaign.KindEvents {
			got[h.Name] += h.Count
			rows++
		}
	}
	if got["zbig"] != 900 || got[campaign.Other] != 2001 || len(got) != campaign.Max+1 || rows > campaign.Max+3 {
		t.Errorf("got %d of zbig, %d of others, %d campaigns in %d rows", got["zbig"], got[campaign.Other], len(got), rows)
	}
}

// A tally keeps no text of a submission: each would keep the frame in memory that it is a part of.
func TestTallyKeepsNoFrame(t *testing.T) {
	frame := "shop\x00purchase\x00EUR\x00INVALID_VALUE\x00/value\x00LATE_EVENT"
	part := func(text string) string {
		at := strings.Index(frame, text)
		return frame[at : at+len(text)]
	}
	tally := Tally{}
	tally.Add(&submission.Submission{
		ReceivedAt: halfPastNoon.Unix(), DatasetID: part("shop"), Kind: submission.Batch,
		Rows: []event.Row{{
			ReceivedAt: halfPastNoon.Unix(), EventTime: halfPastNoon.Unix(), EventType: part("purchase"), CurrencyCode: part("EUR"), Value: 1, HasValue: true,
		}},
		Rejections: []event.Rejection{{Code: event.Code(part("INVALID_VALUE")), Field: part("/value"), Count: 1, Events: 1}},
		Warned:     []event.Warned{{Code: event.Code(part("LATE_EVENT")), Events: 1}},
	})
	begin := uintptr(unsafe.Pointer(unsafe.StringData(frame)))
	hours := Hours(&tally)
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

// The rows of a commit are made in one piece, however many campaigns, types and currencies there are: each commit makes
// them again.
func TestHoursAreMadeAtOnce(t *testing.T) {
	at := halfPastNoon.Unix()
	tally := Tally{}
	for d := range 50 {
		var rows []event.Row
		for i := range 2000 {
			rows = append(rows, event.Row{
				ReceivedAt: at, EventTime: at, EventType: event.Types()[i%10].Name, CampaignID: fmt.Sprint("campaign-", i%40), CampaignName: "Autumn",
				CurrencyCode: []string{"EUR", "USD", "GBP"}[i%3], Value: 1, HasValue: true,
			})
		}
		tally.Add(&submission.Submission{ReceivedAt: at, DatasetID: fmt.Sprint("shop-", d), Kind: submission.Batch, Rows: rows})
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	rows := Hours(&tally)
	runtime.ReadMemStats(&after)
	if !slices.IsSortedFunc(rows, func(a, b lake.Hour) int { return strings.Compare(a.DatasetID, b.DatasetID) }) {
		t.Error("the rows are not in the order of datasets: the table sorts them all")
	}
	if n := tally.CampaignNumbers(); len(rows) < n || n < 50*40*4 {
		t.Fatalf("got %d rows, %d numbers of campaigns", len(rows), n)
	}
	if got, want := after.TotalAlloc-before.TotalAlloc, uint64(len(rows))*uint64(unsafe.Sizeof(rows[0])); got > want*3/2 {
		t.Errorf("%d rows of %d bytes took %d", len(rows), want, got)
	}
}
