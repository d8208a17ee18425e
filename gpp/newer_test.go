package gpp_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/gpp"
)

// sectionOf is a string with one section of any text.
func sectionOf(t *testing.T, id int, text string) string {
	t.Helper()
	header := map[int]string{gpp.TCFEUv2: "DBABMA", gpp.TCFCAv1: "DBABDA"}[id]
	for _, l := range allLayouts {
		if l.ID == id {
			whole, err := gpp.Encode(neutral(l))
			if err != nil {
				t.Fatal(err)
			}
			header, _, _ = strings.Cut(whole, "~")
		}
	}
	return header + "~" + text
}

// TestNewerVersions tries every first character of every section: what is newer is kept, what is not is read or rejected.
func TestNewerVersions(t *testing.T) {
	newest := map[int]int{gpp.TCFEUv2: 2, gpp.TCFCAv1: 2}
	for _, l := range allLayouts {
		newest[l.ID] = l.Version // usnat's second layout comes after its first
	}
	for id, newest := range newest {
		for version := range 64 {
			text := sectionOf(t, id, characters(field(version, 6))+"AAAAAAAAAAAAAAA")
			g, err := gpp.Parse(text)
			header := version == id && id >= gpp.USNat && id < gpp.USMD
			want := version > newest && version <= newest+8 || header
			if got := err == nil && g.Section(id).Newer(); got != want {
				t.Errorf("%s: newer is %v, want %v; %v", text, got, want, err)
			}
			if !want {
				continue
			}
			if s := g.Section(id); !s.Opaque() || !header && s.Version() != version || string(g.AppendJSON(nil)) != "{}" {
				t.Errorf("%s: got version %d, %s", text, s.Version(), g.AppendJSON(nil))
			}
			if d := g.Decide([]int32{int32(id)}); d.Outcome != gpp.Suppressed || !d.Newer {
				t.Errorf("%s in force: got %v", text, d.Verdict)
			}
			if d := g.Decide([]int32{gpp.NoSection}); d.Outcome != gpp.Unrestricted || !d.Newer {
				t.Errorf("%s not in force: got %v", text, d.Verdict)
			}
		}
	}
}

// TestNewerForms holds which version a newer section is said to have, and that what is broken stays so.
func TestNewerForms(t *testing.T) {
	for text, want := range map[string]string{
		"DBABLA~HDABY.FgAk.YA":                 "usnat: version 3", // the form of the proposal
		"DBABLA~HVVVAAAAAAFU":                  "usnat: version 7",
		"DBABLA~HVVVAAAAAAFU.YA":               "usnat: version 7",
		"DBABQw~OBAA.BVVV":                     "usmt: version 1",
		"DBABQw~O":                             "usmt: version 0",
		"DBABEYA~YCAA.BVVg":                    "usmd: version 2",
		"DBABEYA~YC":                           "usmd: version 2",
		"DBABEYA~YBAA.DVVg":                    "usmd: version 3",
		"DBABUYA~JVVV":                         "usin: version 9",
		"DBABUYA~J":                            "usin: version 9",
		"DBABh4A~BUoAAACA~CVkAACA":             "usva: version 2",
		"DBABEYA~Y":                            "",
		"DBABEYA~YAAA.BVVg":                    "",
		"DBABEYA~YKAA.BVVg":                    "",
		"DBABEYA~YBAA.DVVg.YA":                 "",
		"DBABh4A~BUoAAAC_~CVkAACA":             "",
		"DBABh4A~AUoAAACA~CVkAACA":             "",
		"DBABh4A~BUoAAACA~CVkAACA.":            "",
		"DBABTA~2YNN":                          "",
		"DBABDA~CQLRckAQLRckAQH4hQENasCIMn4le": "",
	} {
		g, err := gpp.Parse(text)
		if err != nil {
			if want != "" {
				t.Errorf("%s: got %v, want %s", text, err, want)
			}
			continue
		}
		var newer []string
		for s := range g.Sections() {
			if s.Newer() {
				newer = append(newer, fmt.Sprintf("%s: version %d", s.Name(), s.Version()))
			}
		}
		if !slices.Equal(newer, []string{want}) {
			t.Errorf("%s: got %q, want %q", text, newer, want)
		}
	}
}

