// Package service puts the parts of the server together, and runs them.
package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"sluice/cmd/sluice/internal/tables"
	"sluice/internal/api"
	"sluice/internal/audit"
	"sluice/internal/cluster"
	"sluice/internal/console"
	"sluice/internal/dataset"
	"sluice/internal/deletion"
	"sluice/internal/engine"
	"sluice/internal/erasure"
	"sluice/internal/hours"
	"sluice/internal/lake"
	"sluice/internal/listen"
	"sluice/internal/loader"
	"sluice/internal/memory"
	"sluice/internal/objectstore"
	"sluice/internal/secretfile"
	"sluice/internal/stream"
	"sluice/internal/submission"
	"sluice/internal/suppression"
	"sluice/internal/throttle"
	"sluice/internal/trace"
	"sluice/internal/version"
)

// Config is what serve and demo decide about a service.
type Config struct {
	Engine       engine.Options
	Listen       string
	OpsListen    string // "" for none
	OpsCert      string
	OpsKey       string
	Webhook      string // is told of alarms
	OpsProxy     bool   // a proxy before the operators' listener ends TLS
	PublicURL    string // of the senders' API; "" is the address of its listener
	OpsPublicURL string // the same for the operators' listener

	Settings func(context.Context, *engine.Engine) []console.Setting // for the console; may be nil

	Tracing           bool // the variables of OpenTelemetry say where traces go
	CertFile          string
	KeyFile           string
	SecretFiles       []string // outside the data directory; the log names those that others may read
	Partitions        int
	StreamRetention   time.Duration // 0 is as it is
	Memory            int64         // to plan with; 0 is what the system allows
	BacklogAge        time.Duration
	TableRetention    time.Duration         // 0 is as it is, or the default; -1 is for ever
	Tables            tables.Location       // where --lake says that the tables are; agree makes it where they are
	S3                objectstore.S3Options // the store of tables in a bucket
	TableGroup        string                // may read them
	SnapshotRetention time.Duration         // 0 is as it is, or the default
	Loading           bool
	CommitEvery       time.Duration
	DrainWait         time.Duration // between the end of /readyz and the end of the listener
	Now               func() time.Time
	Log               *slog.Logger
	Hooks             Hooks
}

// Hooks are what fault tests change in a service. The zero value changes nothing.
type Hooks struct {
	Step     func(name string) error                 // of stream and lake; may be nil
	Maintain func(context.Context, *lake.Lake) error // nil is Lake.Run
	Unsynced bool                                    // nothing in the engine is synced
	NoLoader bool                                    // what is accepted stays in the stream
	Settle   time.Duration                           // of loader.Options; 0 is its default
}

// Service is the whole server. It is opened bottom-up and closed top-down:
//
//	senders' listener ── api ── dataset
//	                      └─── stream ── engine
//	ops listener ── console        └── loader ── lake
//	                catalog ── lake, readers
//	                feed ── stream, lake, readers
type Service struct {
	Config
	engine   *engine.Engine
	registry *dataset.Registry
	readers  *dataset.Readers
	secret   []byte          // that all nodes share
	ids      *submission.IDs // of it
	suppress *suppression.List
	member   *cluster.Member
	audit    *audit.Log
	stream   *stream.Stream
	maxKeys  int // idempotency keys of all datasets
	lake     *lake.Lake
	opening  opening                     // of the lake
	requests func() objectstore.Requests // sent to the bucket of the tables; nil for a directory
	hours    *hours.Index                // of the lake
	loader   *loader.Loader
	backlog  *loader.Backlog
	damage   *cluster.Damage
	erasures *erasure.Tombstones
	reopened chan struct{} // erasures have to be applied again
	api      *api.Server
	console  *console.Console
	traces   *trace.Exporter // nil when nobody wants them
	apiHTTP  *http.Server
	opsHTTP  *http.Server
	senders  net.Listener
	ops      *listen.Listener // nil when there is none
}

