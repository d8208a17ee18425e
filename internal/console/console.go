// Package console shows operators the state of the service.
package console

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/access"
	"sluice/internal/alarm"
	"sluice/internal/api"
	"sluice/internal/audit"
	"sluice/internal/cluster"
	"sluice/internal/dataset"
	"sluice/internal/durable"
	"sluice/internal/engine"
	"sluice/internal/feed"
	"sluice/internal/hours"
	"sluice/internal/lake"
	"sluice/internal/listen"
	"sluice/internal/loader"
	"sluice/internal/objectstore"
	"sluice/internal/stream"
)

// Registry is the datasets and keys, as far as the console knows them. *dataset.Registry is one; a test has
// another with more datasets than can be made in its time.
type Registry interface {
	Datasets() []*dataset.Dataset
	Used() map[string]dataset.Use
	Stats() dataset.Stats
}

// Sources are the packages whose numbers are shown. All are required but Requests and Connections.
type Sources struct {
	Engine   *engine.Engine
	Registry Registry
	Stream   *stream.Stream
	Lake     *lake.Lake
	Hours    *hours.Index // of Lake; somebody else runs it
	Loader   *loader.Loader
	Backlog  *loader.Backlog // somebody else runs it
	API      *api.Server
	Feed     *feed.Feed
	Audit    *audit.Log
	Access   *access.Credentials         // of those who may look
	Cluster  func() *cluster.View        // the nodes; nil when nobody knows
	Copies   func() *cluster.Copies      // of everything in an external engine
	Damaged  func() []string             // files of the tables that some node could not read
	Requests func() objectstore.Requests // sent to the bucket of the tables; nil for a directory

	Connections func() listen.Stats // of the operators' listener

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
	// APIURL is the address at which senders reach the API, for what is copied and sent to them.
	APIURL string
	// URL is the address of the console, and Webhook the address that is told of alarms; "" for none.
	URL, Webhook string
	// Settings are those of the service, as sluice config shows them.
	Settings []Setting
	// Reader says whether a token is that of a reader. It may be nil.
	Reader func(token string) bool
	// Mounts are parts of the listener that ask for a reader's token instead of a log-in.
	Mounts []access.Mount
}

// Setting is one setting of the service, and where its value comes from. It holds no secret.
type Setting struct{ Name, Value, From string }

// Console is the operators' listener: pages, /metrics, /livez, /readyz.
type Console struct {
	s       Sources
	o       Options
	guard   *access.Guard
	build   string
	started time.Time
	minutes minutes
	tap     tap
	alarms  *alarm.Watch
	commits commitLog
	trying  chan struct{} // as many as tryAtOnce
	done    chan struct{} // closed when Run ends

	bodyTime, writeTime time.Duration // bodyTime and liveWrite; tests wait for less

	extents  atomic.Pointer[[]stream.Bounds]
	audited  atomic.Pointer[auditState]
	draining atomic.Bool
}

// New makes the console. Nothing is read until Run.
func New(s Sources, o Options) *Console {
	c := &Console{
		s: s, o: o, started: s.Now(), build: buildID(), trying: make(chan struct{}, tryAtOnce),
		done: make(chan struct{}), bodyTime: bodyTime, writeTime: liveWrite,
	}
	c.guard = access.NewGuard(access.Options{
		Credentials: s.Access, Loopback: o.Loopback, Proxy: o.Proxy, Reader: o.Reader, Proven: listen.CarriedKey,
		ShowLogin: c.showLogin, Audit: s.Audit, Now: s.Now, Log: s.Log,
	})
	c.alarms = alarm.NewWatch(alarm.Options{
		Engine: s.Engine, Hours: s.Hours, Cluster: s.Cluster, URL: o.URL, Webhook: o.Webhook, Now: s.Now, Log: s.Log,
	})
	return c
}

// OpenAlarms reads the alarms that lasted when the service was stopped. Call it before the first request.
func (c *Console) OpenAlarms(ctx context.Context) error { return c.alarms.Open(ctx) }

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
	page.HandleFunc("GET /campaigns", c.campaigns)
	page.HandleFunc("GET /diagnosis", c.diagnosis)
	page.HandleFunc("GET /requests", c.requests)
	page.HandleFunc("GET /lookup", c.lookup)
	page.HandleFunc("GET /live", c.live)
	page.HandleFunc("GET /live/events", c.follow)
	page.HandleFunc("GET /try", c.try)
	page.HandleFunc("POST /try", c.try)
	page.HandleFunc("GET /system", c.system)
	page.Handle("GET /metrics", metricsHandler(c.look))

	mux := http.NewServeMux()
	mux.Handle("/", c.guard.Protect(page))
	for _, m := range c.o.Mounts {
		mux.Handle(m.Prefix, c.guard.Mounted(m))
	}
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "alive") })
	mux.HandleFunc("GET /readyz", c.readyz)
	mux.HandleFunc("GET /static/", static)
	c.guard.HandleLogin(mux)

	cross := http.NewCrossOriginProtection()
	return headers(cross.Handler(c.limitBody(mux)))
}

