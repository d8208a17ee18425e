package gpp_test

import (
	"slices"
	"testing"

	"sluice/gpp"
)

// Strings with one known outcome each.
const (
	freeNat     = "DBABLA~CAAAAAAAAABA"                                                   // usnat, unrestricted
	optedOutNat = "DBABLA~CVVligkSIQBY.YA"                                                // usnat, measurement only
	childUtah   = "DBABFg~BVBAABE"                                                        // usut, suppressed
	freeNatVA   = "DBACLMA~BAAAAAAAAQA~BAAAABA"                                           // usnat and usva, unrestricted
	sample      = "DBACNYA~CPXxRfAPXxRfAAfKABENB-CgAAAAAAAAAAYgAAAAAAAA~1YNN"             // tcfeuv2 suppressed, uspv1 free
	empty       = "DBAA"                                                                  //
	unknown     = "DBABKYA~BAAA"                                                          // section 28
	integrity   = "DBACWMA~BAAA~BAAAAAAAAAA.QA"                                           // sections 4 and 7
	canadaWrong = "DBABjw~CPXxRfAPXxRfAAfKABENB-CgAAAAAAAAAAYgAAAAAAAA~1YNN"              // section 5 opaque, uspv1 free
	measureEU   = "DBABMA~COoC-kUOoC-kUAHABAENAwCoAIAAAELAAAwIF5wAoAAgAGAvMACX_ABBAAQAFA" // tcfeuv2, measurement only
)

