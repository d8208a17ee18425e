package event

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
)

// TestAppendJSON holds the form of a stored event, every member of it.
func TestAppendJSON(t *testing.T) {
	id, _ := ParseID("0197f3a0-0000-7000-8000-00000000002a")
	r := Row{
		EventID: id, SubmissionID: "batch.x", SubmissionIndex: 3, ReceivedAt: 1794699605, DatasetID: "d", EventTime: 1794699600, EventType: "custom",
		CustomEventName: "a\"b\\c\n\r\t\x01\x7f ü\u2028", Source: "s", CampaignID: "c", CampaignName: "n", Referer: "r", PageURL: "p", Value: 12.50,
		HasValue: true, CurrencyCode: "USD", EmailSHA256: "e", IFA: "i", IPSHA256: "h", PartnerID: "o", GPPString: "g", GPPSID: []int32{7, -1},
		USPrivacyString: "1YNN", Privacy: MeasurementOnly, Late: true, MeasurementOnly: true, CustomData: "{\"a\":\n [1,\t2] }", SchemaVersion: "1.0",
		SenderEventID: "7", OrderID: "\"8",
	}
	want := `{"event_id":"0197f3a0-0000-7000-8000-00000000002a","submission_id":"batch.x","submission_index":3,"received_at":"2026-11-14T23:40:05Z",` +
		`"data_set_id":"d","event_time":"2026-11-14T23:40:00Z","event_type":"custom","custom_event_name":"a\"b\\c\u000a\u000d\u0009\u0001` + "\x7f ü\u2028" + `","source":"s","cp_id":"c","cp_name":"n",` +
		`"referer":"r","page_url":"p","value":12.5,"currency_code":"USD","email_sha256":"e","ifa":"i","ip_sha256":"h","partner_id":"o","gpp_string":"g","gpp_sid":[7,-1],` +
		`"us_privacy_string":"1YNN","privacy":"measurement_only","late":true,"mmt_only":true,"optimization_eligible":false,"custom_data":{"a": [1,2] },"schema_version":"1.0","sender_event_id":"7","order_id":"\"8"}`
	if got := string(AppendJSON(nil, &r)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	want = `x{"event_id":null,"submission_id":null,"submission_index":0,"received_at":"1970-01-01T00:00:00Z","data_set_id":null,"event_time":"1970-01-01T00:00:00Z",` +
		`"event_type":null,"custom_event_name":null,"source":null,"cp_id":null,"cp_name":null,"referer":null,"page_url":null,"value":null,"currency_code":null,` +
		`"email_sha256":null,"ifa":null,"ip_sha256":null,"partner_id":null,"gpp_string":null,"gpp_sid":null,"us_privacy_string":null,"privacy":"unrestricted",` +
		`"late":false,"mmt_only":false,"optimization_eligible":false,"custom_data":null,"schema_version":null,"sender_event_id":null,"order_id":null}`
	if got := string(AppendJSON([]byte("x"), &Row{})); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestAppendNumber holds that a value reads back the same, and that what JSON has no number for is null.
func TestAppendNumber(t *testing.T) {
	for _, v := range []float64{0, 1, -1, 0.1, 1e-7, 123456789.125, 1e20, 1e21, math.MaxFloat64, math.SmallestNonzeroFloat64} {
		text := appendNumber(nil, v)
		var back float64
		if err := json.Unmarshal(text, &back); err != nil || back != v {
			t.Errorf("%v: got %s", v, text)
		}
	}
	for _, v := range []float64{math.Inf(1), math.Inf(-1), math.NaN()} {
		if got := string(AppendJSON(nil, &Row{Value: v, HasValue: true})); !strings.Contains(got, `"value":null,`) {
			t.Errorf("%v: got %s", v, got)
		}
	}
}

// TestAppendString holds the bytes of a string, and that encoding/json reads the same text from them.
func TestAppendString(t *testing.T) {
	for s, want := range map[string]string{
		"":                   `""`,
		"plain":              `"plain"`,
		"\"\\/":              `"\"\\/"`,
		"a\n\t\x00\x1f\x7fb": `"a\u000a\u0009\u0000\u001f` + "\x7f" + `b"`,
		"é€😀\ufffd":          `"é€😀` + "\ufffd" + `"`,
		"a\xffb":             `"a\ufffdb"`,
		"a\xe2\x82":          `"a\ufffd\ufffd"`,
	} {
		got := AppendString([]byte("x"), s)
		if string(got) != "x"+want {
			t.Errorf("%q: got %s, want x%s", s, got, want)
		}
		if again := AppendString([]byte("x"), []byte(s)); string(again) != string(got) {
			t.Errorf("%q: %s as bytes, %s as a string", s, again, got)
		}
		var back string
		if err := json.Unmarshal(got[1:], &back); err != nil || back != string([]rune(s)) {
			t.Errorf("%q: read back as %q, %v", s, back, err)
		}
	}
}
