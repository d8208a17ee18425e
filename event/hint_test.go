package event

import (
	"strings"
	"testing"
)

// first gives message and hint of the first problem of an event.
func first(t *testing.T, body string) (code Code, message, hint string) {
	t.Helper()
	var d Decoder
	res := decode(t, &d, body, Single, Policy{})
	if len(res.Errors) == 0 {
		t.Fatalf("%s is accepted", body)
	}
	return res.Errors[0].Code, res.Errors[0].Message, res.Errors[0].Hint
}

// TestMissingIdentifierNamesJunk holds that a rejected event says which identifier was worthless.
func TestMissingIdentifierNamesJunk(t *testing.T) {
	const empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	for identifiers, want := range map[string][]string{
		`{}`:                               {},
		`{"partner_id":"a"}`:               {},
		`{"email_sha256":"` + empty + `"}`: {"email_sha256 is the hash of no value (JUNK_HASH)."},
		`{"ip":"` + empty + `","ifa":"00000000-0000-0000-0000-000000000000"}`: {"ip is the hash of no value (JUNK_HASH).", "ifa is zeroed (IFA_ZEROED)."},
		`{"ifa":"` + empty + `"}`: {"ifa is the hash of no value (JUNK_HASH)."},
	} {
		code, message, _ := first(t, `{"data_set_id":"spring","timestamp":1794699600,"event_type":"purchase","identifiers":`+identifiers+`}`)
		if code != MissingIdentifier || strings.Count(message, "(") != len(want) {
			t.Errorf("%s: got %s: %s", identifiers, code, message)
		}
		for _, part := range want {
			if !strings.Contains(message, part) {
				t.Errorf("%s: got %q, want it to say %q", identifiers, message, part)
			}
		}
	}
}

// TestForeignBodies holds that a body for another platform is recognised.
func TestForeignBodies(t *testing.T) {
	for body, want := range map[string]string{
		`{"data":[{"event_name":"Purchase"}]}`:                                       "--from meta",
		`{"event_name":"Purchase","event_time":1,"user_data":{"em":[]}}`:             "--from meta",
		`{"client_id":"c.1","events":[{"name":"purchase"}]}`:                         "--from ga4",
		`{"event_source":"web","event_source_id":"x","data":[{"event":"Purchase"}]}`: "--from tiktok",
		`{"pixel_code":"x","event":"Purchase","context":{}}`:                         "--from tiktok",
		`{"pixel_id":"p","event_conversion_type":"WEB","hashed_email":"x"}`:          "--from snap",
		`{"event":"purchase"}`: "",
		`{"foo":1}`:            "",
	} {
		_, _, hint := first(t, body)
		if want == "" && strings.Contains(hint, "convert") || !strings.Contains(hint, want) {
			t.Errorf("%s: got %q, want %q", body, hint, want)
		}
	}
}

// TestCurrencyHints holds what is proposed for texts that are no currency codes.
func TestCurrencyHints(t *testing.T) {
	for text, want := range map[string]string{
		"EURO": "EUR?", "euros": "EUR?", "€": "EUR?", "$": "USD?", "US$": "USD?", "US Dollar": "USD?", "USDT": "USD?", "pound": "GBP?", "R$": "BRL?", "RMB": "CNY?", "DEM": "EUR?",
		"XYZW": "", "12": "", "QQQ": "", "a very long text that is no currency": "",
	} {
		code, _, hint := first(t, strings.Replace(plainEvent, `"USD"`, `"`+text+`"`, 1))
		if code != InvalidCurrency || want == "" && strings.Contains(hint, "Did you mean") || !strings.Contains(hint, want) {
			t.Errorf("%s: got %s, %q, want %q", text, code, hint, want)
		}
	}
	for name, code := range currencyNames {
		if !activeCurrency(code) {
			t.Errorf("%s: %s is not active", name, code)
		}
	}
}
