package console

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// collected is what a collector reads of a request, by the names of the protocol.
type collected struct {
	ResourceSpans []struct {
		Resource struct {
			Attributes []collectedAttribute
		}
		ScopeSpans []struct {
			Scope struct{ Name string }
			Spans []struct {
				TraceID, SpanID, Name, StartTimeUnixNano, EndTimeUnixNano string
				Kind                                                      int
				Attributes                                                []collectedAttribute
				Links                                                     []struct{ TraceID, SpanID string }
				Status                                                    struct {
					Code    int
					Message string
				}
			}
		}
	}
}

type collectedAttribute struct {
	Key   string
	Value map[string]string
}

func values(list []collectedAttribute) map[string]string {
	out := map[string]string{}
	for _, a := range list {
		for kind, v := range a.Value {
			out[a.Key] = kind + " " + v
		}
	}
	return out
}

// Spans reach a collector by OTLP, with ids, times, attributes, links and status as the protocol spells them.
func TestTracesAreSent(t *testing.T) {
	got := make(chan collected, 1)
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var c collected
		if err != nil || json.Unmarshal(body, &c) != nil || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("got %s %s %s", r.URL.Path, r.Header, body)
		}
		got <- c
	}))
	defer collector.Close()
	traces, err := OpenTraces(collector.URL+"/", "v1", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest("POST", "/v1/events", strings.NewReader("12345"))
	r.Header.Set("Traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	traces.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) })).ServeHTTP(httptest.NewRecorder(), r)
	if err := traces.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := <-got
	if len(c.ResourceSpans) != 1 || len(c.ResourceSpans[0].ScopeSpans) != 1 || len(c.ResourceSpans[0].ScopeSpans[0].Spans) != 1 {
		t.Fatalf("got %+v, want one span", c)
	}
	if about := values(c.ResourceSpans[0].Resource.Attributes); about["service.name"] != "stringValue sluice" || about["service.version"] != "stringValue v1" {
		t.Errorf("got the resource %v", about)
	}
	s := c.ResourceSpans[0].ScopeSpans[0].Spans[0]
	if s.Name != "POST /v1/events" || s.Kind != 2 || len(s.TraceID) != 32 || len(s.SpanID) != 16 || len(s.StartTimeUnixNano) != 19 || s.EndTimeUnixNano < s.StartTimeUnixNano {
		t.Errorf("got %+v", s)
	}
	if a := values(s.Attributes); a["http.response.status_code"] != "intValue 503" || a["http.route"] != "stringValue /v1/events" || a["http.request.body.size"] != "intValue 5" {
		t.Errorf("got the attributes %v", a)
	}
	if len(s.Links) != 1 || s.Links[0].TraceID != "4bf92f3577b34da6a3ce929d0e0e4736" || s.Links[0].SpanID != "00f067aa0ba902b7" || s.Status.Code != 2 {
		t.Errorf("got %+v", s)
	}
	if _, err := OpenTraces("localhost:4318", "v1", nil); err == nil {
		t.Error("an address without a scheme was taken")
	}
}

// A collector that fails costs spans. The log says so once, and once more when it works again.
func TestTracesOfAFailingCollector(t *testing.T) {
	var status atomic.Int64
	status.Store(http.StatusServiceUnavailable)
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(int(status.Load())) }))
	defer collector.Close()
	var log bytes.Buffer
	traces, err := OpenTraces(collector.URL, "v1", slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	h := traces.Wrap(http.NotFoundHandler())
	send := func() {
		began := time.Now()
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/docs", nil))
		if took := time.Since(began); took > time.Second {
			t.Errorf("a request waited %v for the collector", took)
		}
		if err := traces.provider.ForceFlush(t.Context()); err != nil {
			t.Error(err)
		}
	}
	send()
	send()
	status.Store(http.StatusOK)
	send()
	send()
	if got := log.String(); strings.Count(got, "traces are not sent") != 1 || !strings.Contains(got, "answered 503") || strings.Count(got, "traces are sent again") != 1 {
		t.Errorf("got the log %s", got)
	}
}

// What the SDK finds wrong, such as a setting in its own variables, is in our log.
func TestErrorsOfTheTraceSDKAreLogged(t *testing.T) {
	t.Setenv("OTEL_TRACES_SAMPLER", "nonsense")
	var log bytes.Buffer
	traces, err := OpenTraces("http://127.0.0.1:1", "dev", slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	if err := traces.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if !strings.Contains(log.String(), "level=WARN msg=traces") || !strings.Contains(log.String(), "nonsense") {
		t.Errorf("got %q, want a warning about the sampler", log.String())
	}
}
