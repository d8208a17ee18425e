package api

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/event"
	"sluice/internal/dataset"
	"sluice/internal/engine"
	"sluice/internal/listen"
	"sluice/internal/stream"
	"sluice/internal/submission"
)

// noon is the time at which most tests happen.
var noon = time.Date(2026, 11, 14, 12, 0, 0, 0, time.UTC)

// clock is a clock that tests set.
type clock struct{ ns atomic.Int64 }

func (c *clock) Now() time.Time          { return time.Unix(0, c.ns.Load()).UTC() }
func (c *clock) Set(t time.Time)         { c.ns.Store(t.UnixNano()) }
func (c *clock) Advance(d time.Duration) { c.ns.Add(int64(d)) }

// service is the real thing on a loopback port: engine, stream, registry and API.
type service struct {
	*Server
	t      testing.TB
	url    string
	key    string // of the dataset "shop"
	clock  *clock
	reg    *dataset.Registry
	log    *logBuffer
	stored *stream.Stream
	http   *http.Server
	stop   func()
}

// logBuffer keeps every line at every level.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// openServiceIn opens a service on a directory. change may alter the server before it starts.
func openServiceIn(t testing.TB, dir string, change func(*Server)) *service {
	t.Helper()
	return openServiceOn(t, dir, stream.Options{}, change)
}

// openServiceOn is openServiceIn with options of the stream.
func openServiceOn(t testing.TB, dir string, o stream.Options, change func(*Server)) *service {
	t.Helper()
	log := &logBuffer{}
	logger := slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	s := &service{t: t, clock: &clock{}, log: log}
	s.clock.Set(noon)
	e, err := engine.Open(t.Context(), engine.Options{Dir: dir, Log: logger})
	if err != nil {
		t.Fatal(err)
	}
	o.Log = logger
	st, err := stream.Open(t.Context(), e, o)
	if err != nil {
		t.Fatal(err)
	}
	s.reg, err = dataset.Open(t.Context(), e, dataset.Options{Log: logger, Now: s.clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	s.stored = st
	secret, err := e.Secret(t.Context(), "submissions")
	if err != nil {
		t.Fatal(err)
	}
	ids, err := submission.NewIDs(secret)
	if err != nil {
		t.Fatal(err)
	}
	s.Server = &Server{
		IDs: ids, BodyDigest: submission.NewBodyDigest(secret), Keys: s.reg, Stream: st, Now: s.clock.Now, Log: logger, Lookup: oneSubmission{new(submission.Submission)},
		Processed: func(stream.Position) bool { return false }, Known: func() error { return nil }, BacklogAge: func() time.Duration { return 0 },
		Share: func() float64 { return 1 }, Suppression: func(string) event.SuppressionList { return nil },
		Limits: Limits{BytesInFlight: 256 << 20, Connections: 64 << 20 / listen.ConnectionCost, KeyAge: 72 * time.Hour},
	}
	if change != nil {
		change(s.Server)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.url = "http://" + listener.Addr().String()
	s.http = listen.NewServer(s.Server, nil, logger)
	ctx, cancel := context.WithCancel(context.Background())
	streamCtx, stopStream := context.WithCancel(context.Background())
	var apiRun, streamRun sync.WaitGroup
	streamRun.Go(func() { _ = st.Run(streamCtx) })
	apiRun.Go(func() { _ = s.Run(ctx) })
	go s.http.Serve(s.Limit(listener))
	waitFor(t, "the stream", func() bool { return st.Ready() == nil })
	s.stop = sync.OnceFunc(func() {
		stopping, stopped := context.WithTimeout(context.Background(), 10*time.Second)
		defer stopped()
		if err := s.http.Shutdown(stopping); err != nil {
			t.Errorf("shut down: %v", err)
		}
		cancel()
		apiRun.Wait()
		stopStream()
		streamRun.Wait()
		st.Close()
		e.Close()
	})
	t.Cleanup(s.stop)
	return s
}

// dataset makes a dataset and returns its key.
func (s *service) dataset(spec dataset.Spec) string {
	s.t.Helper()
	_, _, key, err := s.reg.Create(s.t.Context(), spec)
	if err != nil {
		s.t.Fatal(err)
	}
	return key.Reveal()
}

var specShop = dataset.Spec{ID: "shop"}

// openShop is a service with the dataset "shop".
func openShop(t testing.TB) *service {
	t.Helper()
	s := openServiceIn(t, t.TempDir(), nil)
	s.key = s.dataset(specShop)
	return s
}

// reply is an answer read to its end, without the newline that every one in JSON ends with.
type reply struct {
	*http.Response
	text string
}

// object is the answer as JSON.
func (r reply) object(t testing.TB) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal([]byte(r.text), &m); err != nil {
		t.Fatalf("%v in %q", err, r.text)
	}
	return m
}

// decodeJSON reads an answer's body and closes it.
func decodeJSON(resp *http.Response, into any) error {
	defer resp.Body.Close()
	return json.NewDecoder(resp.Body).Decode(into)
}

func (r reply) code(t testing.TB) string {
	t.Helper()
	s, _ := r.object(t)["error_code"].(string)
	return s
}

var testClient = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 128, DisableCompression: true}}

// send makes a request with the service's key. headers are "Name: value"; "Name:" removes one.
func (s *service) send(method, path, body string, headers ...string) reply {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+s.key)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ":")
		if value = strings.TrimSpace(value); value == "" {
			r.Header.Del(name)
			continue
		}
		r.Header.Add(name, value)
	}
	return s.roundTrip(r)
}

func (s *service) roundTrip(r *http.Request) reply {
	s.t.Helper()
	resp, err := testClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	text, ends := strings.CutSuffix(string(b), "\n")
	if !ends && len(b) > 0 && resp.Header.Get("Content-Type") == "application/json" {
		s.t.Errorf("%s %s: the answer does not end with a newline", r.Method, r.URL.Path)
	}
	return reply{resp, text}
}

func (s *service) post(path, body string, headers ...string) reply {
	s.t.Helper()
	return s.send("POST", path, body, headers...)
}

// records are all records in the stream.
func (s *service) records(t testing.TB) []*submission.Submission {
	t.Helper()
	var out []*submission.Submission
	err := s.stored.Scan(t.Context(), 0, 0, func(f stream.Frame) error {
		for slot, record := range f.Records {
			r, err := s.IDs.DecodeRecord(string(record), 0, f.Seq, uint16(slot))
			if err != nil {
				return err
			}
			out = append(out, r)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
