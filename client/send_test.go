package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"sluice/event"
)

func TestSend(t *testing.T) {
	s := &service{}
	c := start(t, s, Options{DatasetID: "spring"})
	receipt, err := c.Send(t.Context(), purchase())
	if err != nil {
		t.Fatal(err)
	}
	if receipt.SubmissionID != "single.1" || receipt.Accepted != 1 || receipt.Status != "RECEIVED" || receipt.ReceivedAt.IsZero() {
		t.Errorf("got receipt %+v", receipt)
	}
	r := s.requests[0]
	for name, want := range map[string]string{
		"Authorization": "Bearer test-key", "Content-Type": "application/json", "Accept": "application/json",
		"Idempotency-Key": receipt.Key, "Content-Encoding": "",
	} {
		if got := r.header.Get(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	want := `{"data_set_id":"spring","timestamp":1794657600,"event_type":"purchase","value":9.99,"currency_code":"EUR","identifiers":{"email_sha256":"` + Vectors[0].SHA256 + `"}}`
	if string(r.body) != want {
		t.Errorf("got body\n%s, want\n%s", r.body, want)
	}
}

func TestEventMembers(t *testing.T) {
	full := Event{
		DatasetID: "d", Time: noon, EventType: "custom", CustomEventName: "n", Source: "app", CampaignID: "c", CampaignName: "cn",
		Referer: "r", PageURL: "p", Value: new(0.0), CurrencyCode: "USD", MeasurementOnly: true, SchemaVersion: "1.0",
		Identifiers: Identifiers{"e", "i", "ip", "pa"},
		Privacy:     Privacy{"gpp", []int{7}, "1YNN"},
		CustomData:  map[string]any{"coupons": []string{"A"}},
	}
	got, err := json.Marshal(full)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"data_set_id":"d","timestamp":1794657600,"event_type":"custom","custom_event_name":"n","source":"app","cp_id":"c","cp_name":"cn",` +
		`"referer":"r","page_url":"p","value":0,"currency_code":"USD","identifiers":{"email_sha256":"e","ifa":"i","ip":"ip","partner_id":"pa"},` +
		`"privacy":{"gpp_string":"gpp","gpp_sid":[7],"us_privacy_string":"1YNN"},"custom_data":{"coupons":["A"]},"mmt_only":true,"schema_version":"1.0"}`
	if string(got) != want {
		t.Errorf("got\n%s, want\n%s", got, want)
	}
	if got, _ := json.Marshal(Event{}); string(got) != "{}" {
		t.Errorf("an empty event: got %s, want {}", got)
	}
}

func TestSendBatchSplits(t *testing.T) {
	big := purchases(3)
	for i := range big {
		big[i].CustomData = map[string]any{"note": strings.Repeat("x", 2_000_000)}
	}
	for _, tt := range []struct {
		name   string
		events []Event
		want   []int // events in each request
	}{
		{"one", purchases(1), []int{1}},
		{"a thousand", purchases(1000), []int{1000}},
		{"a thousand and one", purchases(1001), []int{1000, 1}},
		{"by size", big, []int{2, 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &service{}
			receipts, err := start(t, s, Options{DatasetID: "d"}).SendBatch(t.Context(), tt.events)
			if err != nil {
				t.Fatal(err)
			}
			var got []int
			first := 0
			for _, r := range receipts {
				got = append(got, r.Accepted)
				if r.First != first {
					t.Errorf("got First %d, want %d", r.First, first)
				}
				first += r.Accepted
			}
			if fmt.Sprint(got) != fmt.Sprint(tt.want) {
				t.Errorf("got requests of %v events, want %v", got, tt.want)
			}
			for _, r := range s.requests {
				if len(r.body) > MaxBytes {
					t.Errorf("got a body of %d bytes", len(r.body))
				}
				if len(r.body) > 1024 && r.header.Get("Content-Encoding") != "gzip" {
					t.Error("a large body went uncompressed")
				}
			}
		})
	}
}

func TestSendBatchRejections(t *testing.T) {
	events := purchases(1003)
	events[2].EventType, events[1001].EventType = "bad", "bad"
	s := &service{}
	receipts, err := start(t, s, Options{}).SendBatch(t.Context(), events)
	failed, ok := errors.AsType[*BatchError](err)
	if !ok {
		t.Fatalf("got error %v, want a *BatchError", err)
	}
	if len(receipts) != 2 || failed.Rejected != 2 || len(failed.Unsent) != 0 || s.storedCount() != 1001 {
		t.Errorf("got %d receipts, %d rejected, %d unsent, %d stored", len(receipts), failed.Rejected, len(failed.Unsent), s.storedCount())
	}
	for i, want := range []int{2, 1001} {
		p := failed.Problems[i]
		if p.Index != want || p.Code != event.InvalidEventType || p.Field != "/event_type" || p.Hint != "Use purchase." {
			t.Errorf("problem %d: got %+v, want index %d", i, p, want)
		}
	}
	want := "2 events rejected\n  event 2: INVALID_EVENT_TYPE at /event_type: Not a known type. Use purchase.\n  event 1001: "
	if !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got text %q, want it to begin %q", err, want)
	}
}

// A batch of which nothing is valid is a 400 of its own, and does not stop the others.
func TestSendBatchAllRejectedInOneRequest(t *testing.T) {
	events := purchases(1001)
	events[1000].EventType = "bad"
	receipts, err := start(t, &service{}, Options{}).SendBatch(t.Context(), events)
	failed, ok := errors.AsType[*BatchError](err)
	if !ok || failed.Rejected != 1 || len(failed.Problems) != 1 || failed.Problems[0].Index != 1000 || len(receipts) != 1 {
		t.Errorf("got %d receipts and %v", len(receipts), err)
	}
}

func TestSendBatchStopsAtARejectedKey(t *testing.T) {
	s := &service{answer: func(n int, w http.ResponseWriter, _ *http.Request) bool {
		return n > 1 && fail(w, 403, "INVALID_API_KEY")
	}}
	receipts, err := start(t, s, Options{}).SendBatch(t.Context(), purchases(3001))
	failed, ok := errors.AsType[*BatchError](err)
	if !ok || len(receipts) != 1 || len(s.requests) != 2 {
		t.Fatalf("got %d receipts, %d requests, error %v", len(receipts), len(s.requests), err)
	}
	if len(failed.Unsent) != 1 || failed.Unsent[0].From != 1000 || failed.Unsent[0].To != 3001 {
		t.Errorf("got unsent %+v, want events 1000 to 3000", failed.Unsent)
	}
	if e, ok := errors.AsType[*Error](err); !ok || !e.KeyRejected() || e.RequestID != "r1" {
		t.Errorf("got %v, want the service's own rejection inside", err)
	}
}

// A 400 of what is between says nothing about the events: they are unsent, not rejected.
func TestForeignRejection(t *testing.T) {
	s := &service{answer: func(n int, w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(400)
		fmt.Fprint(w, "<html>Request blocked.</html>")
		return true
	}}
	_, err := start(t, s, Options{}).SendBatch(t.Context(), purchases(1500))
	failed, ok := errors.AsType[*BatchError](err)
	if !ok || failed.Rejected != 0 || len(failed.Unsent) != 1 || failed.Unsent[0].From != 0 || failed.Unsent[0].To != 1500 {
		t.Errorf("got %v", err)
	}
}

func TestSubmitRejectsTooMuch(t *testing.T) {
	s := &service{}
	_, err := start(t, s, Options{}).Submit(t.Context(), Request{Body: make([]byte, MaxBytes+1)})
	if err == nil || len(s.requests) != 0 {
		t.Errorf("got error %v after %d requests", err, len(s.requests))
	}
}

func TestSubmitHeaders(t *testing.T) {
	for _, tt := range []struct {
		compression Compression
		want        string
	}{{Gzip, "gzip"}, {Zstd, "zstd"}, {Plain, ""}} {
		s := &service{}
		c := start(t, s, Options{Compression: tt.compression})
		body := []byte(`[{"a":"` + strings.Repeat("x", 2000) + `"}]`)
		if _, err := c.Submit(t.Context(), Request{Batch: true, Body: body, Key: "mine", Strict: true}); err != nil {
			t.Fatal(err)
		}
		r := s.requests[0]
		if got := r.header.Get("Content-Encoding"); got != tt.want || string(r.body) != string(body) {
			t.Errorf("got encoding %q and %d bytes, want %q and %d", got, len(r.body), tt.want, len(body))
		}
		if r.header.Get("Idempotency-Key") != "mine" || r.header.Get("Prefer") != "handling=strict" {
			t.Errorf("got header %v", r.header)
		}
	}
}
