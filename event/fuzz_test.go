package event_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"sluice/event"
)

// FuzzDecode holds the decoder against another strict parser, and its answers against each other.
func FuzzDecode(f *testing.F) {
	for _, c := range loadRules(f) {
		f.Add(c.Body(benchNow, dataset))
	}
	for _, text := range syntaxTexts {
		f.Add(text)
	}
	f.Add(typicalBatch(3, ownPrivacy))
	f.Fuzz(func(t *testing.T, body string) {
		var d event.Decoder
		d.Explain = true
		res, rejection := d.Decode(body, event.Any, event.Policy{DatasetID: dataset}, benchNow)
		malformed := rejection != nil && rejection.Code == event.MalformedJSON
		if oracle(body, true) == malformed {
			t.Fatalf("got %v, but the other parser reads it: %v", rejection, !malformed)
		}
		if rejection != nil {
			return
		}
		checkSums(t, res)
		checkDuplicates(t, body, res)
		first := checkStored(t, res)
		again, rejection := d.Decode(body, event.Any, event.Policy{DatasetID: dataset}, benchNow)
		if rejection != nil || !slices.Equal(checkStored(t, again), first) {
			t.Errorf("a second run differs: %v", rejection)
		}
	})
}

func checkSums(t *testing.T, res *event.Result) {
	t.Helper()
	if res.Total != len(res.Rows)+res.Rejected || len(res.Details) != len(res.Rows) {
		t.Errorf("got %d rows, %d details, %d rejected of %d", len(res.Rows), len(res.Details), res.Rejected, res.Total)
	}
	if len(res.Errors) < min(res.Rejected, 100) || len(res.Errors) > 100 {
		t.Errorf("got %d errors of %d events", len(res.Errors), res.Rejected)
	}
	var events, problems int32
	for _, r := range res.Rejections {
		events, problems = events+r.Events, problems+r.Count
	}
	if int(events) != res.Rejected || res.ErrorsTruncated != (int(problems) > len(res.Errors)) {
		t.Errorf("got %d events and %d problems counted, %d rejected, %d listed", events, problems, res.Rejected, len(res.Errors))
	}
	if !slices.IsSortedFunc(res.Errors, func(a, b event.Error) int { return a.Index - b.Index }) {
		t.Errorf("errors are not in order: %v", res.Errors)
	}
}

// checkDuplicates compares, event by event, whether a name occurs twice.
func checkDuplicates(t *testing.T, body string, res *event.Result) {
	t.Helper()
	if res.ErrorsTruncated {
		return
	}
	events := []jsontext.Value{jsontext.Value(body)}
	if res.Batch {
		events = elements(t, body)
	}
	for i, text := range events {
		got := slices.ContainsFunc(res.Errors, func(e event.Error) bool { return e.Index == i && e.Code == event.DuplicateField })
		want := text.Kind() == '{' && !oracle(string(text), false)
		if got != want {
			t.Errorf("event %d: got a duplicate %v, want %v", i, got, want)
		}
	}
}

func elements(t *testing.T, body string) (all []jsontext.Value) {
	t.Helper()
	d := jsontext.NewDecoder(strings.NewReader(body), jsontext.AllowDuplicateNames(true))
	if _, err := d.ReadToken(); err != nil {
		t.Fatal(err)
	}
	for d.PeekKind() != ']' {
		v, err := d.ReadValue()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, v.Clone())
	}
	return all
}

// checkStored returns the stored events, each of which must be a line of JSON and hold nothing that its outcome
// forbids.
func checkStored(t *testing.T, res *event.Result) (all []string) {
	t.Helper()
	for i := range res.Rows {
		r := &res.Rows[i]
		line := event.AppendJSON(nil, r)
		if !jsontext.Value(line).IsValid() || bytes.ContainsAny(line, "\n\r") {
			t.Errorf("the stored event is no line of JSON: %q", line)
		}
		if r.Privacy == event.Suppressed && r.EmailSHA256+r.IFA+r.IPSHA256+r.PartnerID+r.GPPString+r.CustomData+r.PageURL+r.Referer != "" {
			t.Errorf("a suppressed event keeps what points at a person: %s", line)
		}
		if r.Privacy != event.Suppressed && r.EmailSHA256+r.IFA+r.IPSHA256 == "" {
			t.Errorf("an event without an identifier was accepted: %s", line)
		}
		if r.OptimizationEligible != (r.Privacy == event.Unrestricted && !r.Late) {
			t.Errorf("eligibility is wrong: %s", line)
		}
		all = append(all, string(line))
	}
	return all
}
