package trace

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	collected "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Spans reach a collector by OTLP, where the variables say, with ids, attributes, links and status.
func TestTracesAreSent(t *testing.T) {
	got := make(chan *collected.ExportTraceServiceRequest, 1)
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		c := &collected.ExportTraceServiceRequest{}
		if err != nil || proto.Unmarshal(body, c) != nil || r.URL.Path != "/v1/traces" || r.Header.Get("Api-Key") != "secret" {
			t.Errorf("got %s %s %s", r.URL.Path, r.Header, body)
		}
		got <- c
	}))
	defer collector.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=secret")
	traces, err := Open(t.Context(), "v1", slog.New(slog.DiscardHandler))
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
	s := c.ResourceSpans[0].ScopeSpans[0].Spans[0]
	if s.Name != "POST /v1/events" || len(s.Links) != 1 || hex.EncodeToString(s.Links[0].TraceId) != "4bf92f3577b34da6a3ce929d0e0e4736" || s.Status.Code != 2 {
		t.Errorf("got %+v", s)
	}
	text := fmt.Sprint(c.ResourceSpans[0].Resource.Attributes, s.Attributes)
	for _, want := range []string{"service.version", "http.response.status_code", "503", "http.route", "/v1/events", "http.request.body.size"} {
		if !strings.Contains(text, want) {
			t.Errorf("got the attributes %s, want %s among them", text, want)
		}
	}
}

// A collector that fails costs spans. The log says so once, and once more when it works again.
func TestTracesOfAFailingCollector(t *testing.T) {
	var status atomic.Int64
	status.Store(http.StatusForbidden) // it would be tried again for a while otherwise
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(int(status.Load())) }))
	defer collector.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	var log bytes.Buffer
	traces, err := Open(t.Context(), "v1", slog.New(slog.NewTextHandler(&log, nil)))
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
	if got := log.String(); strings.Count(got, "traces are not sent") != 1 || !strings.Contains(got, "403") || strings.Count(got, "traces are sent again") != 1 {
		t.Errorf("got the log %s", got)
	}
}

// What the SDK finds wrong, such as a setting in its own variables, is in our log.
func TestErrorsOfTheTraceSDKAreLogged(t *testing.T) {
	t.Setenv("OTEL_TRACES_SAMPLER", "nonsense")
	var log bytes.Buffer
	traces, err := Open(t.Context(), "dev", slog.New(slog.NewTextHandler(&log, nil)))
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

// Spans have a name per route and hold no value.
func TestTraces(t *testing.T) {
	seen := tracetest.NewSpanRecorder()
	traces := newExporter(sdktrace.WithSpanProcessor(seen), "v1")
	h := traces.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "batch") {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	for _, path := range []string{"/v1/events", "/v1/events/batch", "/v1/submissions/single.deadbeef?include=events&x=deadbeef", "/deadbeef"} {
		r := httptest.NewRequest("POST", path, strings.NewReader("deadbeef"))
		r.Header.Set("Authorization", "Bearer deadbeef")
		r.Header.Set("Traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00") // and not sampled
		r.Header.Set("Tracestate", "vendor=deadbeef")
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("DEADBEEF", "/v1/events", nil))
	var names []string
	for _, span := range seen.Ended() {
		names = append(names, span.Name()+" "+span.Status().Code.String())
		if text := fmt.Sprint(span.Name(), span.Attributes(), span.Events(), span.Status(), span.SpanContext().TraceState(), span.Parent(), span.Links()); strings.Contains(strings.ToLower(text), "deadbeef") {
			t.Errorf("a span holds a value: %s", text)
		}
	}
	want := "POST /v1/events Unset|POST /v1/events/batch Error|POST /v1/submissions/{submission_id} Unset|POST other Unset|_OTHER /v1/events Unset"
	if got := strings.Join(names, "|"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	first := seen.Ended()[0]
	const sender = "4bf92f3577b34da6a3ce929d0e0e4736"
	if first.SpanContext().TraceID().String() == sender || first.Parent().IsValid() {
		t.Error("the sender decides which trace a span belongs to")
	}
	if links := first.Links(); len(links) != 1 || links[0].SpanContext.TraceID().String() != sender {
		t.Errorf("got the links %v, want one to the sender's span", links)
	}
}
