package rules

import (
	"strings"
	"testing"
	"time"

	"sluice/event"
)

// TestParse holds the form of an example file.
func TestParse(t *testing.T) {
	c, err := parse("name", "why: w: x\nnow: 2026-11-14T23:40:05Z\nshape: batch\npolicy: suppress\nclock: exact\nwant: 3 MISSING_FIELD /a\nwant: INVALID_TYPE\nwarn: LATE_EVENT /timestamp\nrow: 2 cp_id=\"a=b\"\n\n[{{now-1s}}]\n\n")
	if err != nil {
		t.Fatal(err)
	}
	if c.Why != "w: x" || c.Shape != event.Batch || !c.Suppress || !c.Exact || c.Now.Unix() != 1794699605 {
		t.Errorf("got %+v", c)
	}
	if len(c.Want) != 2 || c.Want[0] != (Finding{3, event.MissingField, "/a"}) || c.Want[1] != (Finding{0, event.InvalidType, ""}) {
		t.Errorf("got %v", c.Want)
	}
	if len(c.Row) != 1 || c.Row[0].Index != 2 || c.Row[0].Name != "cp_id" || c.Row[0].JSON(c.Now, "d") != `"a=b"` {
		t.Errorf("got %v", c.Row)
	}
	if got := c.Body(c.Now, "d"); got != "[1794699604]\n" {
		t.Errorf("got body %q", got)
	}
}

// TestParseRejects holds that a slip in a file is found, so that no example passes because it says nothing.
func TestParseRejects(t *testing.T) {
	const head = "why: w\nnow: 2026-11-14T23:40:05Z\n"
	for _, text := range []string{
		"why: w\nnow: 2026-11-14T23:40:05Z\n{}", "why: w\n\n{}", "now: 2026-11-14T23:40:05Z\n\n{}", head + "wont: X /a\n\n{}", head + "shape: round\n\n{}",
		head + "row: x\n\n{}", head + "now: today\n\n{}", head + "nonsense\n\n{}", head + "\n{{what}}", head + "\n{{now-1x}}", head + "\n{{now-xs}}", head + "\n{{now ys}}",
		head + "\n{{repeat a b}}", head + "\n{{byte zz}}", head + "\n{{now", head + "row: a={{what}}\n\n{}",
		head + "policy: maybe\n\n{}", head + "clock: about\n\n{}", head + "want: \n\n{}",
	} {
		if _, err := parse("x", text); err == nil {
			t.Errorf("%q: got no error", text)
		}
	}
}

// TestPlaceholders holds what placeholders stand for.
func TestPlaceholders(t *testing.T) {
	now := time.Date(2026, 11, 14, 23, 40, 5, 0, time.UTC)
	text := "{{dataset}} {{now}} {{now+2m}} {{now-1h ms}} {{now us}} {{now ns}} {{now-1d rfc3339}} {{repeat ab 3}} {{byte 00ff}} {{open}}x}}"
	want := "d 1794699605 1794699725 1794696005000 1794699605000000 1794699605000000000 2026-11-13T23:40:05Z ababab \x00\xff {{x}}"
	got, err := expand(text, now, "d")
	if err != nil || got != want {
		t.Errorf("got %q, %v\nwant %q", got, err, want)
	}
}

// TestCases holds that every example can be read and says what it expects of codes that exist.
func TestCases(t *testing.T) {
	cases, err := Cases()
	if err != nil {
		t.Fatal(err)
	}
	known := map[event.Code]bool{"": true}
	for _, info := range event.Codes() {
		known[info.Code] = true
	}
	for _, c := range cases {
		if !known[c.Request] {
			t.Errorf("%s: unknown code %q", c.Name, c.Request)
		}
		for _, f := range append(c.Want, c.Warn...) {
			if !known[f.Code] || f.Field != "" && !strings.HasPrefix(f.Field, "/") {
				t.Errorf("%s: unknown code or pointer: %v", c.Name, f)
			}
		}
		if c.Request != "" && len(c.Want)+len(c.Warn)+len(c.Row) > 0 {
			t.Errorf("%s: a request that is rejected has no findings of its own", c.Name)
		}
	}
}
