package convert

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/event"
)

const hash = "8e43ca37701228e74983efdbd0cff5c16b3b1e5d4e29a7c05626d4d25a018e11"

// bodies are one event of each platform without a consent field. A word after an at sign is a place for
// more members.
var bodies = map[string]string{
	"meta": `{"data":[{"event_name":"Purchase","event_time":1794657600,"action_source":"app","user_data":{"em":["` + hash + `"]@USER},"app_data":{"extinfo":["i2"]@APP}@EVENT}]@REQUEST}`,
	"ga4": `{"client_id":"c.1","timestamp_micros":"1794657600123456","user_data":{"sha256_email_address":["` + hash + `"]@USER},
		"consent":{"ad_user_data":"GRANTED"@CONSENT},"events":[{"name":"purchase","params":{"value":1,"currency":"EUR"}@EVENT}]@REQUEST}`,
	"tiktok": `{"event_source":"app","event_source_id":"x","data":[{"event":"Purchase","event_time":1794657600,"user":{"email":"` + hash + `"@USER},"app":{"app_id":"1"@APP}@EVENT}]@REQUEST}`,
	"snap":   `{"data":[{"event_name":"PURCHASE","event_time":1794657600000,"user_data":{"em":["` + hash + `"]@USER},"app_data":{"app_id":"1"@APP}@EVENT}]@REQUEST}`,
	"ecapi":  `{"data_set_id":"spring","timestamp":1794657600000,"event_type":"purchase","user_data":{"email_addresses":["` + hash + `"]@USER},"ext":{}@EVENT}`,
}

// with puts members into the places of a body.
func with(platform string, places map[string]string) string {
	body := bodies[platform]
	for _, place := range []string{"EVENT", "REQUEST", "USER", "APP", "CONSENT"} {
		member := places[place]
		if member != "" {
			member = "," + member
		}
		body = strings.ReplaceAll(body, "@"+place, member)
	}
	return body
}

func convert(t *testing.T, platform, body string) (c *Converter, out Outcome) {
	t.Helper()
	c = New(platform, Options{Dataset: "spring", Now: func() time.Time { return time.Unix(1794657600, 0) }})
	list := c.Body([]byte(body))
	if len(list) != 1 {
		t.Fatalf("%s: got %d events, want 1", platform, len(list))
	}
	return c, list[0]
}

func restricted(t *testing.T, out Outcome) bool {
	t.Helper()
	if out.Fault != nil {
		t.Fatalf("got %v", out.Fault)
	}
	var e struct {
		Only bool `json:"mmt_only"`
	}
	if err := json.Unmarshal(out.Event, &e); err != nil {
		t.Fatal(err)
	}
	return e.Only
}

// TestNoConsentField holds that a platform's plain event is neither restricted nor incomplete.
func TestNoConsentField(t *testing.T) {
	for platform := range bodies {
		c, out := convert(t, platform, with(platform, nil))
		if restricted(t, out) || len(c.Restricted) > 0 {
			t.Errorf("%s: restricted by %v: %s", platform, c.Restricted, out.Event)
		}
		if !strings.Contains(string(out.Event), `"timestamp":1794657600,`) && !strings.Contains(string(out.Event), `"timestamp":1794657600}`) {
			t.Errorf("%s: got %s", platform, out.Event)
		}
		for name := range c.Dropped {
			if strings.HasPrefix(name, "ext") {
				t.Errorf("%s: %s is said to be left out", platform, name)
			}
		}
	}
}