// Open opens everything, listeners last, and starts nothing. After an error nothing stays open.
func Open(ctx context.Context, c Config) (_ *Service, err error) {
	s := &Service{Config: c, reopened: make(chan struct{}, 1)}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	secretfile.Warn(s.SecretFiles, s.Log)
	if err = s.openStream(ctx); err != nil {
		return nil, err
	}
	if s.secret, s.ids, err = OpenSecret(ctx, s.engine); err != nil {
		return nil, err
	}
	if err = s.openLake(ctx); err != nil {
		return nil, err
	}
	if err = secretfile.CheckDataDir(s.Engine.Dir); err != nil {
		return nil, err
	}
	if err = s.openMember(ctx); err != nil {
		return nil, err
	}
	if err = s.stream.Fits(); err != nil {
		return nil, err
	}
	s.backlog = loader.NewBacklog(loader.BacklogOptions{
		Engine: s.engine, Partitions: s.stream.Partitions, Watermark: s.watermark,
	})
	s.backlog.Look(ctx) // before the first request asks
	if err = s.openAPI(ctx); err != nil {
		return nil, err
	}
	if s.audit, err = audit.Open(ctx, s.engine); err != nil {
		return nil, err
	}
	return s, s.openListeners(ctx)
}

// openStream opens the engine and the stream in it.
func (s *Service) openStream(ctx context.Context) (err error) {
	s.Engine.Listen, s.Engine.Log, s.Engine.Unsynced = true, s.Log, s.Hooks.Unsynced
	if s.engine, err = s.openEngine(ctx, s.Engine); err != nil {
		return err
	}
	for _, problem := range s.engine.Protection().Problems() {
		s.Log.Warn("NATS is not protected", "problem", problem)
	}
	if s.engine.Mode() == engine.Attached {
		return fmt.Errorf("another server runs on %s: stop it first, or use another --data", s.Engine.Dir)
	}
	if err := s.agree(ctx); err != nil {
		return err
	}
	if strings.ContainsAny(s.Tables.Dir, "#?") {
		s.Log.Warn("the path of the tables has # or ? in it: readers take that for a part of a URL, and some find no rows; "+
			"use another --data or --lake", "tables", s.Tables.Dir)
	}
	s.stream, err = stream.Open(ctx, s.engine, stream.Options{
		Partitions: s.Partitions, MaxAge: s.StreamRetention, MaxKeys: s.maxKeys, Nodes: s.nodes,
		Now: s.Now, Log: s.Log, Step: s.Hooks.Step,
	})
	return err
}

// openAPI makes what answers senders.
func (s *Service) openAPI(ctx context.Context) (err error) {
	o := dataset.Options{Now: s.Now, Log: s.Log}
	if s.registry, err = dataset.Open(ctx, s.engine, o); err != nil {
		return err
	}
	if err := deletion.Mend(ctx, s.registry, s.erasures, s.Now()); err != nil { // before the loader asks what was deleted
		s.Log.Error("an erasure is not finished", "error", err)
	}
	if s.readers, err = dataset.OpenReaders(ctx, s.engine, o); err != nil {
		return err
	}
	if s.suppress, err = suppression.Open(ctx, s.engine, s.Now, s.Log); err != nil {
		return err
	}
	if err = s.suppress.Load(ctx); err != nil { // before the first event is accepted
		return err
	}
	keyAge, err := s.stream.Retention(ctx)
	if err != nil {
		return err
	}
	s.hours = hours.NewIndex(s.lake)
	s.hours.Known = s.registry.Known
	s.api = &api.Server{
		Keys: s.registry, Stream: s.stream, Processed: s.processed, Share: s.share, Lookup: lookup{s.lake},
		Known: func() error { return s.member.Known() }, BacklogAge: s.backlog.Age, Numbers: s.numbers,
		Campaigns: s.campaigns, IDs: s.ids, BodyDigest: submission.NewBodyDigest(s.secret), Suppression: s.suppress.Of,
		Limits: api.Limits{
			BytesInFlight: bytesInFlight(s.Memory), BacklogAge: s.BacklogAge, Connections: connections(s.Memory),
			KeyAge: keyAge, IdempotencyKeys: int64(s.maxKeys+1) / 2, // one dataset must leave some to the others
		},
		Now: s.Now, Log: s.Log,
	}
	return nil
}

