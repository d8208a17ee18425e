// Package console shows operators the state of the service.
package console

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/api"
	"sluice/internal/audit"
	"sluice/internal/cluster"
	"sluice/internal/dataset"
	"sluice/internal/durable"
	"sluice/internal/engine"
	"sluice/internal/feed"
	"sluice/internal/lake"
	"sluice/internal/loader"
	"sluice/internal/objectstore"
	"sluice/internal/stream"
)

// Registry is the datasets and keys, as far as the console knows them. *dataset.Registry is one; a test has
// another with more datasets than can be made in its time.
type Registry interface {
	Datasets() []*dataset.Dataset
	Used() map[string]dataset.Use
	Restore(map[string]time.Time)
	Stats() dataset.Stats
}

// Sources are the packages whose numbers are shown. All are required but Audit, Requests and Connections.
type Sources struct {
	Engine   *engine.Engine
	Registry Registry
	Stream   *stream.Stream
	Lake     *lake.Lake
	Hours    *lake.HourIndex // of Lake; somebody else runs it
	Loader   *loader.Loader
	API      *api.Server
	Feed     *feed.Feed
	Audit    *audit.Log
	Access   *Access                     // who may look
	Cluster  func() *cluster.View        // the nodes; nil when nobody knows
	Requests func() objectstore.Requests // sent to the bucket of the tables; nil for a directory

	Connections func() api.ConnectionStats // of the operators' listener

	StreamRetention time.Duration // how long the stream keeps a frame

	DataDir string // which disk is shown
	Version string
	Now     func() time.Time
	Log     *slog.Logger
}

// Options say how the console is reached.
type Options struct {
	// Loopback says that the listener's address is one of this machine's own: nobody has to log in.
	Loopback bool
	// Proxy says that a proxy in front of the listener ends TLS and sets X-Forwarded-For.
	Proxy bool
	// APIURL is the address of the senders' API, for the examples on the pages.
	APIURL string
	// Mounts are parts of the listener that ask for a reader's token instead of a log-in.
	Mounts []Mount
}

// Mount is a part of the operators' listener that decides itself who may read.
type Mount struct {
	Prefix  string // of its paths; ends with a slash
	Handler http.Handler
	Reject  func(w http.ResponseWriter, r *http.Request, status int, message string) // answers what the listener does not let through
}

// Console is the operators' listener: pages, /metrics, /livez, /readyz.
type Console struct {
	s       Sources
	o       Options
	log     *slog.Logger
	guard   *guard
	build   string
	started time.Time
	minutes minutes
	tap     tap
	history history
	commits commitLog
	trying  chan struct{} // as many as tryAtOnce
	done    chan struct{} // closed when Run ends

	bodyTime, writeTime time.Duration // bodyTime and liveWrite; tests wait for less

	rates    rates
	found    atomic.Pointer[findings]
	extents  atomic.Pointer[[]stream.Extent]
	audited  atomic.Pointer[auditState]
	draining atomic.Bool
	unloaded atomic.Int64 // since when frames wait that no node loads, in Unix seconds; 0 when none do
	close    sync.Once
}

// New makes the console. Nothing is read until Run.
func New(s Sources, o Options) *Console {
	c := &Console{s: s, o: o, log: s.Log, started: s.Now(), build: buildID(), trying: make(chan struct{}, tryAtOnce), done: make(chan struct{}), bodyTime: bodyTime, writeTime: liveWrite}
	c.guard = &guard{access: s.Access, loopback: o.Loopback, proxy: o.Proxy, now: s.Now, log: s.Log, audit: s.Audit, sessions: map[string]*session{}}
	c.minutes.begin()
	return c
}

func (c *Console) now() time.Time { return c.s.Now().UTC() }

// buildID changes when a static file does.
func buildID() string {
	h := sha256.New()
	_ = fs.WalkDir(staticFiles, "static", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := staticFiles.ReadFile(path)
		fmt.Fprintf(h, "%s %d\n", path, len(b))
		h.Write(b)
		return err
	})
	return hex.EncodeToString(h.Sum(nil))[:12]
}

