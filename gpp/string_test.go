package gpp_test

import (
	"testing"

	"sluice/gpp"
)

// One String reads all vectors one after the other and says what a fresh one says.
func TestStringParseAgain(t *testing.T) {
	var g gpp.String
	for _, v := range vectors(t) {
		fresh, want := gpp.Parse(v.GPPString)
		err := g.Parse(v.GPPString)
		if (err == nil) != (want == nil) || err != nil && err.Error() != want.Error() {
			t.Errorf("%s: got %v, want %v", v.ID, err, want)
		}
		if err != nil {
			if len(g.IDs()) != 0 || g.Text() != "" || string(g.AppendJSON(nil)) != "{}" {
				t.Errorf("%s: got sections %v after an error", v.ID, g.IDs())
			}
			continue
		}
		if got, want := string(g.AppendJSON(nil)), string(fresh.AppendJSON(nil)); got != want {
			t.Errorf("%s:\n got %s\nwant %s", v.ID, got, want)
		}
		if got, want := g.Decide([]int32{0}).Outcome, fresh.Decide([]int32{0}).Outcome; got != want {
			t.Errorf("%s: got %v, want %v", v.ID, got, want)
		}
	}
}

func TestAllocations(t *testing.T) {
	usnat, tc := "DBABLA~CVVligkSIQBY.YA", tc800(true)
	sids := []int32{gpp.USNat}
	var again gpp.String
	for name, c := range map[string]struct {
		most float64
		f    func()
	}{
		"parse usnat": {1, func() { _, _ = gpp.Parse(usnat) }},
		"parse and decide": {1, func() {
			g, _ := gpp.Parse(usnat)
			_ = g.Decide(sids)
		}},
		"parse two sections":  {2, func() { _, _ = gpp.Parse(freeNatVA) }},
		"parse 800 vendors":   {2, func() { _, _ = gpp.Parse(tc) }},
		"parse again":         {0, func() { _ = again.Parse(usnat) }},
		"parse vendors again": {0, func() { _ = again.Parse(tc) }},
		"parse a us_privacy":  {0, func() { _, _ = gpp.ParseUSPrivacy("1YNN") }},
		"reject a us_privacy": {0, func() { _, _ = gpp.ParseUSPrivacy("2YNN") }},
	} {
		if got := testing.AllocsPerRun(100, c.f); got > c.most {
			t.Errorf("%s: got %v allocations, want at most %v", name, got, c.most)
		}
	}
}

func TestSectionAccess(t *testing.T) {
	g, err := gpp.Parse("DBABLA~CVVligkSIQBY.YA")
	if err != nil {
		t.Fatal(err)
	}
	s := g.Section(gpp.USNat)
	if s == nil || s.Version() != 2 || s.Text() != "CVVligkSIQBY.YA" || s.Opaque() || s.TCF() != nil {
		t.Fatalf("got %+v", s)
	}
	if v := s.Values("SensitiveDataProcessing"); len(v) != 16 || v[0] != 2 || v[15] != 1 {
		t.Errorf("got sensitive data %v", v)
	}
	if v, ok := s.Value("Version"); !ok || v != 2 {
		t.Errorf("got version %d, %v", v, ok)
	}
	if _, ok := s.Value("MspaMode"); ok {
		t.Error("usnat has no MspaMode")
	}
	if _, ok := s.USPrivacy(); ok {
		t.Error("usnat is no us_privacy string")
	}
	for _, id := range []int{-1, 0, 6, 8, 63, 64, 1 << 20} {
		if g.Section(id) != nil {
			t.Errorf("got section %d, which is not there", id)
		}
	}
	for id, want := range map[int]string{2: "tcfeuv2", 5: "tcfcav1", 6: "uspv1", 7: "usnat", 27: "usri", 28: "28"} {
		if got := gpp.SectionName(id); got != want {
			t.Errorf("%d: got name %s, want %s", id, got, want)
		}
	}
}

// A string that says version 1 and has the layout of version 2 keeps all its values.
func TestMislabelledUSNat(t *testing.T) {
	g, err := gpp.Parse("DBABLA~BAAAAAAAAQRA.QA")
	if err != nil {
		t.Fatal(err)
	}
	s := g.Section(gpp.USNat)
	if v := s.Values("KnownChildSensitiveDataConsents"); s.Version() != 1 || len(v) != 3 || v[2] != 1 {
		t.Errorf("got version %d, known child %v, want 1 and the third value", s.Version(), v)
	}
	if s.Outcome() != gpp.Suppressed {
		t.Errorf("got %v, want suppressed for the third value", s.Outcome())
	}
}
