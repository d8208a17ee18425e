package input

import (
	"strings"
	"testing"

	"sluice/event"
)

// TestHints holds that cells are explained in the words of a delimited file, where the rule's own words speak of JSON.
func TestHints(t *testing.T) {
	m := bound(t, &Mapping{
		Map: map[string]string{"when": "timestamp", "price": "value", "sid": "privacy.gpp_sid"}, Set: map[string]string{"event_type": "purchase"}, Dataset: "d",
	}, "when", "price", "sid", "email_sha256", "mmt_only")
	for _, tt := range []struct {
		code    event.Code
		pointer string
		want    string
	}{
		{event.InvalidTimestamp, "/timestamp", "2026-11-14T12:00:00Z"},
		{event.InvalidType, "/value", "1234.50"},
		{event.InvalidType, "/mmt_only", "true or false"},
		{event.InvalidType, "/privacy/gpp_sid", "7;8"},
		{event.InvalidGPPSID, "/privacy/gpp_sid", "7;8"},
		{event.MissingField, "/timestamp", `column "when"`},
		{event.MissingField, "/currency_code", "--map COLUMN=currency_code"},
		{event.PlaintextPII, "/identifiers/email_sha256", "--hash COLUMN=email_sha256"},
		{event.MissingIdentifier, "/identifiers", "--hash"},
		{event.TimestampTooOld, "/timestamp", ""},
		{event.FieldTooLong, "/cp_name", ""},
	} {
		got := m.Hint(tt.code, tt.pointer)
		if !strings.Contains(got, tt.want) || tt.want == "" && got != "" {
			t.Errorf("%s at %s: got %q, want %q", tt.code, tt.pointer, got, tt.want)
		}
	}
	for pointer, want := range map[string]string{"/timestamp": "when", "/privacy/gpp_sid": "sid", "/event_type": "", "/cp_id": ""} {
		if got := m.Column(pointer); got != want {
			t.Errorf("%s: got column %q, want %q", pointer, got, want)
		}
	}
}
