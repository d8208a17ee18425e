package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// Submission is what the service knows of a submission.
type Submission struct {
	SubmissionID string            `json:"submission_id"`
	DatasetID    string            `json:"data_set_id"`
	ReceivedAt   time.Time         `json:"received_at"`
	Status       string            `json:"status"` // RECEIVED, then PROCESSED
	Accepted     int               `json:"accepted"`
	Rejected     int               `json:"rejected"`
	Late         int               `json:"late"`
	Restricted   int               `json:"restricted"`
	Suppressed   int               `json:"suppressed"`
	Events       []SubmissionEvent `json:"events,omitempty"` // of StatusEvents
}

// SubmissionEvent is one accepted event of a submission.
type SubmissionEvent struct {
	Index                int    `json:"index"`
	EventID              string `json:"event_id"`
	EventType            string `json:"event_type"`
	Late                 bool   `json:"late"`
	Privacy              string `json:"privacy"`
	OptimizationEligible bool   `json:"optimization_eligible"`
}

// Status looks a submission of the key's own dataset up. It is known from the instant its receipt was sent.
func (c *Client) Status(ctx context.Context, submissionID string) (*Submission, error) {
	return c.status(ctx, submissionID, "")
}

// StatusEvents is Status with the list of accepted events.
func (c *Client) StatusEvents(ctx context.Context, submissionID string) (*Submission, error) {
	return c.status(ctx, submissionID, "?include=events")
}

func (c *Client) status(ctx context.Context, id, query string) (*Submission, error) {
	return readJSON(ctx, c, "/v1/submissions/"+url.PathEscape(id)+query, "the submission",
		func(s *Submission) bool { return s.SubmissionID == id })
}

// Schema is the service's JSON Schema of an event.
func (c *Client) Schema(ctx context.Context) ([]byte, error) {
	a, err := c.read(ctx, "/v1/schema/events")
	if err != nil {
		return nil, err
	}
	if !json.Valid(a.body) {
		return nil, errors.New("client: read the schema: the answer is not the service's own")
	}
	return a.body, nil
}

// read repeats a GET until its answer is final.
func (c *Client) read(ctx context.Context, path string) (a *answer, err error) {
	err = c.repeat(ctx, "", func(ctx context.Context) error {
		a, err = c.exchange(ctx, http.MethodGet, path, nil, nil)
		return err
	})
	return a, err
}

// readJSON is read for an answer in JSON; what names it in an error, and ours says whether it can be the service's:
// what is between may answer, too.
func readJSON[T any](ctx context.Context, c *Client, path, what string, ours func(*T) bool) (*T, error) {
	a, err := c.read(ctx, path)
	if err != nil {
		return nil, err
	}
	v := new(T)
	if err := json.Unmarshal(a.body, v); err != nil || !ours(v) {
		return nil, fmt.Errorf("client: read %s: the answer is not the service's own", what)
	}
	return v, nil
}