// openLake opens the lake, as far as it answers, and the loader.
func (s *Service) openLake(ctx context.Context) (err error) {
	dir := s.Engine.Dir
	if s.TableGroup != "" {
		if s.Tables.Dir == "" {
			return errors.New("--lake-group is for tables in a directory; who may read a bucket is decided by its policy")
		}
		if err := objectstore.ShareWith(s.Tables.Dir, s.TableGroup); err != nil {
			return fmt.Errorf("--lake-group: %w", err)
		}
	}
	connect := s.Tables.Connect
	if s.onlyAccepts() {
		connect = s.Tables.ConnectToRead
	}
	store, err := connect()
	if err != nil {
		return fmt.Errorf("--lake: %w", err)
	}
	if bucket, ok := store.(*objectstore.S3); ok {
		s.requests = bucket.Stats
	}
	slow := &throttle.Throttle{}
	s.lake = lake.New(lake.Options{
		Store: store, Now: s.Now, Log: s.Log, Retention: s.retention, SnapshotRetention: s.SnapshotRetention,
		Throttle: slow, Step: s.Hooks.Step, Stream: s.stream.ID(), PutBack: s.tablesPutBack,
	})
	s.opening.store, s.opening.open = store, make(chan struct{})
	if s.erasures, err = erasure.Open(ctx, s.engine); err != nil {
		return err
	}
	if err := s.firstOpen(ctx); err != nil {
		return err
	}
	o := loader.Options{
		Erasures: s.erasures, Stream: s.stream, Lake: loadable{s.lake, s}, Quarantine: filepath.Join(dir, "quarantine"),
		Now: s.Now, Log: s.Log, Age: s.CommitEvery, Settle: s.Hooks.Settle, IDs: s.ids,
		Throttle: slow, Maintain: s.maintain,
	}
	if s.engine.Mode() == engine.External { // other nodes may load, too
		o.Engine, o.Patience = s.engine, bucketPatience
	}
	s.loader, err = loader.New(o)
	return err
}

// bucketPatience is how long a node tries to commit before it leaves loading to another node, which may reach the
// bucket (as long as one request waits for its answer, and shorter than the alarm SluiceLoadBehind waits).
const bucketPatience = 15 * time.Second

// OpenSecret reads the secret that all nodes share, and makes the submission ids of it.
func OpenSecret(ctx context.Context, e *engine.Engine) (secret []byte, ids *submission.IDs, err error) {
	if secret, err = e.Secret(ctx, "submissions"); err == nil {
		ids, err = submission.NewIDs(secret)
	}
	return secret, ids, err
}

// processed says whether what stands at a position of the stream is in the table.
func (s *Service) processed(at stream.Position) bool {
	seq, _ := s.watermark(at.Partition)
	return seq >= at.Seq
}

func (s *Service) openListeners(ctx context.Context) (err error) {
	var cert *listen.Certificate
	if s.CertFile != "" {
		if cert, err = listen.OpenCertificate(s.CertFile, s.KeyFile, time.Now, s.Log); err != nil {
			return err
		}
	}
	if s.senders, err = net.Listen("tcp", s.Listen); err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	if s.OpsListen != "" {
		l, err := net.Listen("tcp", s.OpsListen)
		if err != nil {
			return fmt.Errorf("--ops: %w", err)
		}
		s.ops = s.limitOps(l)
	}
	var senders http.Handler = s.api
	if s.Tracing {
		if s.traces, err = trace.Open(ctx, version.Number, s.Log); err != nil {
			return fmt.Errorf("traces: %w", err)
		}
		senders = s.traces.Wrap(senders)
	}
	s.apiHTTP = listen.NewServer(senders, cert, s.Log)
	return s.openConsole(ctx)
}

// Registry is the service's datasets and keys.
func (s *Service) Registry() *dataset.Registry { return s.registry }

// Audit is the service's audit log.
func (s *Service) Audit() *audit.Log { return s.audit }

// Mode says where the engine is.
func (s *Service) Mode() string { return s.engine.Mode().String() }

// Flush commits everything that was accepted, and returns when it is in the tables.
func (s *Service) Flush(ctx context.Context) error {
	return loader.Await(ctx, s.stream, s.lake, nil, func(context.Context) { _ = s.loader.Flush() }, true)
}