// Handler answers operators.
func (c *Console) Handler() http.Handler {
	page := http.NewServeMux()
	page.HandleFunc("GET /", c.overview)
	page.HandleFunc("GET /datasets", c.datasets)
	page.HandleFunc("GET /dataset", c.dataset)
	page.HandleFunc("GET /diagnosis", c.diagnosis)
	page.HandleFunc("GET /lookup", c.lookup)
	page.HandleFunc("GET /live", c.live)
	page.HandleFunc("GET /live/events", c.follow)
	page.HandleFunc("GET /try", c.try)
	page.HandleFunc("POST /try", c.try)
	page.HandleFunc("GET /system", c.system)
	page.Handle("GET /metrics", metricsHandler(c.look))

	mux := http.NewServeMux()
	mux.Handle("/", c.guard.wrap(page))
	for _, m := range c.o.Mounts {
		mux.Handle(m.Prefix, c.guard.mount(m))
	}
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "alive") })
	mux.HandleFunc("GET /readyz", c.readyz)
	mux.HandleFunc("GET /static/", static)
	c.mountLogin(mux)

	cross := http.NewCrossOriginProtection()
	return headers(cross.Handler(c.limitBody(mux)))
}

// How long the body of a request may take, and how large it may be: on the page that takes whole batches, on the log-in,
// anywhere else. All are arbitrary; a log-in has some hundred bytes.
const (
	bodyTime  = 10 * time.Second
	tryBody   = 3 * tryMax // every byte of a form may be encoded as three
	loginBody = 4 << 10
	otherBody = 64 << 10
)

// limitBody bounds the size of every body, and the time that it takes, before anything reads it.
func (c *Console) limitBody(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength == 0 { // a page that is followed for hours has no read deadline
			next.ServeHTTP(w, r)
			return
		}
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(c.bodyTime))
		most := int64(otherBody)
		switch r.URL.Path {
		case "/try":
			most = tryBody
		case "/login":
			most = loginBody
		}
		r.Body = http.MaxBytesReader(w, r.Body, most)
		next.ServeHTTP(w, r)
	})
}

// static gives out the embedded files. Their address changes with their content, so they are kept for long.
func static(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	http.ServeFileFS(w, r, staticFiles, r.URL.Path)
}

// Drain makes /readyz fail, so that load balancers send nothing more. Requests are still answered.
func (c *Console) Drain() { c.draining.Store(true) }

func (c *Console) readyz(w http.ResponseWriter, _ *http.Request) {
	if c.draining.Load() {
		http.Error(w, "draining: this node stops", http.StatusServiceUnavailable)
		return
	}
	if err := c.s.API.Ready(); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ready")
}

// look asks every package for its numbers. It answers from memory.
func (c *Console) look() *state {
	s := &state{
		now: c.now(), started: c.started, version: c.s.Version, ready: c.s.API.Ready(), datasets: c.s.Registry.Datasets(),
		used: c.s.Registry.Used(), registry: c.s.Registry.Stats(), api: c.s.API.Stats(), stream: c.s.Stream.Stats(),
		engine: c.s.Engine.Stats(), lake: c.s.Lake.Stats(), loader: c.s.Loader.Stats(), feed: c.s.Feed.Stats(),
	}
	s.retention = c.s.StreamRetention
	if c.s.Requests != nil {
		sent := c.s.Requests()
		s.requests = &sent
	}
	if c.s.Connections != nil {
		s.ops = c.s.Connections()
	}
	if c.s.Cluster != nil {
		s.cluster = c.s.Cluster()
	}
	if since := c.unloaded.Load(); since != 0 {
		s.unloadedFor = s.now.Sub(time.Unix(since, 0))
	}
	s.last5, s.last10, s.last60 = c.rates.since(s, 5), c.rates.since(s, 10), c.rates.since(s, 60)
	if f := c.found.Load(); f != nil {
		s.found = *f
	}
	if x := c.extents.Load(); x != nil {
		s.extents = *x
	}
	if a := c.audited.Load(); a != nil {
		s.audit = *a
	}
	if d, err := durable.Space(c.s.DataDir); err == nil {
		s.disk = disk{d.Free, d.Size}
	}
	return s
}

