package event

import (
	"encoding/hex"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestConsentNames holds that every consent name restricts an event in every style of writing it, and says so.
func TestConsentNames(t *testing.T) {
	styles := map[string]func(string) string{
		"as listed": func(s string) string { return s },
		"upper":     strings.ToUpper,
		"joined":    func(s string) string { return strings.ReplaceAll(s, "_", "") },
		"hyphens":   func(s string) string { return strings.ReplaceAll(s, "_", "-") },
		"spaces":    func(s string) string { return strings.ReplaceAll(s, "_", " ") },
		"camel": func(s string) string {
			for i := strings.IndexByte(s, '_'); i >= 0; i = strings.IndexByte(s, '_') {
				s = s[:i] + strings.ToUpper(s[i+1:i+2]) + s[i+2:]
			}
			return s
		},
	}
	var d Decoder
	for _, group := range consentTable {
		for _, name := range group.names {
			for style, write := range styles {
				written := write(name)
				if memberField(fieldEvent, written) != fieldUnknown {
					continue // this is the member itself
				}
				res := decode(t, &d, strings.TrimSuffix(plainEvent, "}")+fmt.Sprintf(`,%q:0}`, written), Single, Policy{})
				if len(res.Rows) != 1 || res.Rows[0].Privacy != MeasurementOnly || res.Rows[0].OptimizationEligible {
					t.Fatalf("%s, %s: got %+v", name, style, res)
				}
				w := res.Warnings
				if len(w) != 1 || w[0].Code != PrivacyNotUnderstood || w[0].Field != "/"+written {
					t.Errorf("%s, %s: got warnings %+v", name, style, w)
				}
				if group.place != "" && group.place != placeMmtOnly && !strings.Contains(w[0].Message, group.place) {
					t.Errorf("%s: the message does not name %s: %s", name, group.place, w[0].Message)
				}
			}
		}
	}
}

// TestConsentNamesArePrecise holds that other names are not taken for consent names.
func TestConsentNamesArePrecise(t *testing.T) {
	names := []string{
		"lat", "is_latest", "lat_lon", "attsx", "lon", "status", "age", "id", "user_id", "order_id", "tags", "options", "settings", "data", "user_data", "attributes", "attribution",
		"attempts", "consented_at_store", "regional", "region", "usps", "gppx", "measurement", "optimization", "child_sku", "tracking_number", "tracking_url",
		"data_source", "usage", "mode", "privacy_policy_url", "terms", "npac", "sale", "sale_price", "opt", "optional", "string",
		// Parts of words, and words that stand apart.
		"attribution_id", "third_party", "coupon_page", "status_page", "thirdPartyId", "regsite", "optimizer", "adopt_out", "opt_x_out",
		"unsubscribe_gppx", "concerns", "nonconsensual", "xgdpr", "gpcö", "ＧＰＣ", "doNotSettle",
		// Documents.
		"privacy_policy", "privacyPolicyURL", "privacy-policy-version", "user_privacy_policy", "privacy_policies", "consent_form", "consentFormId", "consent.form.id",
	}
	for i := range fieldTable {
		if name := fieldTable[i].Name(); name != "privacy" && name != "mmt_only" && !strings.HasPrefix(fieldTable[i].Pointer, "/privacy/") {
			names = append(names, name)
		}
	}
	for _, name := range names {
		if place, known := consentPlace(name); known {
			t.Errorf("%s is taken for a consent name of %s", name, place)
		}
	}
	seen := map[string]bool{}
	for _, group := range consentTable {
		for _, name := range group.names {
			if name != strings.ToLower(name) || seen[name] {
				t.Errorf("%s is listed twice, or not in lower case", name)
			}
			seen[name] = true
		}
	}
}

// TestConsentNamesAreFound holds that a run of whole words is a consent name wherever it is in a name, and which place it has.
func TestConsentNamesAreFound(t *testing.T) {
	for name, want := range map[string]string{
		"marketing_opt_out": "", "privacy_flags": placePrivacy, "gppString": placeGPPString, "context.privacy": placePrivacy,
		"app_data.advertiser_tracking_enabled": "", "device.lmt": "", "ext.gpc": "",
		"user_optout": "", "emailOptOut": "", "EMAIL_OPT_OUT": "", "email opt\u00a0out": "", "x\u200bgpc": "", "g\u200bpc": "", "my_g\u200bpc": "",
		"USPrivacy": placeUSPrivacy, "theUSPrivacy": placeUSPrivacy, "x.GPPstring": placeGPPString, "IABGPP_HDR_GppString": placeGPPString,
		"IABTCF_TCString": "", "isGDPRApplicable": "", "iOSAttStatus": "", "v2Consent": placePrivacy, "consent/given": placePrivacy,
		"privacy.gpp_string": placeGPPString, "privacy_policy_opt_out": "", "consent_form_consent": placePrivacy, "privacy_gpc": placePrivacy,
		"my_mmt_only": placeMmtOnly, "mmt_only_gpc": "", "measurement_only_consent": placePrivacy,
		strings.Repeat("a_", 5000) + "gpc" + strings.Repeat("_opted", 5000): "",
	} {
		if unquoted, err := strconv.Unquote(`"` + name + `"`); err == nil {
			name = unquoted
		}
		if place, known := consentPlace(name); !known || place != want {
			t.Errorf("%.40q: got %v, place %q, want %q", name, known, place, want)
		}
	}
}

// TestConsentAtAnyDepth holds that a consent name is found in everything that is not stored, and only there.
func TestConsentAtAnyDepth(t *testing.T) {
	var d Decoder
	for member, want := range map[string][]string{
		`"ext":{"gpc":true}`:                                     {"PRIVACY_NOT_UNDERSTOOD /ext/gpc", "EXT_IGNORED /ext"},
		`"context":{"a":[{"b":{"device.lmt":1}}]}`:               {"UNKNOWN_FIELD /context", "PRIVACY_NOT_UNDERSTOOD /context/a/0/b/device.lmt"},
		`"identifiers":{"ip":"IP","idfa_att_status":3}`:          {"PRIVACY_NOT_UNDERSTOOD /identifiers/idfa_att_status"},
		`"identifiers":{"ip":"IP","x":{"gdprApplies":1}}`:        {"UNKNOWN_FIELD /identifiers/x", "PRIVACY_NOT_UNDERSTOOD /identifiers/x/gdprApplies"},
		`"regs":{"gpp":"DBAA","ext":{"us_privacy":1}}`:           {"PRIVACY_NOT_UNDERSTOOD /regs"},
		`"ext":{"regs":{"gpp":1},"dnt":0}`:                       {"PRIVACY_NOT_UNDERSTOOD /ext/regs", "PRIVACY_NOT_UNDERSTOOD /ext/dnt", "EXT_IGNORED /ext"},
		`"event_id":{"gpc":1}`:                                   {"PRIVACY_NOT_UNDERSTOOD /event_id/gpc", "EVENT_ID_IGNORED /event_id"},
		`"custom_data":{"gpc":1,"x":{"consent":0}}`:              nil,
		`"custom_data":{"gpc":1},"x":{"page":{"coupon_page":1}}`: {"UNKNOWN_FIELD /x"},
	} {
		body := plainEvent
		if strings.HasPrefix(member, `"identifiers"`) {
			body = `{"data_set_id":"spring","timestamp":` + strconv.FormatInt(testNow.Unix(), 10) + `,"event_type":"page_view"}`
			member = strings.ReplaceAll(member, "IP", "bfeb4c6192985efa05e7fa0740ac45708a515e569e7edaec7fc060ff72b44a0c")
		}
		res := decode(t, &d, strings.TrimSuffix(body, "}")+","+member+"}", Single, Policy{})
		var got []string
		outcome := Unrestricted
		for _, w := range res.Warnings {
			got = append(got, string(w.Code)+" "+w.Field)
			if w.Code == PrivacyNotUnderstood {
				outcome = MeasurementOnly
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) || len(res.Rows) != 1 || res.Rows[0].Privacy != outcome {
			t.Errorf("%s: got %q, %+v, want %q", member, got, res.Rows, want)
		}
	}
}

// TestConsentReasons holds that the explanation of an outcome names what was not understood.
func TestConsentReasons(t *testing.T) {
	d := Decoder{Explain: true}
	for member, want := range map[string][]string{
		`"gpc":true`:                                   {"privacy.not_understood"},
		`"mmtOnly":true`:                               {"privacy.not_understood"},
		`"mmt_only":true`:                              {"mmt_only"},
		`"mmt_only":true,"gpc":1`:                      {"privacy.not_understood", "mmt_only"},
		`"privacy":{"consent":"no"}`:                   {"privacy.not_understood"},
		`"privacy":{"us_privacy_string":"1YYN","x":1}`: {"us_privacy_string.OptOutSale", "privacy.not_understood"},
	} {
		res := decode(t, &d, strings.TrimSuffix(plainEvent, "}")+","+member+"}", Single, Policy{})
		if len(res.Details) != 1 || !slices.Equal(res.Details[0].Reasons, want) {
			t.Errorf("%s: got %+v, want %q", member, res.Details, want)
		}
	}
}

// TestConsentWarningsAreBounded holds that many signals that were not understood make few warnings.
func TestConsentWarningsAreBounded(t *testing.T) {
	var members strings.Builder
	for i := range 500 {
		fmt.Fprintf(&members, `"x%d":1,`, i)
	}
	var d Decoder
	res := decode(t, &d, strings.TrimSuffix(plainEvent, "}")+`,"privacy":{`+members.String()+`"y":1}}`, Single, Policy{})
	if len(res.Rows) != 1 || res.Rows[0].Privacy != MeasurementOnly || len(res.Warnings) != maxUnknownNamed+1 {
		t.Errorf("got %d rows, %d warnings", len(res.Rows), len(res.Warnings))
	}
}

// TestWarnedCountsEvents holds that an event is counted once for each code, however many warnings of it there are, and that
// only accepted events are.
func TestWarnedCountsEvents(t *testing.T) {
	var d Decoder
	one := strings.TrimSuffix(plainEvent, "}")
	body := "[" + strings.Join([]string{
		one + `,"gpc":1,"x":{"dnt":1},"y":2,"z":3}`, plainEvent, one + `,"gdpr":1}`, `{"gpc":1}`,
		one + `,"privacy":{"gpp_string":"DBABLA~DVVVAAAAAAFU","gpp_sid":[7]}}`,
	}, ",") + "]"
	for range 2 {
		res := decode(t, &d, body, Batch, Policy{})
		want := []Warned{{PrivacyNotUnderstood, 2}, {UnknownField, 1}, {GPPVersionUnknown, 1}, {PrivacySuppressed, 1}}
		if !slices.Equal(res.Warned, want) {
			t.Errorf("got %v, want %v", res.Warned, want)
		}
	}
}

// TestSuppressedRow holds that a suppressed row keeps nothing but what can be counted, whatever was in the event: it
// looks at every member of a row, so a new one cannot be forgotten, and for every form of the removed hash.
func TestSuppressedRow(t *testing.T) {
	const hash = "973dfe463ec85785f5f95af5ba3906eedb2d931c24e69824a89ea65dba4e813b"
	body := `{"data_set_id":"spring","timestamp":` + fmt.Sprint(testNow.Unix()) + `,"event_type":"custom","custom_event_name":"HASH","source":"HASH","cp_id":"HASH",
		"cp_name":"HASH","referer":"https://a.example/HASH","page_url":"https://a.example/?u=HASH","value":9.5,"currency_code":"EUR","mmt_only":true,
		"identifiers":{"email_sha256":"HASH","ifa":"HASH","ip":"HASH","partner_id":"HASH"},"id":"HASH","custom_data":{"h":"HASH","order_id":"HASH"},
		"privacy":{"gpp_string":"DBABRg~BZUBkFA","gpp_sid":[9],"us_privacy_string":"1YYN"}}`
	var d Decoder
	res := decode(t, &d, strings.ReplaceAll(body, "HASH", hash), Single, Policy{})
	if len(res.Rows) != 1 || res.Rows[0].Privacy != Suppressed {
		t.Fatalf("got %+v", res)
	}
	kept := []string{
		"EventID", "SubmissionID", "SubmissionIndex", "ReceivedAt", "DatasetID", "EventTime", "EventType", "Value", "HasValue", "CurrencyCode",
		"Privacy", "Late", "MeasurementOnly", "OptimizationEligible", "SchemaVersion",
	}
	row := reflect.ValueOf(res.Rows[0])
	for i := range row.NumField() {
		if name := row.Type().Field(i).Name; !slices.Contains(kept, name) && !row.Field(i).IsZero() {
			t.Errorf("%s is kept: %v", name, row.Field(i))
		}
	}
	raw, err := hex.DecodeString(hash)
	if err != nil {
		t.Fatal(err)
	}
	text := string(AppendJSON(nil, &res.Rows[0])) + fmt.Sprintf("%+v", res.Rows[0])
	for form, derived := range map[string]string{"digits": hash, "upper case": strings.ToUpper(hash), "bytes": string(raw), "a part": hash[:8]} {
		if strings.Contains(text, derived) {
			t.Errorf("the removed hash is in the row as %s", form)
		}
	}
}

// TestConsentPage holds the list of docs/privacy.md against the table.
func TestConsentPage(t *testing.T) {
	page, err := os.ReadFile("../docs/privacy.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range consentTable {
		place := "`" + group.place + "`"
		if group.place == "" {
			place = "no place of its own"
		}
		names := slices.Sorted(slices.Values(group.names))
		if row := "| " + place + " | `" + strings.Join(names, "`, `") + "` |\n"; !strings.Contains(string(page), row) {
			t.Errorf("docs/privacy.md lacks this row:\n%s", row)
		}
	}
}
