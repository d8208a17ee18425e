package gpp_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"sluice/gpp"
)

func document(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile("../docs/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// The page for counsel has a table of what every field does. It is made here from the program, and compared.
func TestPrivacyPageHasEveryField(t *testing.T) {
	page := document(t, "privacy.md")
	for _, l := range gpp.Layouts() {
		if row := fieldRow(t, l); !strings.Contains(page, row+"\n") {
			t.Errorf("docs/privacy.md lacks\n%s", row)
		}
	}
}

// fieldRow tries every value of every field of a section, all else being neutral.
func fieldRow(t *testing.T, l gpp.Layout) string {
	t.Helper()
	effects := map[gpp.Outcome][]string{}
	for _, f := range l.Fields {
		for outcome, values := range fieldEffects(t, l, f) {
			effects[outcome] = append(effects[outcome], f.Name+" "+strings.Join(values, " or "))
		}
	}
	if l.GPC {
		us := neutral(l)
		us.GPC = new(true)
		effects[outcomeOf(t, us)] = append(effects[outcomeOf(t, us)], "Gpc true")
	}
	name := fmt.Sprintf("%s (%d)", gpp.SectionName(l.ID), l.ID)
	if l.ID == gpp.USNat {
		name += fmt.Sprint(", version ", l.Version)
	}
	return fmt.Sprintf("| %s | %s | %s |", name,
		strings.Join(effects[gpp.Suppressed], ", "), strings.Join(effects[gpp.MeasurementOnly], ", "))
}

// fieldEffects are the values of a field that restrict, by outcome: "1", "[2] 1" for one value of several, and "2*"
// where it takes a notice that is not applicable.
func fieldEffects(t *testing.T, l gpp.Layout, f gpp.LayoutField) map[gpp.Outcome][]string {
	t.Helper()
	effects := map[gpp.Outcome][]string{}
	for value := range 3 {
		slots := map[gpp.Outcome][]string{}
		star := ""
		for slot := range f.Values {
			us := neutral(l)
			us.Values[f.Name][slot] = value
			o := outcomeOf(t, us)
			slots[o] = append(slots[o], fmt.Sprintf("[%d] %d", slot+1, value))
			if notice := us.Values[f.Name+"Notice"]; notice != nil {
				notice[0] = 1
				if outcomeOf(t, us) != o {
					star = `\*`
				}
			}
		}
		delete(slots, gpp.Unrestricted)
		for o, some := range slots {
			if len(some) == f.Values {
				some = []string{fmt.Sprint(value) + star}
			}
			effects[o] = append(effects[o], some...)
		}
	}
	return effects
}

// neutral is a section that restricts nothing.
func neutral(l gpp.Layout) gpp.US {
	us := gpp.US{ID: l.ID, Version: l.Version, Values: map[string][]int{}}
	for _, f := range l.Fields {
		us.Values[f.Name] = make([]int, f.Values)
	}
	us.Values["MspaCoveredTransaction"][0] = 2
	return us
}

func outcomeOf(t *testing.T, us gpp.US) gpp.Outcome {
	t.Helper()
	text, err := gpp.Encode(us)
	if err != nil {
		t.Fatal(err)
	}
	g, err := gpp.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return g.Section(us.ID).Outcome()
}

// documentExample is a block of the page: signals as an event has them, and what comes of them.
type documentExample struct {
	GPPString       string   `json:"gpp_string"`
	GPPSID          []int32  `json:"gpp_sid"`
	USPrivacyString string   `json:"us_privacy_string"`
	MeasurementOnly bool     `json:"mmt_only"`
	OptOut          string   `json:"opt_out"`
	Outcome         string   `json:"outcome"`
	Reasons         []string `json:"reasons"`
	Rejected        string   `json:"rejected"`
}

func TestPrivacyPageExamples(t *testing.T) {
	blocks := strings.Split(document(t, "privacy.md"), "```json\n")[1:]
	if len(blocks) < 15 {
		t.Fatalf("got %d examples, want the page's", len(blocks))
	}
	for _, block := range blocks {
		block, _, _ = strings.Cut(block, "```")
		var e documentExample
		decoder := json.NewDecoder(strings.NewReader(block))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&e); err != nil {
			t.Fatalf("%v in\n%s", err, block)
		}
		outcome, reasons, rejected := runExample(t, e)
		if outcome != e.Outcome || rejected != e.Rejected || !slices.Equal(reasons, e.Reasons) {
			t.Errorf("got %q %q %q in\n%s", outcome, reasons, rejected, block)
		}
	}
}

func runExample(t *testing.T, e documentExample) (outcome string, reasons []string, rejected string) {
	t.Helper()
	s := gpp.Signals{SIDs: e.GPPSID, MeasurementOnly: e.MeasurementOnly, SuppressOptOut: e.OptOut == "suppress"}
	var err error
	if e.GPPString != "" {
		if s.GPP, err = gpp.Parse(e.GPPString); err != nil {
			return "", nil, err.Error()
		}
	}
	if e.USPrivacyString != "" {
		if s.USPrivacy, err = gpp.ParseUSPrivacy(e.USPrivacyString); err != nil {
			return "", nil, err.Error()
		}
	}
	d := s.Decide()
	return d.Outcome.String(), d.Reasons(), ""
}

// The code on the page about the package is code of the examples, which run.
func TestPackagePageCode(t *testing.T) {
	source, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(document(t, "gpp.md"), "```go\n")[1:]
	if len(blocks) < 3 {
		t.Fatalf("got %d blocks, want the page's", len(blocks))
	}
	for _, block := range blocks {
		block, _, _ = strings.Cut(block, "```")
		code := "\t" + strings.ReplaceAll(strings.TrimSpace(block), "\n", "\n\t") + "\n"
		if !strings.Contains(string(source), code) {
			t.Errorf("docs/gpp.md has code that no example has:\n%s", block)
		}
	}
}
