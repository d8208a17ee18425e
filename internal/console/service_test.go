package console

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/event"
	"sluice/internal/access"
	"sluice/internal/api"
	"sluice/internal/audit"
	"sluice/internal/cluster"
	"sluice/internal/dataset"
	"sluice/internal/engine"
	"sluice/internal/feed"
	"sluice/internal/hours"
	"sluice/internal/lake"
	"sluice/internal/listen"
	"sluice/internal/loader"
	"sluice/internal/stream"
	"sluice/internal/submission"
)

// password opens the consoles that ask for one.
const password = "correct horse battery staple"

// service is the whole service on a directory, as serve wires it, with the console on a loopback port.
type service struct {
	t       testing.TB
	dir     string
	engine  *engine.Engine
	audit   *audit.Log
	reg     *dataset.Registry
	readers *dataset.Readers
	stream  *stream.Stream
	lake    *lake.Lake
	loader  *loader.Loader
	backlog *loader.Backlog
	api     *api.Server
	console *Console
	apiURL  string
	url     string
	ops     *http.Server
	stop    func()
	keys    map[string]string
}

func openService(t testing.TB) *service { return openServiceIn(t, t.TempDir(), nil) }

// openServiceIn opens a service on a directory; change may alter the console's options.
func openServiceIn(t testing.TB, dir string, change func(*Options)) *service {
	t.Helper()
	log := slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelWarn}))
	s := &service{t: t, dir: dir, keys: map[string]string{}}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx := t.Context()
	var err error
	s.engine, err = engine.Open(ctx, engine.Options{Dir: dir, Log: log})
	must(err)
	s.stream, err = stream.Open(ctx, s.engine, stream.Options{Log: log})
	must(err)
	s.reg, err = dataset.Open(ctx, s.engine, dataset.Options{Log: log, Now: time.Now})
	must(err)
	s.lake, err = lake.OpenDir(ctx, filepath.Join(dir, "lake"), lake.Options{Now: time.Now, Log: log})
	must(err)
	secret, err := s.engine.Secret(ctx, "submissions")
	must(err)
	ids, err := submission.NewIDs(secret)
	must(err)
	s.loader, err = loader.New(loader.Options{
		IDs: ids, Stream: s.stream, Lake: s.lake, Quarantine: filepath.Join(dir, "quarantine"), Now: time.Now, Log: log, Age: 200 * time.Millisecond,
	})
	must(err)
	s.api = &api.Server{
		IDs: ids, BodyDigest: submission.NewBodyDigest(secret), Keys: s.reg, Stream: s.stream, Now: time.Now, Log: log,
		Processed: func(p stream.Position) bool { return s.loader.Watermark(p.Partition) >= p.Seq },
		Known:     func() error { return nil }, BacklogAge: func() time.Duration { return 0 }, Share: func() float64 { return 1 },
		Suppression: func(string) event.SuppressionList { return nil },
		Limits:      api.Limits{BytesInFlight: 256 << 20, Connections: 2048, KeyAge: 72 * time.Hour},
	}
	senders, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	ops, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	s.apiURL, s.url = "http://"+senders.Addr().String(), "http://"+ops.Addr().String()
	o := Options{Loopback: true, APIURL: s.apiURL}
	if change != nil {
		change(&o)
	}
	s.readers, err = dataset.OpenReaders(ctx, s.engine, dataset.Options{Log: log, Now: time.Now})
	must(err)
	follow := feed.New(feed.Options{Stream: s.stream, Tables: s.lake, Readers: s.readers, Secret: secret, IDs: ids, Log: log})
	o.Mounts = append(o.Mounts, access.Mount{Prefix: feed.Prefix, Handler: follow.Handler(), Reject: feed.Reject})
	s.audit, err = audit.Open(ctx, s.engine)
	must(err)
	credentials, err := access.Open(ctx, s.engine)
	must(err)
	s.backlog = loader.NewBacklog(loader.BacklogOptions{Engine: s.engine, Partitions: s.stream.Partitions, Watermark: func(p uint8) (uint64, bool) {
		seq, _, known := s.loader.Reached(p)
		return seq, known
	}})
	s.console = New(Sources{
		Engine: s.engine, Registry: s.reg, Stream: s.stream, Lake: s.lake, Hours: hours.NewIndex(s.lake), Loader: s.loader, Backlog: s.backlog, API: s.api, Feed: follow, Audit: s.audit, Access: credentials,
		Cluster: func() *cluster.View { return nil }, Copies: func() *cluster.Copies { return &cluster.Copies{} }, Damaged: func() []string { return nil },
		StreamRetention: 72 * time.Hour, DataDir: dir, Version: "v0.0.0-test", Now: time.Now, Log: log,
	}, o)
	s.api.Live = s.console
	must(s.console.OpenAlarms(ctx))
	s.run(senders, ops, log)
	return s
}

