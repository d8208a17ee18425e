package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"sluice/event"
)

// Validate holds events against the service's own rules, here, without a connection. A nil error means that the service
// would accept all of them if they arrived now; otherwise it is a *BatchError. Without Options.DatasetID any dataset is
// taken.
func (c *Client) Validate(events ...Event) ([]event.Warning, error) {
	var (
		decoder  event.Decoder
		warnings []event.Warning
		failed   BatchError
	)
	policy := event.Policy{DatasetID: c.o.DatasetID, SuppressOptOut: c.o.SuppressOptOut}
	for i, e := range events {
		body, err := c.encode(e)
		if err != nil {
			return nil, fmt.Errorf("client: event %d cannot be written as JSON: %w", i, err)
		}
		result, rejection := decoder.Decode(string(body), event.Single, policy, c.o.Now())
		var ps []event.Error
		switch {
		case rejection != nil:
			ps = []event.Error{*rejection}
		case result.Foreign:
			info, _ := event.LookupCode(event.DatasetForbidden)
			ps = []event.Error{{Code: info.Code, Field: "/data_set_id", Message: info.Meaning, Hint: info.Remedy}}
		default:
			ps = result.Errors
			for _, w := range result.Warnings {
				w.Index = i
				warnings = append(warnings, w)
			}
		}
		if len(ps) > 0 {
			shift(ps, i)
			failed.add(1, ps, false)
		}
	}
	if failed.Rejected > 0 {
		return warnings, &failed
	}
	return warnings, nil
}

// Verdict is the service's word on events it was asked to judge and not to keep.
type Verdict struct {
	Valid     bool            `json:"valid"`
	Accepted  int             `json:"accepted"`
	Rejected  int             `json:"rejected"`
	Problems  []event.Error   `json:"errors"`
	Truncated bool            `json:"errors_truncated"`
	Warnings  []event.Warning `json:"warnings"`
	// Events are the valid ones as they would be stored, each with its privacy outcome and the reasons.
	Events []json.RawMessage `json:"events"`
}

// ValidateRemote asks the service what it would do with body, one event or an array. Nothing is stored.
func (c *Client) ValidateRemote(ctx context.Context, body []byte) (*Verdict, error) {
	var last *answer
	err := c.post(ctx, "", "/v1/events/validate", http.Header{}, body, func(a *answer) error {
		last = a
		return nil
	})
	if err != nil {
		return nil, err
	}
	v := new(Verdict)
	if err := json.Unmarshal(last.body, v); err != nil {
		return nil, errors.New("client: the answer is no verdict; something between here and the service gave it")
	}
	return v, nil
}

// Contact is what a look at the service showed.
type Contact struct {
	Time      time.Time     // the service's clock, in whole seconds; zero if it did not say
	RoundTrip time.Duration // of the request
	TLS       string        // version of the connection; "" for plain http
	Expires   time.Time     // of the service's certificate; zero for plain http
}

// Probe asks for something that needs the key and costs little. It shows whether the service is there, takes the
// key, and agrees about the time.
func (c *Client) Probe(ctx context.Context) (*Contact, error) {
	a, err := c.read(ctx, "/v1/schema/events")
	if err != nil {
		return nil, err
	}
	contact := &Contact{RoundTrip: a.took, TLS: a.tlsVersion, Expires: a.certExpires}
	if t, err := http.ParseTime(a.header.Get("Date")); err == nil {
		contact.Time = t
	}
	return contact, nil
}