func TestDecide(t *testing.T) {
	for _, c := range []struct {
		name              string
		text              string
		sids              []int32
		want              gpp.Outcome
		mismatch, ignored bool
		many              bool
		reasons           []string
	}{
		{
			name: "in force", text: optedOutNat, sids: []int32{7}, want: gpp.MeasurementOnly,
			reasons: []string{"usnat.SharingOptOut", "usnat.TargetedAdvertisingOptOut", "usnat.Gpc"},
		},
		{name: "nothing in force", text: childUtah, sids: []int32{-1}, want: gpp.Unrestricted},
		{name: "nothing in force, twice", text: childUtah, sids: []int32{-1, -1}, want: gpp.Unrestricted},
		{
			name: "undetermined", text: childUtah, sids: []int32{0}, want: gpp.Suppressed,
			reasons: []string{"usut.KnownChildSensitiveDataConsents"},
		},
		{
			name: "none and undetermined", text: childUtah, sids: []int32{-1, 0}, want: gpp.Suppressed,
			reasons: []string{"usut.KnownChildSensitiveDataConsents"},
		},
		{
			name: "none beside a section", text: childUtah, sids: []int32{-1, 11}, want: gpp.Suppressed, ignored: true,
			reasons: []string{"usut.KnownChildSensitiveDataConsents"},
		},
		{name: "undetermined beside a section", text: freeNat, sids: []int32{0, 7}, want: gpp.Unrestricted, ignored: true},
		{name: "the header and integrity, left out", text: freeNat, sids: []int32{3, 4, 7}, want: gpp.Unrestricted, ignored: true},
		{
			name: "nothing but the header", text: optedOutNat, sids: []int32{3}, want: gpp.MeasurementOnly, ignored: true,
			reasons: []string{"usnat.SharingOptOut", "usnat.TargetedAdvertisingOptOut", "usnat.Gpc"},
		},
		{
			name: "the header and none", text: childUtah, sids: []int32{3, -1}, want: gpp.Suppressed, ignored: true,
			reasons: []string{"usut.KnownChildSensitiveDataConsents"},
		},
		{name: "twice", text: freeNat, sids: []int32{7, 7, 7}, want: gpp.Unrestricted},
		{name: "two, and what is no section", text: freeNatVA, sids: []int32{7, 9, 7, 3, -1}, want: gpp.Unrestricted, ignored: true},
		{
			name: "more than two", text: freeNatVA, sids: []int32{7, 9, 12}, want: gpp.MeasurementOnly, mismatch: true, many: true,
			reasons: []string{gpp.ReasonMismatch},
		},
		{name: "only what is in force", text: sample, sids: []int32{6}, want: gpp.Unrestricted},
		{
			name: "all in force", text: sample, sids: []int32{2, 6}, want: gpp.Suppressed,
			reasons: []string{"tcfeuv2.PurposeConsents.1"},
		},
		{
			name: "one is missing", text: freeNatVA, sids: []int32{7, 12}, want: gpp.MeasurementOnly, mismatch: true,
			reasons: []string{gpp.ReasonMismatch},
		},
		{
			name: "one is missing, the other suppresses", text: childUtah, sids: []int32{7, 11}, want: gpp.Suppressed, mismatch: true,
			reasons: []string{"usut.KnownChildSensitiveDataConsents", gpp.ReasonMismatch},
		},
		{
			name: "all are missing", text: freeNat, sids: []int32{8}, want: gpp.MeasurementOnly, mismatch: true,
			reasons: []string{gpp.ReasonMismatch},
		},
		{
			name: "the published sample", text: sample, sids: []int32{7}, want: gpp.Suppressed, mismatch: true,
			reasons: []string{"tcfeuv2.PurposeConsents.1", gpp.ReasonMismatch},
		},
		{name: "empty, none", text: empty, sids: []int32{-1}, want: gpp.Unrestricted},
		{name: "empty, undetermined", text: empty, sids: []int32{0}, want: gpp.Unrestricted},
		{
			name: "empty, a section", text: empty, sids: []int32{7}, want: gpp.MeasurementOnly, mismatch: true,
			reasons: []string{gpp.ReasonMismatch},
		},
		{name: "opaque", text: unknown, sids: []int32{28}, want: gpp.Suppressed, reasons: []string{"28.unreadable"}},
		{name: "opaque, none in force", text: unknown, sids: []int32{-1}, want: gpp.Unrestricted},
		{name: "opaque, undetermined", text: unknown, sids: []int32{0}, want: gpp.Suppressed, reasons: []string{"28.unreadable"}},
		{
			name: "integrity is there and listed", text: integrity, sids: []int32{4, 7}, want: gpp.Suppressed,
			reasons: []string{"4.unreadable", "usnat.MspaCoveredTransaction"},
		},
		{
			name: "integrity is there, not listed", text: integrity, sids: []int32{7}, want: gpp.MeasurementOnly,
			reasons: []string{"usnat.MspaCoveredTransaction"},
		},
		{
			name: "integrity is there, undetermined", text: integrity, sids: []int32{0}, want: gpp.MeasurementOnly,
			reasons: []string{"usnat.MspaCoveredTransaction"},
		},
		{name: "Canada, unreadable", text: canadaWrong, sids: []int32{5}, want: gpp.Suppressed, reasons: []string{"tcfcav1.unreadable"}},
		{
			name: "Europe, measurement", text: measureEU, sids: []int32{2}, want: gpp.MeasurementOnly,
			reasons: []string{"tcfeuv2.PurposeConsents.3", "tcfeuv2.PurposeConsents.4"},
		},
		{
			name: "a withdrawn section", text: freeNat, sids: []int32{1}, want: gpp.MeasurementOnly, mismatch: true,
			reasons: []string{gpp.ReasonMismatch},
		},
		{name: "no list at all", text: childUtah, want: gpp.Suppressed, reasons: []string{"usut.KnownChildSensitiveDataConsents"}},
	} {
		g, err := gpp.Parse(c.text)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		d := g.Decide(c.sids)
		if d.Outcome != c.want || d.Mismatch != c.mismatch || d.Ignored != c.ignored || d.Many != c.many ||
			!slices.Equal(d.Reasons(), c.reasons) {
			t.Errorf("%s: got %v, mismatch %v, ignored %v, %v, want %v, %v, %v, %v", c.name,
				d.Outcome, d.Mismatch, d.Ignored, d.Reasons(), c.want, c.mismatch, c.ignored, c.reasons)
		}
	}
}