// TestDisclosedVendors holds the edge of TCF 2.3, where the section is in force and where it is not.
func TestDisclosedVendors(t *testing.T) {
	edge := int(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC).UnixMilli() / 100)
	vendors := field(0, 17)
	for _, c := range []struct {
		created   int
		disclosed bool
		want      gpp.Outcome
	}{
		{edge - 1, false, gpp.Unrestricted},
		{edge - 1, true, gpp.Unrestricted},
		{edge, false, gpp.Suppressed},
		{edge, true, gpp.Unrestricted},
		{1<<36 - 1, false, gpp.Suppressed},
	} {
		core := tcCore(2)
		text := "DBACNYA~" + characters(core[:6]+field(c.created, 36)+core[42:]+vendors+vendors+field(0, 12))
		if c.disclosed {
			text += "." + characters(field(1, 3)+vendors)
		}
		g, err := gpp.Parse(text + "~1YNN")
		if err != nil {
			t.Fatal(err)
		}
		d := g.Decide([]int32{gpp.TCFEUv2})
		if d.Outcome != c.want || d.Undisclosed != (c.want == gpp.Suppressed) {
			t.Errorf("%+v: got %+v", c, d.Verdict)
		}
		if c.want == gpp.Suppressed && !slices.Equal(d.Reasons(), []string{"tcfeuv2.VendorsDisclosed"}) {
			t.Errorf("%+v: got reasons %q", c, d.Reasons())
		}
		if d := g.Decide([]int32{gpp.USPv1}); d.Outcome != gpp.Unrestricted || d.Undisclosed {
			t.Errorf("%+v, not in force: got %+v", c, d.Verdict)
		}
	}
}

// TestMspaVersion holds that sections 24 to 27 are read alike whatever the MspaVersion is, and that one that nobody has
// defined is no permission.
func TestMspaVersion(t *testing.T) {
	for _, l := range allLayouts {
		if l.ID < gpp.USMD {
			continue
		}
		for version := range 64 {
			if version > 1 && version < 10 || version >= gpp.USMD && version <= gpp.USRI {
				continue // newer, or a section header
			}
			for field, want := range map[string]gpp.Outcome{
				"MspaVersion": gpp.Unrestricted, "SaleOptOut": gpp.MeasurementOnly,
				"KnownChildSensitiveDataConsents": gpp.Suppressed,
			} {
				us := neutral(l)
				us.Version = version
				if values := us.Values[field]; values != nil {
					values[0] = 1
				} else if field != "MspaVersion" {
					continue
				} else if version > 1 {
					want = gpp.MeasurementOnly
				}
				text, err := gpp.Encode(us)
				if err != nil {
					t.Fatal(err)
				}
				g, err := gpp.Parse(text)
				if err != nil {
					t.Fatalf("%s: %v", text, err)
				}
				var reasons []string
				if want != gpp.Unrestricted {
					reasons = []string{gpp.SectionName(l.ID) + "." + field}
				}
				s, d := g.Section(l.ID), g.Decide([]int32{int32(l.ID)})
				if s.Version() != version || s.Opaque() || s.UnknownMspa() != (version > 1) || d.UnknownMspa != s.UnknownMspa() ||
					d.Outcome != want || !slices.Equal(d.Reasons(), reasons) {
					t.Errorf("%s: got version %d, %+v, %q", text, s.Version(), d.Verdict, d.Reasons())
				}
				if d := g.Decide([]int32{gpp.NoSection}); d.Outcome != gpp.Unrestricted || d.UnknownMspa != (version > 1) {
					t.Errorf("%s not in force: got %+v", text, d.Verdict)
				}
			}
		}
	}
}
