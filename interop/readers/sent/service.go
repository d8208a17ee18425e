package sent

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// Line is one event that was sent, and what became of it.
type Line struct {
	In             string         `json:"in,omitempty"`            // table, or stream: accepted and not loaded
	SubmissionID   string         `json:"submission_id,omitempty"` // absent: the whole request was rejected
	Index          int            `json:"index"`
	IdempotencyKey string         `json:"idempotency_key,omitempty"`
	Code           string         `json:"error_code,omitempty"` // of a rejected event, which has no row
	Field          string         `json:"field,omitempty"`
	Body           map[string]any `json:"body"`
	Row            Row            `json:"row,omitempty"`
}

// CreateDataset makes a dataset and returns its API key.
func CreateDataset(program, dir, id string) (key string, err error) {
	out, err := exec.Command(program, "dataset", "create", id, "--data", dir, "--json").Output()
	if err != nil {
		return "", fmt.Errorf("create dataset %s: %w", id, err)
	}
	var made struct {
		Key string `json:"api_key"`
	}
	err = json.Unmarshal(out, &made)
	return made.Key, err
}

// Service is a sluice process that serves.
type Service struct {
	cmd      *exec.Cmd
	api, ops string
	done     chan struct{}
}

var served = regexp.MustCompile(`msg=serving api=(\S+) .*ops=(\S+)`)

// URL returns the address of the senders' listener.
func (s *Service) URL() string { return s.api }

// Ops returns the address of the operators' listener, without a slash at its end.
func (s *Service) Ops() string { return strings.TrimSuffix(s.ops, "/") }

// Start runs serve and returns once it is ready. Kill or Stop must be called on it.
func Start(program, dir string, args ...string) (*Service, error) {
	s := &Service{done: make(chan struct{})}
	s.cmd = exec.Command(program, append([]string{"serve", "--data", dir, "--listen", "127.0.0.1:0", "--ops", "127.0.0.1:0"}, args...)...)
	pipe, err := s.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	address := make(chan []string, 1)
	go func() {
		defer close(s.done)
		for lines := bufio.NewScanner(pipe); lines.Scan(); {
			if found := served.FindStringSubmatch(lines.Text()); found != nil {
				address <- found
			}
		}
	}()
	select {
	case found := <-address:
		s.api, s.ops = found[1], found[2]
	case <-s.done:
		s.Kill()
		return nil, errors.New("serve ended")
	case <-time.After(20 * time.Second):
		s.Kill()
		return nil, errors.New("serve does not say where it listens")
	}
	return s, Eventually(20*time.Second, "ready", func() error {
		r, err := http.Get(s.ops + "/readyz")
		if err != nil {
			return err
		}
		defer r.Body.Close()
		if r.StatusCode != http.StatusOK {
			return fmt.Errorf("readyz: %s", r.Status)
		}
		return nil
	})
}

// Kill ends the process at once.
func (s *Service) Kill() { s.end(syscall.SIGKILL) }

// Stop lets the process end its work.
func (s *Service) Stop() { s.end(syscall.SIGTERM) }

func (s *Service) end(signal syscall.Signal) {
	_ = s.cmd.Process.Signal(signal)
	<-s.done
	_ = s.cmd.Wait()
}

func (s *Service) call(method, key, path, body, once string, into any) (int, error) {
	r, err := http.NewRequest(method, s.api+path, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	r.Header.Set("Authorization", "Bearer "+key)
	r.Header.Set("Content-Type", "application/json")
	if once != "" {
		r.Header.Set("Idempotency-Key", once)
	}
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err
	}
	defer a.Body.Close()
	content, err := io.ReadAll(a.Body)
	if err != nil {
		return 0, err
	}
	return a.StatusCode, json.Unmarshal(content, into)
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
	return Eventually(30*time.Second, "processed", func() error {
		var got submission
		_, err := s.call(http.MethodGet, key, "/v1/submissions/"+id, "", "", &got)
		if err == nil && got.Status != "PROCESSED" {
			err = fmt.Errorf("status %s", got.Status)
		}
		return err
	})
}

// Send sends events in one request, with an idempotency key unless it is "". It returns what must come of each.
func (s *Service) Send(key string, events []Event, once string) ([]Line, error) {
	path, body, err := request(events)
	if err != nil {
		return nil, err
	}
	var receipt, found submission
	status, err := s.call(http.MethodPost, key, path, body, once, &receipt)
	if err != nil {
		return nil, err
	}
	if rejected := len(events) == 1 && events[0].Row == nil; rejected != (status != http.StatusOK) {
		return nil, fmt.Errorf("%s: got status %d %s %s", path, status, receipt.Code, receipt.Message)
	}
	if status == http.StatusOK {
		if _, err := s.call(http.MethodGet, key, "/v1/submissions/"+receipt.ID+"?include=events", "", "", &found); err != nil {
			return nil, err
		}
	}
	lines := make([]Line, len(events))
	for i, e := range events {
		lines[i] = Line{SubmissionID: receipt.ID, Index: i, IdempotencyKey: once, Code: e.Code, Field: e.At, Body: e.Body, Row: e.Row}
		if e.Row != nil {
			if err := complete(e.Row, &found, i); err != nil {
				return nil, err
			}
		}
	}
	return lines, nil
}

// request is a single event or a batch.
func request(events []Event) (path, body string, err error) {
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

// Eventually asks again and again until there is no error, at most for the time given.
func Eventually(within time.Duration, what string, ask func() error) error {
	deadline := time.Now().Add(within)
	for tick := time.NewTicker(20 * time.Millisecond); ; <-tick.C {
		err := ask()
		if err == nil || time.Now().After(deadline) {
			if err != nil {
				err = fmt.Errorf("%s: %w", what, err)
			}
			return err
		}
	}
}

// Again sends a body once more with its idempotency key, and returns the submission id of the answer and whether it says that
// it was replayed.
func (s *Service) Again(key, path, body, once string) (id, replayed string, err error) {
	r, err := http.NewRequest(http.MethodPost, s.api+path, strings.NewReader(body))
	if err != nil {
		return "", "", err
	}
	r.Header.Set("Authorization", "Bearer "+key)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", once)
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", "", err
	}
	defer a.Body.Close()
	var receipt submission
	if err := json.NewDecoder(a.Body).Decode(&receipt); err != nil {
		return "", "", err
	}
	if a.StatusCode != http.StatusOK {
		return "", "", fmt.Errorf("status %d %s %s", a.StatusCode, receipt.Code, receipt.Message)
	}
	return receipt.ID, a.Header.Get("Idempotency-Replayed"), nil
}