// How often Run looks. The numbers of the tables move when the loader commits, every few seconds.
const (
	everySecond = time.Second
	everyExtent = 10 * time.Second
	everyMinute = time.Minute
	everyHour   = time.Hour // the audit log is verified anew, though it has not grown
)

// Run keeps what the pages show up to date until ctx ends.
func (c *Console) Run(ctx context.Context) error {
	defer c.close.Do(func() { close(c.done) })
	c.restoreUse()
	if err := c.commits.restore(c.s.DataDir); err != nil {
		c.log.Warn("read the times of commits", "error", err)
	}
	c.verifyAudit(ctx)
	c.readExtents(ctx)
	tick := time.NewTicker(everySecond)
	defer tick.Stop()
	for n := 1; ; n++ {
		s := c.look()
		c.minutes.look(s.now, s.counters())
		c.noteUnloaded(s)
		c.rates.look(s)
		c.history.look(s.now, sound(s), c.log)
		c.commits.look(c.s.Lake.Commits)
		c.guard.noteRejected(ctx, false)
		if n%int(everyExtent/everySecond) == 0 {
			c.readExtents(ctx)
		}
		if n%int(everyExtent/everySecond) == 0 || c.found.Load() == nil { // at once after the start, too
			c.findDatasets(s)
		}
		if n%int(everyMinute/everySecond) == 0 {
			c.keepCommits()
			c.verifyAudit(ctx)
		}
		select {
		case <-ctx.Done():
			c.keepCommits()
			c.guard.noteRejected(context.WithoutCancel(ctx), true)
			return nil
		case <-tick.C:
		}
	}
}

// findDatasets looks through the hourly numbers, once they are complete: before, every dataset would look silent.
func (c *Console) findDatasets(s *state) {
	if !c.s.Hours.Complete() {
		return
	}
	view := c.s.Hours.View()
	defer view.Close()
	c.found.Store(findDatasets(view, s))
}

// readExtents asks the engine how much the stream holds.
func (c *Console) readExtents(ctx context.Context) {
	x, err := c.s.Stream.Extents(ctx)
	if err == nil {
		c.extents.Store(&x)
	}
}

// noteUnloaded remembers since when frames wait that no node loads.
func (c *Console) noteUnloaded(s *state) {
	switch n := s.unloaded(); {
	case n == 0:
		c.unloaded.Store(0)
	case c.unloaded.Load() == 0:
		c.unloaded.Store(s.now.Unix())
	}
}

func (c *Console) verifyAudit(ctx context.Context) {
	if c.s.Audit == nil {
		return
	}
	size, err := c.s.Audit.Last(ctx)
	if err != nil {
		return // the engine does not answer; the alarm for that is another one
	}
	if last := c.audited.Load(); last != nil && last.size == size && c.now().Sub(last.at) < everyHour {
		return
	}
	sum, err := c.s.Audit.Verify(ctx)
	if err != nil && !errors.Is(err, audit.ErrTampered) {
		return
	}
	if err != nil {
		c.log.Error("audit log", "error", err)
	}
	c.audited.Store(&auditState{sum.Entries, sum.Seal, err, c.now(), size})
}

// useName is where earlier versions kept when keys were last used. The registry keeps it in the engine now.
const useName = "used.json"

func (c *Console) restoreUse() {
	b, err := os.ReadFile(filepath.Join(c.s.DataDir, useName))
	if err != nil {
		return
	}
	used := map[string]time.Time{}
	if json.Unmarshal(b, &used) == nil {
		c.s.Registry.Restore(used)
	}
}

func (c *Console) keepCommits() {
	if err := c.commits.keep(c.s.DataDir); err != nil {
		c.log.Warn("write the times of commits", "error", err)
	}
}
