package event_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"sluice/event"
	"sluice/event/rules"
)

const dataset = "spring-2026"

func loadRules(t testing.TB) []rules.Case {
	t.Helper()
	cases, err := rules.Cases()
	if err != nil {
		t.Fatal(err)
	}
	return cases
}

// TestRules runs the rule corpus.
func TestRules(t *testing.T) {
	for _, validation := range []bool{false, true} {
		t.Run(fmt.Sprint("validation ", validation), func(t *testing.T) { runRules(t, validation) })
	}
}

func runRules(t *testing.T, validation bool) {
	d := event.Decoder{Explain: validation} // one for all, so that nothing may be left over from one body to the next
	for _, c := range loadRules(t) {
		t.Run(c.Name, func(t *testing.T) {
			res, rejection := d.Decode(c.Body(c.Now, dataset), c.Shape, event.Policy{DatasetID: dataset, SuppressOptOut: c.Suppress}, c.Now)
			if rejection == nil && res.Foreign {
				rejection = &event.Error{Code: event.DatasetForbidden}
			}
			if c.Request != "" || rejection != nil {
				if rejection == nil || rejection.Code != c.Request {
					t.Fatalf("%s: got %v, want the request rejected with %s", c.Why, rejection, c.Request)
				}
				return
			}
			checkFindings(t, &c, res, c.Warnings(validation))
			checkRows(t, &c, res)
		})
	}
}

func checkFindings(t *testing.T, c *rules.Case, res *event.Result, warnings []rules.Finding) {
	t.Helper()
	var got, want []string
	for _, e := range res.Errors {
		got = append(got, fmt.Sprint(e.Index, e.Code, e.Field))
		if e.Message == "" || e.Hint == "" {
			t.Errorf("%s: %s has no message or no hint", c.Why, e.Code)
		}
	}
	for _, w := range c.Want {
		want = append(want, fmt.Sprint(w.Index, w.Code, w.Field))
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s: problems\n got %q\nwant %q", c.Why, got, want)
	}
	got, want = nil, nil
	for _, w := range res.Warnings {
		got = append(got, fmt.Sprint(w.Index, w.Code, w.Field))
		if w.Message == "" {
			t.Errorf("%s: %s has no message", c.Why, w.Code)
		}
	}
	for _, w := range warnings {
		want = append(want, fmt.Sprint(w.Index, w.Code, w.Field))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%s: warnings\n got %q\nwant %q", c.Why, got, want)
	}
	if res.Total != len(res.Rows)+res.Rejected {
		t.Errorf("%s: got %d rows and %d rejected of %d", c.Why, len(res.Rows), res.Rejected, res.Total)
	}
}

// checkRows compares members of rows, number by number as they are spelled.
func checkRows(t *testing.T, c *rules.Case, res *event.Result) {
	t.Helper()
	rows := map[int]map[string]json.RawMessage{}
	for i := range res.Rows {
		var members map[string]json.RawMessage
		if err := json.Unmarshal(event.AppendJSON(nil, &res.Rows[i]), &members); err != nil {
			t.Fatalf("%s: the stored event is no JSON: %v", c.Why, err)
		}
		rows[int(res.Rows[i].SubmissionIndex)] = members
	}
	for _, m := range c.Row {
		got, want := compact(t, rows[m.Index][m.Name]), compact(t, []byte(m.JSON(c.Now, dataset)))
		if got != want {
			t.Errorf("%s: %s of event %d: got %s, want %s", c.Why, m.Name, m.Index, got, want)
		}
	}
}

// compact is the text without white space; strings alone are compared by what they mean.
func compact(t *testing.T, text []byte) string {
	t.Helper()
	var s string
	if json.Unmarshal(text, &s) == nil && len(text) > 0 && text[0] == '"' {
		return fmt.Sprintf("%q", s)
	}
	var b bytes.Buffer
	if err := json.Compact(&b, text); err != nil {
		t.Errorf("%q is no JSON: %v", text, err)
	}
	return b.String()
}

// TestRulesCoverTables holds that every event type is accepted by an example, and that every code that Decode can
// give is provoked by one.
func TestRulesCoverTables(t *testing.T) {
	seen := map[event.Code]bool{}
	types := map[string]bool{}
	for _, c := range loadRules(t) {
		seen[c.Request] = true
		for _, f := range slices.Concat(c.Want, c.Warn) {
			seen[f.Code] = true
		}
		for _, m := range c.Row {
			if m.Name == "event_type" {
				types[strings.Trim(m.JSON(c.Now, dataset), `"`)] = true
			}
		}
	}
	byOthers := []event.Code{ // given where a request is taken, not where an event is judged
		event.BatchRejected, event.MissingAPIKey, event.InvalidAPIKey, event.ServerSideOnly, event.InvalidParameter, event.NotFound, event.MethodNotAllowed,
		event.PayloadTooLarge, event.UnsupportedMediaType, event.IdempotencyInProgress, event.IdempotencyKeyReused, event.RateLimited,
		event.InternalError, event.Unavailable,
	}
	for _, info := range event.Codes() {
		if !seen[info.Code] && !slices.Contains(byOthers, info.Code) {
			t.Errorf("no example provokes %s", info.Code)
		}
	}
	if len(event.Types()) != 45 {
		t.Errorf("got %d event types, want 45", len(event.Types()))
	}
	for _, info := range event.Types() {
		if !types[info.Name] {
			t.Errorf("no example stores event type %s", info.Name)
		}
	}
}
