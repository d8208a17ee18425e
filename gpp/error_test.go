package gpp_test

import (
	"errors"
	"strings"
	"testing"

	"sluice/gpp"
)

func TestErrorsSayWhere(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "string: it is empty"},
		{strings.Repeat("D", 16385), "string: it is longer than 16384 characters"},
		{"DBABLA~CVVV VV", "string: character 12 is none of A-Z a-z 0-9 - _ . ~"},
		{"CPXxRfAPXxRfAAfKABENB-CgAAAAAAAAAAYgAAAAAAAA", "header: it begins as a TC string does, which is no GPP string by itself"},
		{"1YNN", "header: it does not begin as a GPP string does"},
		{"DCABLA~BAAAAAAAAQA", "header: version 2 is not known; version 1 is read"},
		{"DBABLA", "header: it lists 1 section, the string has 0"},
		{"DBABFDA~BAAA", "header, Sections: an id is over 63"},
		{"DBABrRVEVVQUEBG~BAAAAAAAAQA", "header, Sections: an id is over 63"},
		{"DBABYA~CPXx", "header: section 1 is withdrawn"},
		{"DBAAB", "header: non-zero bits after the last field"},
		{"DB.AA", "header: it has a segment delimiter"},
		{"DBABLA~", "section usnat: it is empty or has an empty segment"},
		{"DBABLA~CVaZICgQAACY.", "section usnat: it is empty or has an empty segment"},
		{"DBABLA~LVVVAAAAAAFU", "section usnat, Version: version 11 is not known; read: 1 and 2"},
		{"DBABBg~KVVVAAAA", "section usca, Version: version 10 is not known; read: 1"},
		{"DBABLA~C1VVAAAAAAFU", "section usnat, SharingNotice: holds 3, a value that is not defined"},
		{"DBABLA~CVVVAAAAAAF0", "section usnat, MspaOptOutOptionMode: holds 3, a value that is not defined"},
		{"DBABLA~CVa", "section usnat, SaleOptOut: the text ends before the field does"},
		{"DBABLA~CVaZICgQAACY_", "section usnat: non-zero bits after the last field"},
		{"DBABLA~CVaZICgQAACYAAAAAAAA", "section usnat: more bits after the last field than padding explains"},
		{"DBABLA~CVaZICgQAACY.gA", "section usnat, GpcSegmentType: type 2, which is not that of GPC, 1"},
		{"DBABLA~CVaZICgQAACY.Y_", "section usnat, Gpc: non-zero bits after the last field"},
		{"DBABLA~CVaZICgQAACY.YA.YA", "section usnat: more than one subsection"},
		{"DBABRg~BVYIIBY.QA", "section usva: a subsection, where none is defined"},
		{"DBABUYA~YVVV", "section usin, SectionID: it is the id of another section"},
		{"DBABEYA~YBABM.BVVg.YA", "section usmd, SubSections: an id is over 1"},
		{"DBABEYA~ZBAA.BVVg", "section usmd, SectionID: it is the id of another section"},
		{"DBABEYA~YBAA.BVVg.YA", "section usmd: its header and its segments disagree about subsections"},
		{"DBABEYA~YBAA", "section usmd: the core is missing"},
		{"DBABCYA~BlWQ.Y_", "section usky, SensitiveDataProcessing: the text ends before the field does"},
		{"DBABTA~1YNX", "section uspv1: it is not a 1 followed by three of Y, N and -"},
		{"DBABMA~A", "section tcfeuv2, Version: version 0 is not known; read: 2"},
		{"DBABMA~CQLRc", "section tcfeuv2: the text ends before the field does"},
		{"DBABMA~CQLUvgAQLUvgAAKABBENBkEgAP_gAAAAAAYgAFQAQAAAAAAA", "section tcfeuv2, VendorConsents: a range begins with vendor 0"},
		{"DBABMA~CQLRckAQLRckAkjl7NPL8NF0lu6gAANgAAqIAAAAmIYAgAAIAAAA._AAA", "section tcfeuv2: a segment of type 7, which is not known"},
		{"DBABDA~BQ", "section tcfcav1: the text ends before the field does"},
		{"DBABKYA~BA..A", "section 28: it is empty or has an empty segment"},
	} {
		_, err := gpp.Parse(c.text)
		if err == nil || err.Error() != c.want {
			t.Errorf("%.60s: got %v, want %s", c.text, err, c.want)
		}
	}
}

// An error may go into answers and logs, so nothing of a string may be in it.
func TestErrorsRepeatNothing(t *testing.T) {
	for _, v := range vectors(t) {
		_, err := gpp.Parse(v.GPPString)
		e, ok := errors.AsType[*gpp.Error](err)
		if !ok || len(v.GPPString) < 8 {
			continue
		}
		for i := 0; i+6 <= len(v.GPPString); i++ {
			if part := v.GPPString[i : i+6]; strings.Contains(e.Error(), part) {
				t.Errorf("%s: error %q repeats %q", v.ID, e, part)
			}
		}
	}
}
