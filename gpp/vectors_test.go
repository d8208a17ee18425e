package gpp_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"sluice/gpp"
)

// vector is one line of testdata/vectors.jsonl.
type vector struct {
	ID        string                     `json:"id"`
	Category  string                     `json:"category"`
	GPPString string                     `json:"gpp_string"`
	Valid     bool                       `json:"valid"`
	HeaderIDs []int                      `json:"header_ids"`
	Sections  map[string]json.RawMessage `json:"sections"`
	Outcome   map[string]struct {
		Outcome string   `json:"outcome"`
		Because []string `json:"because"`
	} `json:"outcome"`
	Warnings []string `json:"warnings"`
}

func vectors(t testing.TB) []vector {
	t.Helper()
	f, err := os.Open("testdata/vectors.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all []vector
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var v vector
		if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
			t.Fatal(err)
		}
		all = append(all, v)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	if len(all) < 900 {
		t.Fatalf("got %d vectors, want all of them", len(all))
	}
	return all
}

func TestVectorVerdicts(t *testing.T) {
	for _, v := range vectors(t) {
		g, err := gpp.Parse(v.GPPString)
		if (err == nil) != v.Valid {
			t.Errorf("%s %s %.80q: got error %v, want valid %v", v.ID, v.Category, v.GPPString, err, v.Valid)
			continue
		}
		if err != nil {
			if e, ok := errors.AsType[*gpp.Error](err); !ok || e.Where == "" || e.Reason == "" {
				t.Errorf("%s: error %#v does not say where and why", v.ID, err)
			}
			continue
		}
		if got := g.IDs(); v.HeaderIDs != nil && !slices.Equal(got, v.HeaderIDs) {
			t.Errorf("%s: got ids %v, want %v", v.ID, got, v.HeaderIDs)
		}
	}
}

func TestVectorSections(t *testing.T) {
	for _, v := range vectors(t) {
		g, err := gpp.Parse(v.GPPString)
		if err != nil || v.Sections == nil {
			continue
		}
		b := g.AppendJSON(nil)
		var got map[string]json.RawMessage
		if err := json.Unmarshal(b, &got); err != nil {
			t.Fatalf("%s: %v in %s", v.ID, err, b)
		}
		for name := range v.Sections {
			same := sameJSON
			if strings.HasPrefix(v.Category, "tcf23/") { // these name the times only
				same = sameMembers
			}
			if !same(t, got[name], v.Sections[name]) {
				t.Errorf("%s %s:\n got %s\nwant %s", v.ID, name, got[name], v.Sections[name])
			}
			delete(got, name)
		}
		for name := range got {
			t.Errorf("%s: got section %s, which the vector has not", v.ID, name)
		}
	}
}

// sameJSON compares members and their order, white space apart.
func sameJSON(t *testing.T, a, b []byte) bool {
	t.Helper()
	var x, y bytes.Buffer
	if json.Compact(&x, a) != nil || json.Compact(&y, b) != nil {
		return false
	}
	return x.String() == y.String()
}

// sameMembers compares the members of want.
func sameMembers(t *testing.T, got, want []byte) bool {
	t.Helper()
	var a, b map[string]any
	if json.Unmarshal(got, &a) != nil || json.Unmarshal(want, &b) != nil {
		return false
	}
	for name := range b {
		if !reflect.DeepEqual(a[name], b[name]) {
			return false
		}
	}
	return len(b) > 0
}