func TestSignalsMostRestrictiveWins(t *testing.T) {
	parse := func(s string) *gpp.String {
		g, err := gpp.Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	usp := func(s string) gpp.USPrivacy {
		p, err := gpp.ParseUSPrivacy(s)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	for _, c := range []struct {
		name    string
		signals gpp.Signals
		want    gpp.Outcome
		reasons []string
	}{
		{"nothing", gpp.Signals{}, gpp.Unrestricted, nil},
		{"nothing, strictly", gpp.Signals{SuppressOptOut: true}, gpp.Unrestricted, nil},
		{"us_privacy", gpp.Signals{USPrivacy: usp("1YYN")}, gpp.MeasurementOnly, []string{"us_privacy_string.OptOutSale"}},
		{"us_privacy, no notice", gpp.Signals{USPrivacy: usp("1NNN")}, gpp.MeasurementOnly, []string{"us_privacy_string.Notice"}},
		{"us_privacy, not applicable", gpp.Signals{USPrivacy: usp("1---")}, gpp.Unrestricted, nil},
		{
			"us_privacy, strictly",
			gpp.Signals{USPrivacy: usp("1YYN"), SuppressOptOut: true},
			gpp.Suppressed,
			[]string{"us_privacy_string.OptOutSale", gpp.ReasonPolicy},
		},
		{"mmt_only", gpp.Signals{MeasurementOnly: true}, gpp.MeasurementOnly, []string{gpp.ReasonMeasurementOnly}},
		{
			"mmt_only is no opt-out",
			gpp.Signals{MeasurementOnly: true, SuppressOptOut: true},
			gpp.MeasurementOnly,
			[]string{gpp.ReasonMeasurementOnly},
		},
		{
			"opted out, strictly",
			gpp.Signals{GPP: parse(optedOutNat), SIDs: []int32{7}, SuppressOptOut: true},
			gpp.Suppressed,
			[]string{"usnat.SharingOptOut", "usnat.TargetedAdvertisingOptOut", "usnat.Gpc", gpp.ReasonPolicy},
		},
		{
			"a mismatch, strictly",
			gpp.Signals{GPP: parse(freeNat), SIDs: []int32{8}, SuppressOptOut: true},
			gpp.Suppressed,
			[]string{gpp.ReasonMismatch, gpp.ReasonPolicy},
		},
		{"free, strictly", gpp.Signals{GPP: parse(freeNat), SIDs: []int32{7}, SuppressOptOut: true}, gpp.Unrestricted, nil},
		{
			"all at once",
			gpp.Signals{GPP: parse(childUtah), SIDs: []int32{11}, USPrivacy: usp("1YYN"), MeasurementOnly: true},
			gpp.Suppressed,
			[]string{"usut.KnownChildSensitiveDataConsents", "us_privacy_string.OptOutSale", gpp.ReasonMeasurementOnly},
		},
		{
			"us_privacy over a free string",
			gpp.Signals{GPP: parse(freeNat), SIDs: []int32{7}, USPrivacy: usp("1YYN")},
			gpp.MeasurementOnly,
			[]string{"us_privacy_string.OptOutSale"},
		},
	} {
		d := c.signals.Decide()
		if d.Outcome != c.want || !slices.Equal(d.Reasons(), c.reasons) {
			t.Errorf("%s: got %v, %v, want %v, %v", c.name, d.Outcome, d.Reasons(), c.want, c.reasons)
		}
	}
	if d := (gpp.Signals{SIDs: []int32{7}}).Decide(); !d.Ignored || d.Outcome != gpp.Unrestricted {
		t.Errorf("gpp_sid alone: got %v, ignored %v, want unrestricted, ignored", d.Outcome, d.Ignored)
	}
}

func TestParseUSPrivacy(t *testing.T) {
	for _, s := range []string{"", "1", "1YN", "1YNNN", "2YNN", "0YNN", "1ynn", "1YNX", " 1YN", "1YN ", "1YN\x00", "1Y–N"} {
		if _, err := gpp.ParseUSPrivacy(s); err == nil {
			t.Errorf("%q: got no error, want one", s)
		}
	}
	want := map[string]gpp.Outcome{"1---": gpp.Unrestricted, "1YNN": gpp.Unrestricted, "1-N-": gpp.Unrestricted, "1YNY": gpp.Unrestricted}
	for _, n := range "YN-" {
		for _, o := range "YN-" {
			for _, l := range "YN-" {
				s := "1" + string(n) + string(o) + string(l)
				p, err := gpp.ParseUSPrivacy(s)
				if err != nil || p.String() != s {
					t.Fatalf("%s: got %v, %v", s, p, err)
				}
				expect := gpp.MeasurementOnly
				if free, ok := want[s]; ok || o == 'N' && n != 'N' {
					expect = free
				}
				if got, field := p.Outcome(); got != expect || (field == "") != (got == gpp.Unrestricted) {
					t.Errorf("%s: got %v because of %q, want %v", s, got, field, expect)
				}
			}
		}
	}
}