// URL is how to reach the senders' API.
func (s *Service) URL() string {
	scheme := "http"
	if s.CertFile != "" {
		scheme = "https"
	}
	return scheme + "://" + s.senders.Addr().String()
}

// Run serves until ctx ends or a part of the service gives up, then stops in the order in which nothing acknowledged
// can be lost: /readyz fails and load balancers look away, then the listeners (requests in flight are answered), then
// the counts of rejected events go into the stream, then the stream, the registry and the loader end, and the loader's
// leases are free.
func (s *Service) Run(ctx context.Context) error {
	parts, partsCtx := errgroup.WithContext(context.WithoutCancel(ctx))
	lower, stopLower := context.WithCancel(partsCtx)
	defer stopLower()
	upper, stopUpper := context.WithCancel(partsCtx)
	defer stopUpper()
	run := func(ctx context.Context, part string, do func(context.Context) error) {
		parts.Go(func() error {
			if err := do(ctx); err != nil && !errors.Is(err, context.Canceled) { // the end of a context is no error
				return fmt.Errorf("%s: %w", part, err)
			}
			return nil
		})
	}

	if c := memory.NewCollector(s.Memory); c != nil {
		run(lower, "collector", c.Run)
	}
	run(lower, "engine", s.engine.Run)
	run(lower, "stream", s.stream.Run)
	run(lower, "tables", s.reachTables)
	switch {
	case s.Loading && !s.Hooks.NoLoader:
		run(lower, "loader", s.loader.Run)
		run(lower, "loader", s.commitOnDemand)
	case s.Loading:
		run(lower, "lake", s.maintain)
	}
	if s.Loading {
		run(lower, "erasures", s.finishErasures)
	}
	run(lower, "backlog", s.backlog.Run)
	run(lower, "damaged files", s.damage.Run)
	run(lower, "heartbeats", s.member.Run)
	run(lower, "datasets", s.registry.Run)
	run(lower, "readers", s.readers.Run)
	run(lower, "suppression list", s.suppress.Run)
	apiDone := make(chan struct{})
	run(upper, "api", func(ctx context.Context) error { defer close(apiDone); return s.api.Run(ctx) })
	run(upper, "hourly numbers", func(ctx context.Context) error { return s.hours.Run(ctx, s.Now, s.Log) })
	run(upper, "console", s.console.Run)
	if s.ops != nil {
		run(upper, "ops listener", func(context.Context) error { return serve(s.opsHTTP, s.ops, s.OpsCert != "") })
	}
	s.awaitStream(partsCtx)
	s.member.Beat(partsCtx) // before the first request: see cluster.Member.Oldest
	run(upper, "senders' listener", func(context.Context) error {
		return serve(s.apiHTTP, s.api.Limit(s.senders), s.CertFile != "")
	})

	select {
	case <-ctx.Done():
		s.Log.Info("stopping: requests in flight are answered first")
	case <-partsCtx.Done():
	}
	s.drain(partsCtx)
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
	defer cancel()
	if err := s.apiHTTP.Shutdown(grace); err != nil {
		s.Log.Warn("some requests did not end in time and were cut off; their senders got no answer")
		_ = s.apiHTTP.Close()
	}
	stopUpper()
	<-apiDone
	stopLower()
	_ = s.opsHTTP.Close()
	if s.traces != nil {
		_ = s.traces.Close(grace)
	}
	return parts.Wait()
}

// stopWithin is how long requests in flight may take when the service stops; what runs it, in deploy/, waits longer.
const stopWithin = 30 * time.Second

// The announcements by which a command asks the process that loads to commit now: the events, or everything.
const commitTopic, flushTopic = "commit", "flush"

// AwaitLoaded waits until the server has loaded all events, which it is asked to do at once, and with counts those,
// too. Without counts a fault of their tables is none of the command's.
func AwaitLoaded(ctx context.Context, e *engine.Engine, s *stream.Stream, l *lake.Lake, counts bool) error {
	topic := commitTopic
	if counts {
		topic = flushTopic
	}
	return loader.Await(ctx, s, l, nil, func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second) // a bucket may be slow; Await asks again
		defer cancel()
		e.Announce(ctx, topic)
	}, counts)
}