func TestVectorOutcomes(t *testing.T) {
	for _, v := range vectors(t) {
		g, err := gpp.Parse(v.GPPString)
		if err != nil {
			continue
		}
		for s := range g.Sections() {
			want, ok := v.Outcome[s.Name()]
			if !ok {
				if !s.Opaque() {
					t.Errorf("%s: no outcome for %s", v.ID, s.Name())
				}
				continue
			}
			if got := s.Outcome().String(); got != want.Outcome {
				t.Errorf("%s %s: got %s, want %s", v.ID, s.Name(), got, want.Outcome)
			}
			var reasons []string
			for _, because := range want.Because {
				reasons = append(reasons, reasonsOf(t, g, s, because)...)
			}
			if got := s.Reasons(); !reflect.DeepEqual(got, reasons) {
				t.Errorf("%s %s: got reasons %v, want %v for %q", v.ID, s.Name(), got, reasons, want.Because)
			}
		}
	}
}

// reasonsOf translates the words of a vector into our reasons.
func reasonsOf(t *testing.T, g *gpp.String, s *gpp.Section, because string) []string {
	t.Helper()
	of := func(field string) []string { return []string{s.Name() + "." + field} }
	if field, ok := strings.CutPrefix(because, "no notice: "); ok {
		return of(field)
	}
	if field, ok := strings.CutSuffix(because, "=2 without notice"); ok {
		return of(field + "Notice")
	}
	purposes := "PurposeConsents"
	if s.ID() == gpp.TCFCAv1 {
		purposes = "PurposesExpressConsent"
	}
	switch because {
	case "known child, no consent", "known child under 13 (or undivided child group)":
		return of("KnownChildSensitiveDataConsents")
	case "service provider mode":
		if s.ID() >= gpp.USMD {
			return of("MspaMode")
		}
		return of("MspaServiceProviderMode")
	case "MspaCoveredTransaction=0":
		return of("MspaCoveredTransaction")
	case "no consent to further purposes":
		if s.ID() == gpp.USNat || s.ID() == gpp.USCA {
			return of("PersonalDataConsents")
		}
		return of("AdditionalDataProcessingConsent")
	case "no notice":
		return of("Notice")
	case "opt-out unknown":
		return of("OptOutSale")
	case "not applicable":
		return nil
	case "unreadable", fmt.Sprintf("version %d is newer than what is read", s.Version()):
		return of("unreadable")
	case "no DisclosedVendors after 2026-02-28":
		return of("VendorsDisclosed")
	case "as with MspaVersion 1":
		other, err := gpp.Parse(strings.Replace(g.Text(), "~A", "~B", 1))
		if err != nil {
			t.Fatal(err)
		}
		return other.Section(s.ID()).Reasons()
	case "not service specific":
		return of("IsServiceSpecific")
	case "no purpose 1":
		return of(purposes + ".1")
	case "no purpose 7":
		return of(purposes + ".7")
	case "no purpose 3 or 4":
		var out []string
		for _, p := range []int{3, 4} {
			if !s.TCF().PurposeConsents.Has(p) {
				out = append(out, of(purposes+"."+string(rune('0'+p)))...)
			}
		}
		return out
	case "SaleOptOut", "SharingOptOut", "TargetedAdvertisingOptOut", "Gpc", "OptOutSale":
		return of(because)
	}
	t.Fatalf("the vectors give a reason nobody knows: %q", because)
	return nil
}

// TestVectorWarnings holds what the vectors warn of against what a section or a verdict says about itself.
func TestVectorWarnings(t *testing.T) {
	for _, v := range vectors(t) {
		g, err := gpp.Parse(v.GPPString)
		if err != nil || v.Sections == nil {
			continue
		}
		warned := func(part string) bool {
			return slices.ContainsFunc(v.Warnings, func(w string) bool { return strings.Contains(w, part) })
		}
		d := g.Decide(nil)
		var opaque bool
		for s := range g.Sections() {
			opaque = opaque || s.Opaque() && !s.Newer()
		}
		for part, got := range map[string]bool{
			"GPP_VERSION_UNKNOWN": d.Newer, "TCF_WITHOUT_DISCLOSED": d.Undisclosed, "kept opaque": opaque,
		} {
			if want := warned(part); got != want {
				t.Errorf("%s: %s is %v, want %v", v.ID, part, got, want)
			}
		}
	}
}
