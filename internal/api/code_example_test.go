package api

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/event"
)

// Every code has an entry of its own in the page, with an example.
func TestCodeEntries(t *testing.T) {
	parts, err := docsPage()
	if err != nil {
		t.Fatal(err)
	}
	page := string(bytes.Join(parts, nil))
	g := newGuide()
	for _, c := range slices.Concat(g.Rules, g.Requests, g.Warnings) {
		if codeExamples[c.Code].Wrong == "" {
			t.Errorf("%s has no example: add one to codeExamples", c.Code)
		}
		if strings.Count(page, `id="`+string(c.Code)+`"`) != 1 {
			t.Errorf("%s has no anchor", c.Code)
		}
	}
}

// The examples of codes of events are true: the wrong one causes the code, the right one is accepted without it.
func TestCodeExamples(t *testing.T) {
	g := newGuide()
	tried := slices.Concat(g.Rules, g.Warnings)
	tried = append(tried, guideCode{CodeInfo: codeInfo(event.MalformedJSON)}) // it speaks of a request, but an event shows it
	for _, c := range tried {
		x := codeExamples[c.Code]
		policy := event.Policy{DatasetID: exampleDataset, SuppressOptOut: c.Code == event.PrivacySuppressed}
		if _, codes := decodeExample(x.event(x.Wrong, guideTime), policy); !slices.Contains(codes, c.Code) {
			t.Errorf("%s: its example causes %v", c.Code, codes)
		}
		if x.Right == "" {
			continue
		}
		if accepted, codes := decodeExample(x.event(x.Right, guideTime), policy); !accepted || slices.Contains(codes, c.Code) {
			t.Errorf("%s: what to send instead causes %v", c.Code, codes)
		}
	}
}

func decodeExample(body string, policy event.Policy) (accepted bool, codes []event.Code) {
	var d event.Decoder
	res, bad := d.Decode(body, event.Single, policy, guideTime)
	if bad != nil {
		return false, []event.Code{bad.Code}
	}
	for _, e := range res.Errors {
		codes = append(codes, e.Code)
	}
	for _, w := range res.Warnings {
		codes = append(codes, w.Code)
	}
	return len(res.Rows) == 1, codes
}

// codeExampleEvent holds the members that an example does not name.
var codeExampleEvent = [][2]string{
	{"data_set_id", `"` + exampleDataset + `"`},
	{"timestamp", `NOW`},
	{"event_type", `"purchase"`},
	{"identifiers", `{"email_sha256":"` + exampleEmail + `"}`},
}

// event is the whole event of which text is a part.
func (x codeExample) event(text string, now time.Time) string {
	var b strings.Builder
	b.WriteString("{" + text)
	for _, m := range codeExampleEvent {
		if !strings.Contains(text, `"`+m[0]+`":`) {
			b.WriteString(`,"` + m[0] + `":` + m[1])
		}
	}
	return exampleAt(b.String()+"}", now)
}
