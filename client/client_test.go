package client

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
)

func TestNewRejects(t *testing.T) {
	for name, tt := range map[string]struct{ url, key string }{
		"no scheme":       {"events.example.com", "k"},
		"another scheme":  {"ftp://events.example.com", "k"},
		"empty":           {"", "k"},
		"plain http":      {"http://events.example.com", "k"},
		"a user":          {"https://me@events.example.com", "k"},
		"a query":         {"https://events.example.com?x=1", "k"},
		"no key":          {"https://events.example.com", ""},
		"key with a line": {"https://events.example.com", "abc\n"},
		"key with spaces": {"https://events.example.com", "a b"},
	} {
		if _, err := New(tt.url, tt.key, Options{}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	for _, url := range []string{"http://localhost:8080", "http://127.0.0.1:1/", "http://[::1]:1", "https://events.example.com/base/"} {
		if _, err := New(url, "k", Options{}); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
	if _, err := New("http://events.example.com", "k", Options{PlainHTTP: true}); err != nil {
		t.Error(err)
	}
}

// The key appears in the Authorization header and nowhere a Client or its errors can be printed.
func TestKeyDoesNotPrint(t *testing.T) {
	const secret = "sk-canary-7781"
	c, err := New("http://127.0.0.1:1", secret, Options{Transport: inside{http.NotFoundHandler()}})
	if err != nil {
		t.Fatal(err)
	}
	_, sendErr := c.Send(t.Context(), purchase())
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "client", c, "err", sendErr)
	all := fmt.Sprintf("%v %+v %#v %s %v", c, c, *c, sendErr, NewQueue(c, QueueOptions{})) + log.String()
	if strings.Contains(all, secret) {
		t.Errorf("the key is printed: %s", all)
	}
}

func TestStatusAndSchema(t *testing.T) {
	s := &service{answer: func(_ int, w http.ResponseWriter, r *http.Request) bool {
		switch r.URL.String() {
		case "/v1/submissions/batch.1":
			fmt.Fprint(w, `{"submission_id":"batch.1","data_set_id":"d","received_at":"2026-11-14T23:40:05Z","status":"PROCESSED","accepted":2,"rejected":1,"late":1,"restricted":0,"suppressed":0}`)
		case "/v1/submissions/batch.1?include=events":
			fmt.Fprint(w, `{"submission_id":"batch.1","status":"PROCESSED","events":[{"index":1,"event_id":"x","event_type":"purchase","privacy":"unrestricted"}]}`)
		case "/v1/schema/events":
			fmt.Fprint(w, `{"$schema":"x"}`)
		default:
			return fail(w, 404, "NOT_FOUND")
		}
		return true
	}}
	c := start(t, s, Options{})
	sub, err := c.Status(t.Context(), "batch.1")
	if err != nil || sub.Status != "PROCESSED" || sub.Accepted != 2 || sub.Late != 1 || sub.ReceivedAt.IsZero() {
		t.Errorf("Status: got %+v, %v", sub, err)
	}
	sub, err = c.StatusEvents(t.Context(), "batch.1")
	if err != nil || len(sub.Events) != 1 || sub.Events[0].Index != 1 {
		t.Errorf("StatusEvents: got %+v, %v", sub, err)
	}
	if _, err := c.Status(t.Context(), "../schema/events"); err == nil {
		t.Error("an id with slashes reached another path")
	}
	if schema, err := c.Schema(t.Context()); err != nil || string(schema) != `{"$schema":"x"}` {
		t.Errorf("Schema: got %s, %v", schema, err)
	}
	// A page of what is between, or the answer to another question, is no answer.
	for _, foreign := range []string{"<html>Welcome</html>", `{}`, `{"submission_id":"batch.2"}`, "null"} {
		s.answer = func(_ int, w http.ResponseWriter, _ *http.Request) bool {
			fmt.Fprint(w, foreign)
			return true
		}
		_, err := c.Status(t.Context(), "batch.1")
		_, statsErr := c.Stats(t.Context(), "")
		for _, err := range []error{err, statsErr} {
			if err == nil || !strings.Contains(err.Error(), "not the service's own") {
				t.Errorf("%s: got %v", foreign, err)
			}
		}
	}
}
