package sent

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"syscall"
	"time"

	"sluice/internal/servicetest"
)

// Where an event is.
const (
	InTable  = "table"
	InStream = "stream" // accepted, and not loaded
	Erased   = "erased" // from the table
)

// Access is what opens a data directory that others made, and what was sent to it with an idempotency key.
type Access struct {
	Keys     map[string]string `json:"keys"`   // API keys, by dataset
	Reader   string            `json:"reader"` // token of a reader
	Requests []Keyed           `json:"requests"`

	Suppressed string `json:"suppressed"` // hash of an address that is on the suppression list
}

// Deleted is a dataset that was deleted.
const Deleted = "deleted"

// Provision makes what the engine holds beside datasets, keys and readers: a dataset that was deleted, the retention of another,
// an entry of the suppression list, which is returned, and settings of the views.
func Provision(dataset string, run func(args ...string) error) (suppressed string, err error) {
	suppressed = fmt.Sprintf("%x", sha256.Sum256([]byte("suppressed@example.com")))
	for _, args := range [][]string{
		{"dataset", "create", Deleted},
		{"dataset", "delete", Deleted, "--yes"},
		{"dataset", "set", dataset, "--retention", "36000", "--yes"},
		{"suppression", "add", "--email-sha256", suppressed},
		{"lake", "views", "--dialect", "duckdb", "--window", "7d", "--save"},
	} {
		if err := run(args...); err != nil {
			return "", err
		}
	}
	return suppressed, nil
}

// Keyed is a request with an idempotency key, which can be sent again.
type Keyed struct {
	In             string `json:"in"` // InTable or InStream
	Dataset        string `json:"data_set_id"`
	Path           string `json:"path"`
	IdempotencyKey string `json:"idempotency_key"`
	Body           string `json:"body"`
	SubmissionID   string `json:"submission_id"` // of its receipt
}

// ForEver are flags with which nothing in a data directory ages.
func ForEver() []string { return []string{"--stream-retention", "36500d", "--table-retention", "0"} }

// Line is one event that was sent, and what became of it.
type Line struct {
	In             string         `json:"in,omitempty"`            // InTable, InStream or Erased
	SubmissionID   string         `json:"submission_id,omitempty"` // absent: the whole request was rejected
	Index          int            `json:"index"`
	IdempotencyKey string         `json:"idempotency_key,omitempty"`
	Code           string         `json:"error_code,omitempty"` // of a rejected event, which has no row
	Field          string         `json:"field,omitempty"`
	Body           map[string]any `json:"body,omitempty"`
	Row            Row            `json:"row,omitempty"`
}

// CreateDataset makes a dataset and returns its API key.
func CreateDataset(program, dir, id string) (key string, err error) {
	key, _, err = servicetest.Program{Path: program}.CreateDataset(context.Background(), dir, id)
	return key, err
}

// Service is a sluice process that serves.
type Service struct{ *servicetest.Server }

// Start runs serve and returns once it is ready. Kill or Stop must be called on it.
func Start(program, dir string, args ...string) (*Service, error) {
	s, err := servicetest.Launch{Program: servicetest.Program{Path: program}, Data: dir, Args: args}.Start()
	return &Service{s}, err
}

// Kill ends the process at once.
func (s *Service) Kill() { s.Server.Stop(syscall.SIGKILL) }

// Stop lets the process end its work.
func (s *Service) Stop() { s.Server.Stop(syscall.SIGTERM) }

func (s *Service) call(method, key, path, body, idempotencyKey string, into any) (servicetest.Answer, error) {
	var headers []string
	if idempotencyKey != "" {
		headers = []string{"Idempotency-Key", idempotencyKey}
	}
	a, err := s.Call(method, key, path, body, headers...)
	if err == nil {
		err = json.Unmarshal(a.Body, into)
	}
	return a, err
}

// submission is what the service tells of one.
type submission struct {
	ID       string    `json:"submission_id"`
	Received time.Time `json:"received_at"`
	Status   string    `json:"status"`
	Code     string    `json:"error_code"`
	Message  string    `json:"message"`
	Events   []struct {
		Index    int    `json:"index"`
		ID       string `json:"event_id"`
		Late     bool   `json:"late"`
		Privacy  string `json:"privacy"`
		Eligible bool   `json:"optimization_eligible"`
	} `json:"events"`
}

// AwaitProcessed waits until the events of a submission are in the table.
func (s *Service) AwaitProcessed(key, id string) error {
	return servicetest.Await(30*time.Second, "processed", func() error {
		var got submission
		_, err := s.call(http.MethodGet, key, "/v1/submissions/"+id, "", "", &got)
		if err == nil && got.Status != "PROCESSED" {
			err = fmt.Errorf("status %s", got.Status)
		}
		return err
	})
}

// Send sends events in one request, with an idempotency key unless it is "". It returns what must come of each.
func (s *Service) Send(key string, events []Event, idempotencyKey string) ([]Line, error) {
	path, body, err := Request(events)
	if err != nil {
		return nil, err
	}
	var receipt, found submission
	answer, err := s.call(http.MethodPost, key, path, body, idempotencyKey, &receipt)
	if err != nil {
		return nil, err
	}
	if rejected := len(events) == 1 && events[0].Row == nil; rejected != (answer.Status != http.StatusOK) {
		return nil, fmt.Errorf("%s: got status %d %s %s", path, answer.Status, receipt.Code, receipt.Message)
	}
	if answer.Status == http.StatusOK {
		if _, err := s.call(http.MethodGet, key, "/v1/submissions/"+receipt.ID+"?include=events", "", "", &found); err != nil {
			return nil, err
		}
	}
	lines := make([]Line, len(events))
	for i, e := range events {
		lines[i] = Line{SubmissionID: receipt.ID, Index: i, IdempotencyKey: idempotencyKey, Code: e.Code, Field: e.At, Body: e.Body, Row: e.Row}
		if e.Row != nil {
			if err := complete(e.Row, &found, i); err != nil {
				return nil, err
			}
		}
	}
	return lines, nil
}

// Request is the request that sends events: a single one or a batch.
func Request(events []Event) (path, body string, err error) {
	var content any = events[0].Body
	path = "/v1/events"
	if len(events) > 1 {
		path = "/v1/events/batch"
		bodies := make([]map[string]any, len(events))
		for i := range events {
			bodies[i] = events[i].Body
		}
		content = bodies
	}
	b, err := json.Marshal(content)
	return path, string(b), err
}

// complete adds to a row what the service decided, and holds what it says of the event against the row.
func complete(row Row, found *submission, index int) error {
	for _, e := range found.Events {
		if e.Index != index {
			continue
		}
		if e.Late != row["late"] || e.Privacy != row["privacy"] || e.Eligible != row["optimization_eligible"] {
			return fmt.Errorf("event %d of %s: got %+v, want %v, %v, %v", index, found.ID, e, row["late"], row["privacy"], row["optimization_eligible"])
		}
		row["event_id"], row["submission_id"], row["submission_index"] = e.ID, found.ID, int64(index)
		row["received_at"] = found.Received.UnixMicro()
		return nil
	}
	return fmt.Errorf("event %d of %s is not known", index, found.ID)
}
