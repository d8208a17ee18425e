package console

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// exportTimeout bounds one export. Arbitrary; the SDK waits three times as long.
const exportTimeout = 10 * time.Second

// otlpExporter sends spans by OTLP over HTTP, as JSON. The SDK batches them and calls it from one goroutine. Spans that a
// collector does not take are dropped: the log says so once, and once more when it takes them again.
type otlpExporter struct {
	url    string
	client *http.Client
	log    *slog.Logger
	failed atomic.Bool
}

func newOTLPExporter(url string, log *slog.Logger) *otlpExporter {
	return &otlpExporter{url: url, client: &http.Client{Timeout: exportTimeout}, log: log}
}

// ExportSpans sends a batch. It logs what goes wrong and returns nil: the SDK would print an error past the log.
func (e *otlpExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	if len(spans) == 0 {
		return nil
	}
	err := e.post(ctx, spans)
	switch {
	case err != nil && !e.failed.Swap(true):
		e.log.Warn("traces are not sent", "error", err)
	case err == nil && e.failed.Swap(false):
		e.log.Info("traces are sent again")
	}
	return nil
}

func (e *otlpExporter) post(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	body, err := json.Marshal(otlpRequest(spans))
	if err != nil {
		return fmt.Errorf("encode spans: %w", err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("send spans: %w", err)
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := e.client.Do(r)
	if err != nil {
		return fmt.Errorf("send spans: %w", err)
	}
	defer answer.Body.Close()
	_, _ = io.CopyN(io.Discard, answer.Body, 64<<10) // so that the connection can be used again
	if answer.StatusCode/100 != 2 {
		return fmt.Errorf("send spans: the collector answered %d", answer.StatusCode)
	}
	return nil
}

// Shutdown closes idle connections. The SDK has exported everything before.
func (e *otlpExporter) Shutdown(context.Context) error {
	e.client.CloseIdleConnections()
	return nil
}

// The members of OTLP's JSON encoding that our spans use. 64-bit numbers are strings there, and ids are hexadecimal.
type (
	otlpTraces struct {
		ResourceSpans []otlpResourceSpans `json:"resourceSpans"`
	}
	otlpResourceSpans struct {
		Resource   otlpResource     `json:"resource"`
		ScopeSpans []otlpScopeSpans `json:"scopeSpans"`
	}
	otlpResource struct {
		Attributes []otlpAttribute `json:"attributes"`
	}
	otlpScopeSpans struct {
		Scope otlpScope  `json:"scope"`
		Spans []otlpSpan `json:"spans"`
	}
	otlpScope struct {
		Name string `json:"name"`
	}
	otlpSpan struct {
		TraceID    string          `json:"traceId"`
		SpanID     string          `json:"spanId"`
		ParentID   string          `json:"parentSpanId,omitempty"`
		Name       string          `json:"name"`
		Kind       int             `json:"kind"`
		Start      string          `json:"startTimeUnixNano"`
		End        string          `json:"endTimeUnixNano"`
		Attributes []otlpAttribute `json:"attributes,omitempty"`
		Links      []otlpLink      `json:"links,omitempty"`
		Status     otlpStatus      `json:"status"`
	}
	otlpLink struct {
		TraceID string `json:"traceId"`
		SpanID  string `json:"spanId"`
	}
	otlpStatus struct {
		Code    int    `json:"code,omitempty"`
		Message string `json:"message,omitempty"`
	}
	otlpAttribute struct {
		Key   string    `json:"key"`
		Value otlpValue `json:"value"`
	}
	otlpValue struct {
		String *string `json:"stringValue,omitempty"`
		Int    *string `json:"intValue,omitempty"`
	}
)

// otlpRequest is the body for spans of one resource and one scope, which all of ours are.
func otlpRequest(spans []sdktrace.ReadOnlySpan) otlpTraces {
	first := spans[0]
	scope := otlpScopeSpans{Scope: otlpScope{first.InstrumentationScope().Name}}
	for _, s := range spans {
		scope.Spans = append(scope.Spans, newOTLPSpan(s))
	}
	return otlpTraces{[]otlpResourceSpans{{otlpResource{otlpAttributes(first.Resource().Attributes())}, []otlpScopeSpans{scope}}}}
}

func newOTLPSpan(s sdktrace.ReadOnlySpan) otlpSpan {
	out := otlpSpan{
		TraceID: s.SpanContext().TraceID().String(), SpanID: s.SpanContext().SpanID().String(), Name: s.Name(), Kind: otlpKind(s.SpanKind()),
		Start: strconv.FormatInt(s.StartTime().UnixNano(), 10), End: strconv.FormatInt(s.EndTime().UnixNano(), 10), Attributes: otlpAttributes(s.Attributes()),
	}
	if p := s.Parent(); p.HasSpanID() {
		out.ParentID = p.SpanID().String()
	}
	for _, l := range s.Links() {
		out.Links = append(out.Links, otlpLink{l.SpanContext.TraceID().String(), l.SpanContext.SpanID().String()})
	}
	if s.Status().Code == codes.Error {
		out.Status = otlpStatus{2, s.Status().Description}
	}
	return out
}

// otlpKind is the number of a kind in OTLP: 1 is internal, 2 a server.
func otlpKind(k trace.SpanKind) int {
	if k == trace.SpanKindServer {
		return 2
	}
	return 1
}

func otlpAttributes(all []attribute.KeyValue) []otlpAttribute {
	var out []otlpAttribute
	for _, a := range all {
		v := a.Value.String()
		value := otlpValue{String: &v}
		if a.Value.Type() == attribute.INT64 {
			value = otlpValue{Int: &v}
		}
		out = append(out, otlpAttribute{string(a.Key), value})
	}
	return out
}