// commitOnDemand commits whenever a command asks for it, until ctx ends.
func (s *Service) commitOnDemand(ctx context.Context) error {
	for topic, act := range map[string]func() error{commitTopic: s.loader.Commit, flushTopic: s.loader.Flush} {
		stop, err := s.engine.Listen(topic, act)
		if err != nil {
			return err
		}
		defer stop()
	}
	<-ctx.Done()
	return nil
}

// tablesPutBack notes that rows which were erased may be there again: an older copy of the tables is in their place.
func (s *Service) tablesPutBack(ctx context.Context, changed time.Time) error {
	if err := s.erasures.Reopen(ctx, changed); err != nil {
		return err
	}
	select {
	case s.reopened <- struct{}{}:
	default: // it is noted already
	}
	return nil
}

// ErasureTime is how long an erasure may take until it counts as interrupted. Arbitrary.
const ErasureTime = 15 * time.Minute

// finishErasures deletes what an old version of the tables brought back, or what a killed erase has left, at the start,
// every hour, when the tables are put back, and a minute after it could not. Nothing in between: the loader lets
// nothing in that was erased, except what another node read before.
func (s *Service) finishErasures(ctx context.Context) error {
	if err := s.awaitTables(ctx); err != nil {
		return err
	}
	var settle func(context.Context) error
	if s.engine.Mode() == engine.External {
		settle = func(ctx context.Context) error { return AwaitLoaded(ctx, s.engine, s.stream, s.lake, true) }
	}
	begun := s.Now()
	for since := begun; ; since = s.Now().Add(-ErasureTime) {
		if since.Before(begun) {
			since = begun
		}
		err := deletion.Mend(ctx, s.registry, s.erasures, s.Now())
		var done deletion.Done
		if err == nil {
			done, err = deletion.Apply(ctx, s.erasures, s.lake, since, settle)
		}
		next := time.Hour
		if err != nil {
			next = time.Minute
		}
		switch {
		case err != nil && ctx.Err() == nil:
			s.Log.Error("an erasure is not finished", "error", err)
		case done.Rows+done.Counts > 0:
			s.Log.Warn("rows of interrupted erasures, or that had come back, are erased", "rows", done.Rows+done.Counts)
		}
		if err := NoteErased(ctx, s.audit, "server", s.Now(), done); err != nil && ctx.Err() == nil {
			s.Log.Error("an erasure is finished and not in the audit log", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(next):
		case <-s.reopened:
		}
	}
}

// NoteErased writes into the audit log what was deleted for tombstones by another than the command that wrote them.
// That one has noted who began. Nothing is not noted.
func NoteErased(ctx context.Context, log *audit.Log, actor string, now time.Time, done deletion.Done) error {
	if done.Tombstones == 0 && done.Rows+done.Counts == 0 {
		return nil
	}
	detail := map[string]string{
		"rows": strconv.FormatInt(done.Rows, 10), "tombstones": strconv.Itoa(done.Tombstones),
	}
	if done.Counts > 0 {
		detail["counts"] = strconv.FormatInt(done.Counts, 10)
	}
	return log.Append(ctx, audit.Entry{Time: now.UTC(), Actor: actor, Action: "erase.finished", Detail: detail})
}

// awaitStream gives the stream a moment to take writes before senders are let in: they wait at the listener instead of
// being rejected. /readyz and every answer report a stream that stays down.
func (s *Service) awaitStream(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second) // arbitrary; it takes milliseconds
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for s.stream.Ready() != nil {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// serve is Serve without the error that says it was asked to stop.
func serve(h *http.Server, l net.Listener, secure bool) (err error) {
	if secure {
		err = h.ServeTLS(l, "", "")
	} else {
		err = h.Serve(l)
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// Close closes what is open, top-down.
func (s *Service) Close() {
	if s.senders != nil {
		_ = s.senders.Close()
	}
	if s.ops != nil {
		_ = s.ops.Close()
	}
	if s.stream != nil {
		_ = s.stream.Close()
	}
	if s.engine != nil {
		if err := s.engine.Close(); err != nil {
			s.Log.Error("close engine", "error", err)
		}
	}
}
