package measure

import (
	"strings"
	"testing"
	"time"
)

func TestSettings(t *testing.T) {
	for name, change := range map[string]func(*Settings){
		"no types":            func(s *Settings) { s.ConversionTypes = nil },
		"an unknown type":     func(s *Settings) { s.ConversionTypes = []string{"Purchase"} },
		"custom":              func(s *Settings) { s.ConversionTypes = []string{"custom"} },
		"custom without name": func(s *Settings) { s.ConversionTypes = []string{"custom: "} },
		"a line in a name":    func(s *Settings) { s.ConversionTypes = []string{"custom:a\nb"} },
		"refund":              func(s *Settings) { s.ConversionTypes = []string{"refund"} },
		"twice":               func(s *Settings) { s.ConversionTypes = []string{"purchase", "purchase"} },
		"no window":           func(s *Settings) { s.Window = 0 },
		"half a second":       func(s *Settings) { s.Window = time.Second / 2 },
		"a longer window":     func(s *Settings) { s.Window = maxWindow + time.Second },
		"nobody":              func(s *Settings) { s.HouseholdMax = 0 },
		"no zone":             func(s *Settings) { s.TimeZone = "" },
		"an unknown zone":     func(s *Settings) { s.TimeZone = "Europe/Atlantis" },
		"the machine's zone":  func(s *Settings) { s.TimeZone = "Local" },
		"the same, as a file": func(s *Settings) { s.TimeZone = "localtime" },
		"the machine's rules": func(s *Settings) { s.TimeZone = "posixrules" },
		"a copy of the list":  func(s *Settings) { s.TimeZone = "posix/Europe/Berlin" },
		"leap seconds":        func(s *Settings) { s.TimeZone = "right/Europe/Berlin" },
		"no events":           func(s *Settings) { s.Events = "" },
		"a statement":         func(s *Settings) { s.Events = "events; DROP TABLE x" },
		"a query":             func(s *Settings) { s.Impressions = "(SELECT 1)" },
		"an open quote":       func(s *Settings) { s.Impressions = `"log` },
	} {
		s := Defaults()
		change(&s)
		if s.Validate() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	s := Defaults()
	s.ConversionTypes = []string{"custom:it's", "view_item_list"}
	s.TimeZone, s.Window, s.Events, s.Impressions = "America/Argentina/Buenos_Aires", time.Second, "lake.`my schema`.events", `"my log"`
	if err := s.Validate(); err != nil {
		t.Error(err)
	}
}

func TestParseWindow(t *testing.T) {
	for text, want := range map[string]time.Duration{"30d": 720 * time.Hour, "365d": maxWindow, "12h": 12 * time.Hour, "90s": 90 * time.Second} {
		if got, err := ParseWindow(text); err != nil || got != want {
			t.Errorf("%s: got %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "d", "0d", "-1d", "366d", "1.5d", "30", "30 d"} {
		if got, err := ParseWindow(text); err == nil {
			t.Errorf("%q: got %v, want an error", text, got)
		}
	}
}

// Every dialect has every view, in an order in which they can be made, and what a sender named is quoted.
func TestStatements(t *testing.T) {
	s := Defaults()
	s.ConversionTypes = append(s.ConversionTypes, `custom:it's \ here`)
	for _, name := range DialectNames() {
		for _, log := range []string{"", "ad_log"} {
			s.Impressions = log
			d, _ := LookupDialect(name)
			text, err := Statements(d, s)
			if err != nil {
				t.Fatal(err)
			}
			at := 0
			for _, view := range Names() {
				next := strings.Index(text, " VIEW "+view+" AS\n")
				if next < at {
					t.Errorf("%s: %s is not there, or too early", name, view)
				}
				at = next
			}
			quoted := map[string]string{"duckdb": `'it''s \ here'`, "trino": `'it''s \ here'`, "spark": `'it\'s \\ here'`, "snowflake": `'it''s \\ here'`}[name]
			if !strings.Contains(text, quoted) {
				t.Errorf("%s: %s is not in the text", name, quoted)
			}
			for _, wrong := range []string{"{{", "%!", "<no value>", "(  )", "\n\n\n"} {
				if strings.Contains(text, wrong) {
					t.Errorf("%s: %q is in the text", name, wrong)
				}
			}
			if log == "" && strings.Contains(text, "ad_log") || log != "" && (!strings.Contains(text, "FROM ad_log") || strings.Contains(text, "'ad_impression'")) {
				t.Errorf("%s: the impressions are not those of %q", name, log)
			}
		}
	}
}