func (s *service) run(senders, ops net.Listener, log *slog.Logger) {
	lower, stopLower := context.WithCancel(context.Background())
	upper, stopUpper := context.WithCancel(context.Background())
	var parts, top sync.WaitGroup
	parts.Go(func() { _ = s.stream.Run(lower) })
	parts.Go(func() { _ = s.reg.Run(lower) })
	parts.Go(func() { _ = s.loader.Run(lower) })
	parts.Go(func() { _ = s.backlog.Run(lower) })
	top.Go(func() { _ = s.api.Run(upper) })
	top.Go(func() { _ = s.console.Run(upper) })
	top.Go(func() { _ = s.console.s.Hours.Run(upper, time.Now, log) })
	sender := listen.NewServer(s.api, nil, log)
	s.ops = &http.Server{Handler: s.console.Handler()}
	go func() { _ = sender.Serve(senders) }()
	go func() { _ = s.ops.Serve(ops) }()
	s.stop = sync.OnceFunc(func() {
		_ = sender.Close()
		_ = s.ops.Close()
		stopUpper()
		top.Wait()
		stopLower()
		parts.Wait()
		_ = s.stream.Close()
		_ = s.engine.Close()
	})
	s.t.Cleanup(s.stop)
	until(s.t, "a service that takes events", func() bool { return s.api.Ready() == nil })
}

type testWriter struct{ t testing.TB }

func (w testWriter) Write(b []byte) (int, error) {
	if os.Getenv("SLUICE_TEST_LOG") != "" {
		fmt.Fprint(os.Stderr, string(b))
	}
	return len(b), nil
}

// dataset makes a dataset and remembers its key.
func (s *service) dataset(spec dataset.Spec) {
	s.t.Helper()
	_, _, key, err := s.reg.Create(s.t.Context(), spec)
	if err != nil {
		s.t.Fatal(err)
	}
	s.keys[spec.ID] = key.Reveal()
}

// post sends a body as a dataset and returns status and answer.
func (s *service) post(id, path, body string) (int, string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.apiURL+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+s.keys[id])
	return s.ask(r)
}

// follow makes a reader and lets it read the feed from its beginning.
func (s *service) follow(name string) {
	s.t.Helper()
	_, token, err := s.readers.Create(s.t.Context(), dataset.ReaderSpec{Name: name, Allow: []string{dataset.AllowFeed}})
	if err != nil {
		s.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.url+"/feed/v1/events?purpose=measurement&cursor=earliest", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token.Reveal())
	if status, text := s.ask(r); status != 200 {
		s.t.Fatalf("follow: got %d %s", status, text)
	}
}

// read asks the console for a page.
func (s *service) read(path string) (int, string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.url+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return s.ask(r)
}

func (s *service) ask(r *http.Request) (int, string) {
	s.t.Helper()
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// until polls a condition for at most half a minute: machines that run tests are busy.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	end := time.Now().Add(30 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(end) {
			t.Fatalf("not in time: %s", what)
		}
		<-tick.C
	}
}
