package console

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"sluice/event"

	"sluice/internal/humanize"
)

// tryMax is how much text the page takes: what the API takes of a single request is more than anybody pastes.
const tryMax = 1 << 20

// tryAtOnce is how many requests hold such a text at one time. Arbitrary.
const tryAtOnce = 4

// tryShown is how many events of an array are shown whole.
const tryShown = 20

type tryPage struct {
	Datasets []option
	Text     string
	Answer   *tryAnswer
}

type tryAnswer struct {
	Title, Verdict, Class, More string
	Errors, Warnings            []tryRemark
	Events                      []tryEvent
}

type tryRemark struct{ Code, Where, Message, Hint string }

type tryEvent struct {
	Index                          int
	Outcome, Class, Why, JSON, GPP string
	Late                           bool
}

// try shows the validator's word on a pasted event. Nothing is stored, counted or logged.
func (c *Console) try(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		select {
		case c.trying <- struct{}{}:
			defer func() { <-c.trying }()
		default:
			w.Header().Set("Retry-After", "1")
			http.Error(w, "Too many events are tried at once. Try again in a second.", http.StatusServiceUnavailable)
			return
		}
	}
	s := c.look()
	chosen := r.FormValue("dataset")
	if chosen == "" && len(s.Datasets) > 0 {
		chosen = s.Datasets[0].ID
	}
	p := tryPage{Datasets: s.options(chosen)}
	chosen = cmp.Or(chosen, "example")
	if r.Method == http.MethodPost {
		p.Text = r.PostFormValue("event")
		policy := event.Policy{DatasetID: chosen}
		if d := s.dataset(chosen); d != nil {
			policy.SuppressOptOut = d.SuppressOptOut
		}
		p.Answer = answer(p.Text, policy, s.Now)
	} else {
		p.Text = tryExample(chosen, s.Now)
	}
	c.show(w, http.StatusOK, "try", "Try", "/try", 0, p)
}

func tryExample(datasetID string, now time.Time) string {
	id, _ := json.Marshal(datasetID)
	return fmt.Sprintf(`{
  "data_set_id": %s,
  "timestamp": %d,
  "event_type": "purchase",
  "identifiers": {
    "email_sha256": "973dfe463ec85785f5f95af5ba3906eedb2d931c24e69824a89ea65dba4e813b"
  },
  "value": 129.95,
  "currency_code": "usd",
  "privacy": {
    "gpp_string": "DBABLA~BVQqAAAAAgA",
    "gpp_sid": [7]
  },
  "custom_data": { "coupons": ["SPRING10"] }
}`, id, now.Add(-5*time.Minute).Unix())
}

// answer is the validator's word.
func answer(text string, policy event.Policy, now time.Time) *tryAnswer {
	d := event.Decoder{Explain: true}
	res, bad := d.Decode(text, event.Any, policy, now)
	switch {
	case bad != nil:
		return &tryAnswer{
			Title: "The request would be rejected", Verdict: "400", Class: "bad",
			Errors: []tryRemark{{string(bad.Code), bad.Field, bad.Message, bad.Hint}},
		}
	case res.Foreign:
		return &tryAnswer{
			Title: "The request would be rejected", Verdict: "403", Class: "bad",
			Errors: []tryRemark{{
				string(event.DatasetForbidden), "/data_set_id",
				"An event names another dataset than the one chosen.", codeInfo(event.DatasetForbidden).Remedy,
			}},
		}
	}
	a := &tryAnswer{Title: humanize.Plural(len(res.Rows), "event", "events") + " accepted", Verdict: "valid", Class: "ok"}
	if res.Rejected > 0 {
		a.Title += ", " + humanize.Count(res.Rejected) + " rejected"
		a.Verdict, a.Class = "not valid", "bad"
	}
	where := func(index int, field string) string {
		if res.Batch {
			return strings.TrimSpace(fmt.Sprintf("event %d %s", index, field))
		}
		return field
	}
	for _, e := range res.Errors {
		a.Errors = append(a.Errors, tryRemark{string(e.Code), where(e.Index, e.Field), e.Message, e.Hint})
	}
	for _, x := range res.Warnings {
		a.Warnings = append(a.Warnings, tryRemark{string(x.Code), where(x.Index, x.Field), x.Message, ""})
	}
	for i := range res.Rows {
		if i == tryShown {
			a.More = fmt.Sprintf("The first %d accepted events are shown.", tryShown)
			break
		}
		a.Events = append(a.Events, effective(&res.Rows[i], res.Details[i]))
	}
	return a
}

// effective is an event as it would be stored, its identifiers masked.
func effective(row *event.Row, d event.Detail) tryEvent {
	masked := *row
	for _, identifier := range []*string{&masked.EmailSHA256, &masked.IFA, &masked.IPSHA256, &masked.PartnerID} {
		if *identifier != "" {
			*identifier = "•••"
		}
	}
	out := tryEvent{
		Index: int(row.SubmissionIndex), Outcome: row.Privacy.String(), Class: outcomeClass(row.Privacy), Late: row.Late,
		JSON: indent(event.AppendJSON(nil, &masked)),
	}
	if len(d.Reasons) > 0 {
		out.Why = "because of " + strings.Join(d.Reasons, ", ")
	}
	if d.GPP != nil {
		out.GPP = indent(d.GPP.AppendJSON(nil))
	}
	return out
}

// indent makes JSON readable.
func indent(text []byte) string {
	var b bytes.Buffer
	_ = json.Indent(&b, text, "", "  ") // what we write ourselves is JSON
	return b.String()
}

func outcomeClass(o event.Outcome) string {
	switch o {
	case event.Unrestricted:
		return "ok"
	case event.MeasurementOnly:
		return "note"
	}
	return "warn"
}