// How long the body of a request may take, and how large it may be: on the page that takes whole batches, on the
// log-in, anywhere else. All are arbitrary; a log-in has some hundred bytes.
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
	s := &state{version: c.s.Version, feed: c.s.Feed.Stats(), State: alarm.State{
		Now: c.now(), Started: c.started, Ready: c.s.API.Ready(), Datasets: c.s.Registry.Datasets(),
		Used: c.s.Registry.Used(), Registry: c.s.Registry.Stats(), API: c.s.API.Stats(), Stream: c.s.Stream.Stats(),
		Engine: c.s.Engine.Stats(),
		Lake:   c.s.Lake.Stats(), Loader: c.s.Loader.Stats(), Backlog: c.s.Backlog.Stats(), Retention: c.s.StreamRetention,
		Cluster: c.s.Cluster(), Copies: *c.s.Copies(), Damaged: c.s.Damaged(),
	}}
	there := shown(s.Datasets)
	s.API.Datasets = slices.DeleteFunc(s.API.Datasets, func(d api.DatasetStats) bool { return !there[d.DatasetID] })
	if c.s.Requests != nil {
		sent := c.s.Requests()
		s.requests = &sent
	}
	if c.s.Connections != nil {
		s.ops = c.s.Connections()
	}
	if x := c.extents.Load(); x != nil {
		s.extents = *x
	}
	if a := c.audited.Load(); a != nil {
		s.audit, s.Audit = *a, a.problem
	}
	if d, err := durable.Space(c.s.DataDir); err == nil {
		s.Disk = d
	}
	c.alarms.Complete(&s.State)
	return s
}

// shown are the datasets that the console shows, and "": what is of no dataset. One that was deleted is not among them,
// though memory and the stream have something of it for a while.
func shown(all []*dataset.Dataset) map[string]bool {
	out := map[string]bool{"": true}
	for _, d := range all {
		out[d.ID] = true
	}
	return out
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
	defer close(c.done)
	c.verifyAudit(ctx)
	c.readExtents(ctx)
	var alarms sync.WaitGroup
	defer alarms.Wait()
	alarms.Go(func() { c.alarms.Run(ctx, func() *alarm.State { return &c.look().State }) })
	tick := time.NewTicker(everySecond)
	defer tick.Stop()
	for n := 1; ; n++ {
		s := c.look()
		c.minutes.look(s.Now, s.counters())
		c.alarms.Count(&s.State)
		c.commits.look(c.s.Lake.Commits)
		c.guard.NoteRejected(ctx)
		if n%int(everyExtent/everySecond) == 0 {
			c.readExtents(ctx)
		}
		if n%int(everyExtent/everySecond) == 0 || !c.alarms.Searched() { // at once after the start, too
			c.alarms.Search(&s.State)
		}
		if n%int(everyMinute/everySecond) == 0 {
			c.verifyAudit(ctx)
		}
		select {
		case <-ctx.Done():
			c.guard.Close(context.WithoutCancel(ctx))
			return nil
		case <-tick.C:
		}
	}
}

// readExtents asks the engine how much the stream holds.
func (c *Console) readExtents(ctx context.Context) {
	if x, err := c.s.Stream.Bounds(ctx); err == nil {
		c.extents.Store(&x)
	}
}

func (c *Console) verifyAudit(ctx context.Context) {
	first, end, err := c.s.Audit.Ends(ctx)
	if err != nil {
		return // the engine does not answer; the alarm for that is another one
	}
	if last := c.audited.Load(); last != nil && last.ends == [2]uint64{first, end} && c.now().Sub(last.at) < everyHour {
		return
	}
	sum, err := c.s.Audit.Verify(ctx)
	if err != nil && !errors.Is(err, audit.ErrTampered) {
		return
	}
	if err != nil {
		c.s.Log.Error("audit log", "error", err)
	}
	c.audited.Store(&auditState{sum, err, c.now(), [2]uint64{first, end}})
}