// TestConsentFields goes through the consent fields of each platform's documentation: which value restricts the event,
// which does not, and under which name the converter reports it.
func TestConsentFields(t *testing.T) {
	type field struct {
		place, member string
		path          string   // as it is reported
		deny, permit  []string // values
	}
	flag := func(place, member, path string) field {
		return field{place, member, path, []string{"true", "1", `"true"`, `["LDU"]`, `"yes"`, `{"a":1}`}, []string{"false", "0", "null", "[]", `""`, `"false"`, "{}"}}
	}
	enabled := func(place, member, path string) field {
		return field{place, member, path, []string{"false", "0", `"false"`, `"0"`, "[]", "{}", "2"}, []string{"true", "1", `"1"`, `"true"`, "null"}}
	}
	att := func(place, member, path string) field {
		return field{place, member, path, []string{`"DENIED"`, `"NOT_DETERMINED"`, `"RESTRICTED"`, "0", "1", "2", `"unknown"`, "true"}, []string{`"AUTHORIZED"`, `"authorized"`, "3", `"NOT_APPLICABLE"`, "null"}}
	}
	granted := func(place, member, path string) field {
		return field{place, member, path, []string{`"DENIED"`, `"denied"`, `"UNSPECIFIED"`, "true", "0"}, []string{`"GRANTED"`, `"granted"`, "null"}}
	}
	for platform, fields := range map[string][]field{
		"meta": {
			flag("EVENT", "opt_out", "opt_out"), flag("EVENT", "data_processing_options", "data_processing_options"),
			enabled("APP", "advertiser_tracking_enabled", "app_data.advertiser_tracking_enabled"),
			enabled("APP", "application_tracking_enabled", "app_data.application_tracking_enabled"),
			enabled("USER", "advertiser_tracking_enabled", "user_data.advertiser_tracking_enabled"),
		},
		"snap": {
			flag("EVENT", "data_processing_options", "data_processing_options"), flag("EVENT", "data_use", "data_use"), flag("EVENT", "opt_out", "opt_out"),
			enabled("APP", "advertiser_tracking_enabled", "app_data.advertiser_tracking_enabled"),
			enabled("APP", "application_tracking_enabled", "app_data.application_tracking_enabled"),
			att("APP", "att_status", "app_data.att_status"),
		},
		"tiktok": {
			flag("EVENT", "limited_data_use", "limited_data_use"), flag("REQUEST", "limited_data_use", "limited_data_use"),
			att("USER", "att_status", "user.att_status"), att("APP", "att_status", "app.att_status"), att("EVENT", "att_status", "att_status"),
		},
		"ga4": {
			granted("CONSENT", "ad_personalization", "consent.ad_personalization"), granted("CONSENT", "ad_storage", "consent.ad_storage"),
			granted("CONSENT", "analytics_storage", "consent.analytics_storage"),
			flag("REQUEST", "non_personalized_ads", "non_personalized_ads"),
		},
		"ecapi": {
			flag("EVENT", "opt_out", "opt_out"), flag("USER", "opt_out", "user_data.opt_out"), flag("USER", "mmt_only", "user_data.mmt_only"),
			flag("USER", "lmt", "user_data.lmt"), flag("EVENT", "mmt_only", "mmt_only"), att("USER", "att_status", "user_data.att_status"),
		},
	} {
		for _, f := range fields {
			for _, value := range f.deny {
				c, out := convert(t, platform, with(platform, map[string]string{f.place: fmt.Sprintf("%q:%s", f.member, value)}))
				if !restricted(t, out) || c.Restricted[f.path] != 1 || len(c.Restricted) != 1 {
					t.Errorf("%s: %s is %s: got %v, %s, want the event restricted by it", platform, f.path, value, c.Restricted, out.Event)
				}
			}
			for _, value := range f.permit {
				c, out := convert(t, platform, with(platform, map[string]string{f.place: fmt.Sprintf("%q:%s", f.member, value)}))
				if restricted(t, out) || len(c.Restricted) > 0 {
					t.Errorf("%s: %s is %s: restricted by %v", platform, f.path, value, slices.Collect(maps.Keys(c.Restricted)))
				}
			}
		}
	}
}

// TestUnknownConsentField holds that a consent field which the table does not have restricts the event, wherever it is.
func TestUnknownConsentField(t *testing.T) {
	for platform := range bodies {
		for place, path := range map[string]string{"EVENT": "us_privacy", "REQUEST": "us_privacy", "USER": "", "APP": "", "CONSENT": ""} {
			if !strings.Contains(bodies[platform], "@"+place) {
				continue
			}
			c, out := convert(t, platform, with(platform, map[string]string{place: `"us_privacy":"1YYN"`}))
			if !restricted(t, out) || len(c.Restricted) != 1 || path != "" && c.Restricted[path] != 1 {
				t.Errorf("%s, %s: got %v, %s", platform, place, c.Restricted, out.Event)
			}
		}
	}
	for _, member := range []string{`"privacy":{"a":{"b":[{"c":1}]}}`, `"x":[{"y":{"GDPR-Consent":"CO"}}]`, `"custom_data":{"gpc":true}`, `"optOut":0`} {
		c, out := convert(t, "meta", with("meta", map[string]string{"EVENT": member}))
		if !restricted(t, out) || len(c.Restricted) != 1 {
			t.Errorf("%s: got %v, %s", member, c.Restricted, out.Event)
		}
	}
}

