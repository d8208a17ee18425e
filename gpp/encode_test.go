package gpp_test

import (
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"sluice/gpp"
)

// parts are the sections of a string, US sections taken apart so that they are written anew.
func parts(g *gpp.String) []gpp.Part {
	var all []gpp.Part
	for s := range g.Sections() {
		if us, ok := s.US(); ok {
			all = append(all, us)
		} else if p, ok := s.USPrivacy(); ok {
			all = append(all, p)
		} else {
			all = append(all, s)
		}
	}
	return all
}

// The official encoder made these vectors; we write what it wrote, character by character.
func TestEncodeAsTheOfficialLibrary(t *testing.T) {
	compared := 0
	for _, v := range vectors(t) {
		kind, _, _ := strings.Cut(strings.TrimPrefix(v.Category, "valid/"), "/")
		switch kind {
		case "single", "multi", "optout", "gpc", "allzero", "empty", "usnat_v1_in_v2_layout":
		default:
			continue
		}
		g, err := gpp.Parse(v.GPPString)
		if err != nil {
			t.Fatal(v.ID, err)
		}
		got, err := gpp.Encode(parts(g)...)
		if err != nil || got != v.GPPString {
			t.Errorf("%s: got %s, %v, want %s", v.ID, got, err, v.GPPString)
		}
		compared++
	}
	if compared < 200 {
		t.Errorf("compared %d vectors, want some two hundred", compared)
	}
}

func TestEncodeEveryValidVector(t *testing.T) {
	for _, v := range vectors(t) {
		g, err := gpp.Parse(v.GPPString)
		if err != nil {
			continue
		}
		text, err := gpp.Encode(parts(g)...)
		if err != nil {
			t.Errorf("%s: %v", v.ID, err)
			continue
		}
		again, err := gpp.Parse(text)
		if err != nil {
			t.Errorf("%s: written anew it is rejected: %v", v.ID, err)
			continue
		}
		if got, want := string(again.AppendJSON(nil)), string(g.AppendJSON(nil)); got != want {
			t.Errorf("%s: got %s, want %s", v.ID, got, want)
		}
	}
}

var allLayouts = gpp.Layouts()

// randomUS makes a section of any content that can be written.
func randomUS(r *rand.Rand) gpp.US {
	l := allLayouts[r.IntN(len(allLayouts))]
	u := gpp.US{ID: l.ID, Version: l.Version, Values: map[string][]int{}}
	for _, f := range l.Fields {
		values := make([]int, f.Values)
		for i := range values {
			values[i] = r.IntN(3)
		}
		u.Values[f.Name] = values
	}
	if l.GPC && r.IntN(2) == 0 {
		u.GPC = new(r.IntN(2) == 0)
	}
	if l.Sensitive > 0 && r.IntN(2) == 0 {
		values := make([]int, l.Sensitive)
		for i := range values {
			values[i] = r.IntN(3)
		}
		u.Values["SensitiveDataProcessing"] = values
	}
	u.Headed = u.ID >= gpp.USMD && r.IntN(2) == 0
	return u
}

func TestEncodeDecodeIdentity(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 10000 {
		want := randomUS(r)
		text, err := gpp.Encode(want)
		if err != nil {
			t.Fatalf("%+v: %v", want, err)
		}
		g, err := gpp.Parse(text)
		if err != nil {
			t.Fatalf("%+v as %s: %v", want, text, err)
		}
		if got, _ := g.Section(want.ID).US(); !reflect.DeepEqual(got, want) {
			t.Fatalf("%s:\n got %+v\nwant %+v", text, got, want)
		}
	}
}

func TestEncodeHeaders(t *testing.T) {
	for text, ids := range map[string][]int{
		"DBABTA": {6}, "DBABLA": {7}, "DBABBg": {8}, "DBABAw": {13}, "DBABAYA": {21}, "DBABSYA": {27},
		"DBACLMA": {7, 9},
	} {
		var all []gpp.Part
		for _, id := range ids {
			if id == gpp.USPv1 {
				all = append(all, gpp.USPrivacy{Notice: 'Y', OptOutSale: 'N', LspaCovered: 'N'})
				continue
			}
			all = append(all, gpp.US{ID: id, Values: map[string][]int{"MspaCoveredTransaction": {1}}})
		}
		got, err := gpp.Encode(all...)
		if header, _, _ := strings.Cut(got, "~"); err != nil || header != text {
			t.Errorf("%v: got header %s, %v, want %s", ids, header, err, text)
		}
	}
}
