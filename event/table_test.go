package event

import (
	"strings"
	"testing"
)

// TestFieldTable holds the table of fields against the constants, and that each is found in its object alone.
func TestFieldTable(t *testing.T) {
	if len(fieldTable) != int(fieldCount) {
		t.Fatalf("got %d fields, want %d", len(fieldTable), fieldCount)
	}
	for i := range fieldTable {
		f := &fieldTable[i]
		parent := strings.TrimSuffix(f.Pointer, "/"+f.Name())
		for pointer, object := range map[string]field{"": fieldEvent, "/identifiers": fieldIdentifiers, "/privacy": fieldPrivacy} {
			want := fieldUnknown
			if pointer == parent {
				want = field(i)
			}
			if got := memberField(object, f.Name()); got != want {
				t.Errorf("%s in %q: got field %d, want %d", f.Pointer, pointer, got, want)
			}
		}
		if f.Meaning == "" || f.Example == "" || f.Type == "" {
			t.Errorf("%s is not described", f.Pointer)
		}
	}
	if got := siblings["/privacy"]; strings.Join(got, " ") != "gpp_string gpp_sid us_privacy_string" {
		t.Errorf("got siblings %q", got)
	}
}

// TestCodeTable holds that every code is described once, in the order of the rules.
func TestCodeTable(t *testing.T) {
	seen := map[Code]bool{}
	for _, info := range codeTable {
		if seen[info.Code] {
			t.Errorf("%s twice", info.Code)
		}
		seen[info.Code] = true
		if info.Meaning == "" || info.Remedy == "" {
			t.Errorf("%s is not described", info.Code)
		}
	}
	rules := []Code{
		MalformedJSON, DuplicateField, InvalidType, MissingField, InvalidEventType, InvalidTimestamp, TimestampTooOld, TimestampInFuture,
		MissingIdentifier, PlaintextPII, InvalidIdentifier, InvalidCurrency, InvalidGPPString, InvalidGPPSID, InvalidUSPrivacyString,
		UnsupportedSchemaVersion, InvalidCustomData, FieldTooLong,
	}
	for i, code := range rules {
		if rank(code) != i {
			t.Errorf("%s: got rank %d, want %d", code, rank(code), i)
		}
	}
}

// TestTypeTable holds that no event type is listed twice and each is described.
func TestTypeTable(t *testing.T) {
	if len(typeIndex) != len(typeTable) {
		t.Errorf("got %d different names of %d", len(typeIndex), len(typeTable))
	}
	additional := 0
	for _, info := range typeTable {
		if info.Meaning == "" {
			t.Errorf("%s is not described", info.Name)
		}
		if info.Additional {
			additional++
		}
	}
	if additional != 17 {
		t.Errorf("got %d additional types, want 17", additional)
	}
}

// TestHints holds what a sender reads about typing errors.
func TestHints(t *testing.T) {
	hint := func(body string) string {
		var d Decoder
		res := decode(t, &d, body, Single, Policy{})
		for _, e := range res.Errors {
			if e.Code == InvalidEventType || e.Code == InvalidTimestamp {
				return e.Message + e.Hint
			}
		}
		for _, w := range res.Warnings {
			return w.Message
		}
		return ""
	}
	for part, want := range map[string]string{
		`"event_type":"Purchase"`:                               "purchase",
		`"event_type":"AddToCart"`:                              "add_to_cart",
		`"event_type":"CompletePayment"`:                        "purchase",
		`"event_type":"view_item"`:                              "viewed_item",
		`"event_type":"PAGE_VISIT"`:                             "page_view",
		`"event_type":"refund","timestamp":1794699600000000`:    "microseconds",
		`"event_type":"refund","timestamp":1794699600000000000`: "nanoseconds",
		`"event_type":"refund","timestamp":"1794699600"`:        "without quotes",
		`"event_type":"refund","timestamp":1794699600.5`:        "fraction",
	} {
		if got := hint("{" + part + "}"); !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want it to name %s", part, got, want)
		}
	}
	typo := strings.TrimSuffix(plainEvent, "}") + `,"curency_code":"USD"}`
	if got := hint(typo); !strings.Contains(got, "currency_code?") {
		t.Errorf("got %q, want it to name currency_code", got)
	}
}

// TestTablesAreCopies holds that a caller cannot change the tables, and that an unknown name has one answer.
func TestTablesAreCopies(t *testing.T) {
	codes, fields, types := Codes(), Fields(), Types()
	clear(codes)
	clear(fields)
	clear(types)
	if Codes()[0].Code != MalformedJSON || Fields()[0].Pointer != "/data_set_id" || Types()[0].Name != "purchase" {
		t.Error("a caller changed a table")
	}
	if info, known := LookupCode(JunkHash); !known || info.Kind != WarningKind || info.Code != JunkHash {
		t.Errorf("got %+v, %v", info, known)
	}
	if info, known := LookupCode("FROM_ANOTHER_VERSION"); known || info.Code != "FROM_ANOTHER_VERSION" || info.Meaning == "" || info.Remedy == "" {
		t.Errorf("got %+v, %v for an unknown code", info, known)
	}
	if info, known := LookupField("/privacy/gpp_sid"); !known || info.Type != "array" {
		t.Errorf("got %+v, %v", info, known)
	}
	if _, known := LookupField("/nothing"); known {
		t.Error("an unknown field is known")
	}
	if info, known := LookupType("refund"); !known || info.Name != "refund" {
		t.Errorf("got %+v, %v", info, known)
	}
	if _, known := LookupType("Refund"); known {
		t.Error("an unknown type is known")
	}
}