// TestDenied holds that ad_user_data DENIED leaves the event out, and that a doubtful value restricts it.
func TestDenied(t *testing.T) {
	body := strings.Replace(with("ga4", nil), `"ad_user_data":"GRANTED"`, `"ad_user_data":"Denied"`, 1)
	c, out := convert(t, "ga4", body)
	if out.Fault == nil || out.Fault.Code != consentDenied || out.Fault.Field != "/consent/ad_user_data" || len(c.Restricted) > 0 {
		t.Errorf("got %+v, %v", out, c.Restricted)
	}
	body = strings.Replace(with("ga4", nil), `"ad_user_data":"GRANTED"`, `"ad_user_data":"UNSPECIFIED"`, 1)
	if _, out := convert(t, "ga4", body); !restricted(t, out) {
		t.Errorf("got %s", out.Event)
	}
}

// TestTikTokOne2 converts a body of version 1.2, alone and in a batch.
func TestTikTokOne2(t *testing.T) {
	one := `{"pixel_code":"x","event":"CompletePayment","event_id":"e1","timestamp":"2026-11-14T12:00:00Z","context":{"page":{"url":"https://a.example/","referrer":"https://b.example/"},
		"user":{"email":"` + hash + `","external_id":"u1","phone_number":"p"},"user_agent":"x"},"properties":{"value":2,"currency":"USD","order":"7"}}`
	for name, body := range map[string]string{"alone": one, "batch": `{"pixel_code":"x","batch":[` + one + `]}`} {
		c, out := convert(t, "tiktok", body)
		if out.Fault != nil {
			t.Fatalf("%s: %v", name, out.Fault)
		}
		want := `{"currency_code":"USD","custom_data":{"event_id":"e1","order":"7"},"data_set_id":"spring","event_type":"purchase","identifiers":{"email_sha256":"` + hash +
			`","partner_id":"u1"},"page_url":"https://a.example/","referer":"https://b.example/","timestamp":1794657600,"value":2}`
		if string(out.Event) != want {
			t.Errorf("%s: got\n%s, want\n%s", name, out.Event, want)
		}
		if c.Dropped["context.user.phone_number"] != 1 || c.Dropped["context.user_agent"] != 1 {
			t.Errorf("%s: got left out %v", name, c.Dropped)
		}
	}
}

// TestEveryConsentNameIsHandled holds that a move from a consent name has an effect on consent, or is known to have none.
func TestEveryConsentNameIsHandled(t *testing.T) {
	for i := range platforms {
		for _, m := range platforms[i].moves {
			name := m.from[strings.LastIndexAny(m.from, ".^")+1:]
			signal := m.to == "gpp_string" || m.to == "gpp_sid" || m.to == "us_privacy_string"
			if event.IsConsentName(name) && m.to != "mmt_only" && !signal && m.as != asNothing {
				t.Errorf("%s: %s has a consent name, and moves as %s", platforms[i].name, m.from, m.as)
			}
		}
	}
}

// TestDuplicates holds that a refusal cannot be hidden behind a second member of the same name.
func TestDuplicates(t *testing.T) {
	for _, member := range []string{`"opt_out":true,"opt_out":false`, `"a":[{"b":{"c":1,"c":2}}]`, `"a":1e999,"opt_out":true,"opt_out":false`} {
		if _, out := convert(t, "meta", with("meta", map[string]string{"EVENT": member})); out.Fault == nil || out.Fault.Code != event.DuplicateField {
			t.Errorf("%s: got %+v", member, out)
		}
	}
	if _, out := convert(t, "meta", with("meta", map[string]string{"EVENT": `"a":{"x":"x","y":["x","x"]},"b":{"x":{"x":1}}`})); out.Fault != nil {
		t.Errorf("got %v", out.Fault)
	}
}
