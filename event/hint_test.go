package event

import (
	"strings"
	"testing"
	"time"
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

// TestMissingMemberIsNamed holds that a member under another name is named beside the one that is missing, in the hint and as
// a warning.
func TestMissingMemberIsNamed(t *testing.T) {
	const hash = `"973dfe463ec85785f5f95af5ba3906eedb2d931c24e69824a89ea65dba4e813b"`
	for _, c := range []struct {
		body, seen string
		unknown    []string
	}{
		{`{"data_set_id":"s","timestamp":1794699600,"eventType":"purchase","identifiers":{"email_sha256":` + hash + `}}`, "unknown member eventType: send it as event_type", []string{"/eventType"}},
		{`{"data_set_id":"s","timestamp":1794699600,"event_type":"purchase","identifiers":{"email":` + hash + `}}`, "identifiers has email, which is not read; did you mean email_sha256?", []string{"/identifiers/email"}},
		{`{"data_set_id":"s","timestamp":1794699600,"event_type":"purchase","identifiers":{"phone_sha256":` + hash + `}}`, "identifiers has phone_sha256, which is not read.", []string{"/identifiers/phone_sha256"}},
		{`{"data_set_id":"s","event_time":1794699600,"event_type":"purchase","identifiers":{"email_sha256":` + hash + `}}`, "unknown member event_time: send it as timestamp", []string{"/event_time"}},
		{`{"data_set_id":"s","timestamp":1794699600,"event_type":"purchase","ids":{"email_sha256":` + hash + `}}`, "unknown member ids: send it as identifiers", []string{"/ids"}},
		{`{"data_set_id":"s","timestamp":1794699600,"event_type":"purchase","x":1}`, "", []string{"/x"}},
	} {
		for _, explain := range []bool{false, true} {
			d := Decoder{Explain: explain}
			res := decode(t, &d, c.body, Single, Policy{})
			named := res.Unknown
			if explain {
				named = res.Warnings
			} else if len(res.Warnings) > 0 {
				t.Errorf("%s: got warnings of a rejected event that a receipt may keep: %+v", c.body, res.Warnings)
			}
			if len(res.Errors) != 1 || c.seen == "" && res.Errors[0].Seen != "" || !strings.Contains(res.Errors[0].Seen, c.seen) || strings.Contains(res.Errors[0].Hint, "which is not read") {
				t.Errorf("%s: got %+v, want %q", c.body, res.Errors, c.seen)
			}
			if len(named) != len(c.unknown) || named[0].Code != UnknownField || named[0].Field != c.unknown[0] {
				t.Errorf("%s: got %+v, want %q", c.body, named, c.unknown)
			}
		}
	}
}

// TestMalformedHints holds that the usual ways to make a body that is no JSON each have their own hint.
func TestMalformedHints(t *testing.T) {
	for body, want := range map[string]string{
		"":                                       "body of the request",
		" \n":                                    "body of the request",
		`{"value":NaN}`:                          "NaN is no JSON",
		`{"value":-Infinity}`:                    "Infinity is no JSON",
		`{"value":None}`:                         "json.dumps",
		`{'a':1}`:                                "double quotes",
		"\x1f\x8b\x08\x00":                       "Content-Encoding: gzip",
		"\x28\xb5\x2f\xfd\x04":                   "Content-Encoding: zstd",
		"\xef\xbb\xbf{}":                         "byte order mark",
		"\xff\xfe{\x00":                          "UTF-16",
		"{\"a\":1}\n{\"a\":2}\n":                 "/v1/events/batch",
		`{"a":1,}`:                               "Remove the comma",
		`[1,]`:                                   "Remove the comma",
		`{"a":1`:                                 "JSON library",
		`{"data_set_id":"s","a":[1,2,,3]}`:       "JSON library",
		"{\"a\":1}{":                             "/v1/events/batch",
		"{\"a\":\"NaN\",\"b\":Infinity,\"c\":1}": "Infinity is no JSON",
	} {
		var d Decoder
		_, err := d.Decode(body, Single, Policy{}, time.Unix(1794699605, 0))
		if err == nil || err.Code != MalformedJSON || !strings.Contains(err.Hint, want) {
			t.Errorf("%q: got %+v, want %q", body, err, want)
		}
	}
}

// TestOwnHints holds hints of single mistakes that many senders make.
func TestOwnHints(t *testing.T) {
	for body, want := range map[string]string{
		strings.Replace(plainEvent, "1794699600", "0", 1): "was probably not set",
	} {
		if _, _, hint := first(t, body); !strings.Contains(hint, want) {
			t.Errorf("%s: got %q, want %q", body, hint, want)
		}
	}
	event := func(identifiers string) string {
		return `{"data_set_id":"spring","timestamp":1794699600,"event_type":"purchase","identifiers":` + identifiers + `}`
	}
	for identifiers, want := range map[string]string{
		`{"email_sha256":["973dfe463ec85785f5f95af5ba3906eedb2d931c24e69824a89ea65dba4e813b"]}`: "not a list",
		`{"ip":"2001:db8::1"}`: "leave ip out for IPv6",
		`{"ip":"192.0.2.1"}`:   "SHA-256 of the IPv4 address",
	} {
		if _, _, hint := first(t, event(identifiers)); !strings.Contains(hint, want) {
			t.Errorf("%s: got %q, want %q", identifiers, hint, want)
		}
	}
}
