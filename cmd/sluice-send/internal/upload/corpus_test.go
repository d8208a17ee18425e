package upload

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"sluice/cmd/sluice-send/internal/input"
	"sluice/event"
	"sluice/event/rules"
)

// The uploader judges a row as the service would judge the same bytes: every example of the rule corpus that is one event
// goes through it, and comes out with the same codes and fields.
func TestPrepareKeepsTheRules(t *testing.T) {
	cases, err := rules.Cases()
	if err != nil {
		t.Fatal(err)
	}
	run := 0
	for i := range cases {
		c := &cases[i]
		if c.Shape != event.Single || strings.Contains(c.Body(c.Now, "spring"), "\n") {
			continue // a row is one event on one line
		}
		run++
		p := &Preparer{Policy: event.Policy{DatasetID: "spring", SuppressOptOut: c.Suppress}, Now: func() time.Time { return c.Now }}
		b := new(input.Batch)
		b.Add(input.Row{Data: []byte(c.Body(c.Now, "spring")), Line: 1})
		prep := p.Prepare(b)
		var got, want []string
		for _, r := range prep.Rejected {
			list := r.Errors
			if len(list) == 0 {
				list = []Problem{r.Problem}
			}
			for _, e := range list {
				got = append(got, fmt.Sprint(e.Code, e.Field))
			}
		}
		for _, w := range c.Want {
			want = append(want, fmt.Sprint(w.Code, w.Field))
		}
		if c.Request != "" {
			if len(got) != 1 || !strings.HasPrefix(got[0], string(c.Request)) {
				t.Errorf("%s: got %q, want %s", c.Name, got, c.Request)
			}
			continue
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: got %q, want %q", c.Name, got, want)
		}
		if sent := len(prep.Requests) == 1; sent == (len(want) > 0) {
			t.Errorf("%s: sent %v with %d problems", c.Name, sent, len(want))
		}
	}
	if run < 100 {
		t.Errorf("only %d examples were run", run)
	}
}
