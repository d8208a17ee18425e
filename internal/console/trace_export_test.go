package console

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
	traces, err := OpenTraces(t.Context(), "v1", slog.New(slog.DiscardHandler))
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
	traces, err := OpenTraces(t.Context(), "v1", slog.New(slog.NewTextHandler(&log, nil)))
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
	traces, err := OpenTraces(t.Context(), "dev", slog.New(slog.NewTextHandler(&log, nil)))
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
