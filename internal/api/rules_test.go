package api

import (
	"encoding/json"
	"slices"
	"testing"

	"sluice/event"
	"sluice/event/rules"
	"sluice/internal/dataset"
)

// problem is an error or a warning as an answer lists it.
type problem struct {
	Index     int
	ErrorCode event.Code `json:"error_code"`
	Code      event.Code
	Field     string
}

func (f problem) finding() rules.Finding {
	code := f.ErrorCode
	if code == "" {
		code = f.Code
	}
	return rules.Finding{Index: f.Index, Code: code, Field: f.Field}
}

// Every rule example, over HTTP, at its own time: status, errors in order, warnings, and what is stored.
func TestRules(t *testing.T) {
	s := openServiceIn(t, t.TempDir(), nil)
	keys := map[bool]string{
		false: s.dataset(dataset.Spec{ID: "shop"}),
		true:  s.dataset(dataset.Spec{ID: "quiet", SuppressOptOut: true}),
	}
	cases, err := rules.Cases()
	if err != nil {
		t.Fatal(err)
	}
	provoked := map[event.Code]bool{}
	for i := range cases {
		c := &cases[i]
		t.Run(c.Name, func(t *testing.T) {
			s.clock.Set(c.Now)
			s.key = keys[c.Suppress]
			id := map[bool]string{false: "shop", true: "quiet"}[c.Suppress]
			path := map[event.Shape]string{event.Single: "/v1/events", event.Batch: "/v1/events/batch", event.Any: "/v1/events/validate"}[c.Shape]
			r := s.post(path, c.Body(c.Now, id))
			var got struct {
				ErrorCode        event.Code `json:"error_code"`
				Errors, Warnings []problem
			}
			if err := json.Unmarshal([]byte(r.text), &got); err != nil {
				t.Fatalf("%v in %s", err, r.text)
			}
			provoked[got.ErrorCode] = true
			if c.Request != "" {
				if got.ErrorCode != c.Request || r.StatusCode != statusOf(c.Request) {
					t.Errorf("got %d %s, want %s", r.StatusCode, r.text, c.Request)
				}
				return
			}
			checkFindings(t, "errors", got.Errors, c.Want, true, provoked)
			if r.StatusCode == 200 {
				checkFindings(t, "warnings", got.Warnings, c.Warnings(c.Shape == event.Any), false, provoked)
			}
			if c.Shape == event.Single && (r.StatusCode == 200) != (len(c.Want) == 0) {
				t.Errorf("got %d %s", r.StatusCode, r.text)
			}
		})
	}
	for _, info := range event.Codes() {
		whole := statusOf(info.Code) != 400 || info.Code == event.BatchRejected || info.Code == event.InvalidParameter
		if info.Kind != event.RequestKind && !provoked[info.Code] || info.Kind == event.RequestKind && !whole && !provoked[info.Code] {
			t.Errorf("%s is provoked by no example", info.Code)
		}
	}
}

func checkFindings(t *testing.T, what string, got []problem, want []rules.Finding, ordered bool, provoked map[event.Code]bool) {
	t.Helper()
	var have []rules.Finding
	for _, g := range got {
		have = append(have, g.finding())
		provoked[g.finding().Code] = true
	}
	want = slices.Clone(want)
	if len(want) > 100 {
		want = want[:100]
	}
	if !ordered {
		order := func(a, b rules.Finding) int {
			return slices.Compare([]string{string(rune(a.Index)), string(a.Code), a.Field}, []string{string(rune(b.Index)), string(b.Code), b.Field})
		}
		slices.SortFunc(have, order)
		slices.SortFunc(want, order)
	}
	if !slices.Equal(have, want) {
		t.Errorf("%s: got %+v, want %+v", what, have, want)
	}
}
