// Package trace sends a span for each request of the senders' API to an OpenTelemetry collector.
package trace

import (
	"context"
	"log/slog"
	"net/http"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"sluice/internal/api"
)

// Exporter sends a span for each request of the senders' API to an OpenTelemetry collector. A span says method,
// route, status and size, never a value: no path beyond its route, no query, no key, no event.
type Exporter struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	context  propagation.TraceContext
}

// Open prepares to send spans by OTLP over HTTP, to where the variables of OpenTelemetry say
// (OTEL_EXPORTER_OTLP_ENDPOINT and its like). Nothing is sent until there are spans, and a collector that does not
// answer costs spans, not requests.
func Open(ctx context.Context, version string, log *slog.Logger) (*Exporter, error) {
	// What the SDK itself has to say goes to the log, too; it would write to standard error in a form of its own.
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("traces", "error", err) }))
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, err
	}
	return newExporter(sdktrace.WithBatcher(&quietExporter{SpanExporter: exporter, log: log}), version), nil
}

// quietExporter says once that spans are not taken, and once that they are again. The SDK calls it from one goroutine.
type quietExporter struct {
	sdktrace.SpanExporter
	log    *slog.Logger
	failed bool
}

func (e *quietExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := e.SpanExporter.ExportSpans(ctx, spans)
	switch {
	case err != nil && !e.failed:
		e.log.Warn("traces are not sent", "error", err)
	case err == nil && e.failed:
		e.log.Info("traces are sent again")
	}
	e.failed = err != nil
	return nil
}

func newExporter(sink sdktrace.TracerProviderOption, version string) *Exporter {
	about := resource.NewSchemaless(attribute.String("service.name", "sluice"),
		attribute.String("service.version", version))
	p := sdktrace.NewTracerProvider(sink, sdktrace.WithResource(about),
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.AlwaysSample())))
	return &Exporter{provider: p, tracer: p.Tracer("sluice/internal/api")}
}

// Wrap puts a span around each request. A sender's traceparent becomes a link: the sender decides neither which trace a
// span belongs to nor whether it is sampled. Its tracestate is dropped, because it may hold anything.
func (t *Exporter) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		route := api.Route(r.URL.Path)
		ctx, span := t.tracer.Start(r.Context(), method(r.Method)+" "+route, trace.WithSpanKind(trace.SpanKindServer),
			trace.WithLinks(t.links(r)...), trace.WithAttributes(
				attribute.String("http.request.method", method(r.Method)), attribute.String("http.route", route),
				attribute.Int64("http.request.body.size", r.ContentLength),
			))
		defer span.End()
		seen := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		next.ServeHTTP(seen, r.WithContext(ctx))
		span.SetAttributes(attribute.Int("http.response.status_code", seen.status))
		if seen.status >= 500 {
			span.SetStatus(codes.Error, http.StatusText(seen.status))
		}
	})
}

// links names the sender's span, if it names one.
func (t *Exporter) links(r *http.Request) []trace.Link {
	sender := trace.SpanContextFromContext(t.context.Extract(context.Background(), propagation.HeaderCarrier(r.Header)))
	if !sender.IsValid() {
		return nil
	}
	return []trace.Link{{SpanContext: sender.WithTraceState(trace.TraceState{})}}
}

// Close sends what is waiting.
func (t *Exporter) Close(ctx context.Context) error { return t.provider.Shutdown(ctx) }

// method keeps a made-up method out of span names.
func method(m string) string {
	switch m {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions,
		http.MethodPatch:
		return m
	}
	return "_OTHER"
}

// statusWriter remembers the status. Unwrap lets deadlines through to the connection.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
