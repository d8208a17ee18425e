package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"sluice/internal/api"
	"sluice/internal/audit"
	"sluice/internal/cluster"
	"sluice/internal/console"
	"sluice/internal/dataset"
	"sluice/internal/engine"
	"sluice/internal/erasure"
	"sluice/internal/lake"
	"sluice/internal/loader"
	"sluice/internal/objectstore"
	"sluice/internal/stream"
	"sluice/internal/submission"
	"sluice/internal/throttle"
)

// config is what serve and demo decide about a service.
type config struct {
	engine          engine.Options
	listen          string
	ops             string
	opsCert         string
	opsKey          string
	opsProxy        bool   // a proxy before the operators' listener ends TLS
	otlp            string // where traces go
	certFile        string
	keyFile         string
	partitions      int
	streamRetention time.Duration // 0 is as it is
	maxStream       int64
	headroom        int64
	inFlight        int64
	connections     int64
	maxKeys         int64 // idempotency keys of a dataset
	maxAllKeys      int   // idempotency keys of all datasets
	memory          int64
	backlogAge      time.Duration
	tableRetention  time.Duration
	tables          lakePlace // where the tables are; the zero value is the directory lake beside the engine's
	tableGroup      string    // may read them
	snapshots       time.Duration
	loading         bool
	commit          time.Duration
	stopWithin      time.Duration
	drainWait       time.Duration // between the end of /readyz and the end of the listener
	natsWait        time.Duration // for NATS at the start; 0 is without end
	log             *slog.Logger
}

// service is the whole server. It is opened bottom-up and closed top-down:
//
//	senders' listener ── api ── dataset
//	                      └─── stream ── engine
//	ops listener ── console        └── loader ── lake
//	                catalog ── lake, readers
//	                feed ── stream, lake, readers
type service struct {
	config
	engine   *engine.Engine
	registry *dataset.Registry
	readers  *dataset.Readers
	member   *cluster.Member
	audit    *audit.Log
	stream   *stream.Stream
	lake     *lake.Lake
	requests func() objectstore.Requests // sent to the bucket of the tables; nil for a directory
	hours    *lake.HourIndex             // of the lake
	loader   *loader.Loader
	erasures *erasure.Tombstones
	api      *api.Server
	console  *console.Console
	traces   *console.Traces // nil when nobody wants them
	apiHTTP  *http.Server
	opsHTTP  *http.Server
	senders  net.Listener
	ops      *api.LimitedListener // nil when there is none
}

// openService opens everything, listeners last, and starts nothing. After an error nothing stays open.
func openService(ctx context.Context, c config) (_ *service, err error) {
	s := &service{config: c}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	c.engine.Listen = true
	c.engine.Log = c.log
	c.engine.Unsynced = hooks.unsynced
	if s.engine, err = s.openEngine(ctx, c.engine); err != nil {
		return nil, err
	}
	if s.engine.Mode() == engine.Attached {
		return nil, fmt.Errorf("another server runs on %s: stop it first, or use another --data", c.engine.Dir)
	}
	if err = s.agree(ctx); err != nil {
		return nil, err
	}
	s.stream, err = stream.Open(ctx, s.engine, stream.Options{
		Partitions: c.partitions, MaxAge: c.streamRetention, MaxBytes: c.maxStream, Headroom: c.headroom, MaxKeys: c.maxAllKeys, Now: hooks.now, Log: c.log, Step: hooks.step,
	})
	if err != nil {
		return nil, err
	}
	ids, digest, err := openSecret(ctx, s.engine)
	if err != nil {
		return nil, err
	}
	made, err := s.engine.SecretMade(ctx, submissionSecret)
	if err != nil {
		return nil, err
	}
	if err = s.openLake(ctx, ids); err != nil {
		return nil, err
	}
	if err = s.openMember(ctx); err != nil {
		return nil, err
	}
	if s.registry, err = dataset.Open(ctx, s.engine, dataset.Options{Now: hooks.now, Log: c.log}); err != nil {
		return nil, err
	}
	if s.readers, err = dataset.OpenReaders(ctx, s.engine, dataset.Options{Now: hooks.now, Log: c.log}); err != nil {
		return nil, err
	}
	s.hours = lake.NewHourIndex()
	inFlight := c.inFlight
	if inFlight == 0 {
		inFlight = bytesInFlight(ownMemory())
	}
	open := c.connections
	if open == 0 {
		open = connections(ownMemory())
	}
	keyAge, err := s.stream.Retention(ctx)
	if err != nil {
		return nil, err
	}
	s.api = &api.Server{
		Keys: s.registry, Stream: s.stream, Processed: s.processed, Share: s.share, Lookup: lookup{s.lake}, BacklogAge: s.backlog, Numbers: s.numbers,
		IDs: ids, OldIDs: made.Add(upgradeTime), BodyDigest: digest,
		Limits: api.Limits{BytesInFlight: inFlight, BacklogAge: c.backlogAge, KeyAge: keyAge, Connections: open, IdempotencyKeys: c.maxKeys}, Now: hooks.now, Log: c.log,
	}
	if s.audit, err = audit.Open(ctx, s.engine, c.engine.Dir, hooks.now()); err != nil {
		return nil, err
	}
	return s, s.openListeners(ctx)
}

// openLake opens the lake and the loader, and makes sure that the tables and the stream continue each other.
func (s *service) openLake(ctx context.Context, ids *submission.IDs) (err error) {
	dir := s.config.engine.Dir
	if s.tableGroup != "" {
		if s.tables.dir == "" {
			return errors.New("--lake-group is for tables in a directory; who may read a bucket is decided by its policy")
		}
		if err := objectstore.ShareWith(s.tables.dir, s.tableGroup); err != nil {
			return fmt.Errorf("--lake-group: %w", err)
		}
	}
	store, err := s.tables.open(context.WithoutCancel(ctx)) // until the last commit
	if err != nil {
		return fmt.Errorf("--lake: %w", err)
	}
	if bucket, ok := store.(*objectstore.S3); ok {
		s.requests = bucket.Stats
	}
	slow := &throttle.Throttle{}
	s.lake, err = lake.Open(ctx, lake.Options{
		Store: store, Now: hooks.now, Log: s.log, Retention: s.tableRetention, SnapshotRetention: s.snapshots, Throttle: slow, Step: hooks.step,
		Stream: s.stream.ID(),
	})
	if err != nil {
		return err
	}
	if err := s.agreeTables(ctx); err != nil {
		return err
	}
	if err := loader.Bind(ctx, s.stream, s.lake, s.log); err != nil {
		return err
	}
	if s.erasures, err = erasure.Open(ctx, s.engine); err != nil {
		return err
	}
	if err = s.erasures.Reopen(ctx, s.lake.EventsUpdated()); err != nil {
		return err
	}
	o := loader.Options{
		Erasures: s.erasures, Stream: s.stream, Lake: s.lake, Quarantine: filepath.Join(dir, "quarantine"), Now: hooks.now, Log: s.log, Age: s.commit, Settle: hooks.settle, IDs: ids,
		Throttle: slow, Maintain: func(ctx context.Context) error { return hooks.maintain(ctx, s.lake) },
	}
	if s.engine.Mode() == engine.External { // other nodes may load, too
		o.Engine, o.Patience = s.engine, bucketPatience
	}
	s.loader, err = loader.New(o)
	return err
}

// bucketPatience is how long a node tries to commit before it leaves loading to another node, which may reach the bucket
// (as long as one request waits for its answer, and shorter than the alarm SluiceLoadBehind waits).
const bucketPatience = 15 * time.Second

// submissionSecret is the secret of submission ids. The first version that authenticates ids made it when it started.
const submissionSecret = "submissions"

// upgradeTime is how long nodes of an earlier version may go on beside the first one of a later version (arbitrary).
const upgradeTime = 24 * time.Hour

// openSecret makes what depends on the secret that all nodes share: submission ids, and digests of bodies.
func openSecret(ctx context.Context, e *engine.Engine) (*submission.IDs, func(string) [32]byte, error) {
	secret, err := e.Secret(ctx, submissionSecret)
	if err != nil {
		return nil, nil, err
	}
	ids, err := submission.NewIDs(secret)
	if err != nil {
		return nil, nil, err
	}
	return ids, submission.NewBodyDigest(secret), nil
}

// processed says whether what stands at a position of the stream is in the table.
func (s *service) processed(at stream.Position) bool {
	return max(s.loader.Watermark(at.Partition), s.member.View().Loaded[at.Partition]) >= at.Seq
}

// backlog is how long the oldest event not yet in the table has waited.
func (s *service) backlog() time.Duration {
	var oldest time.Duration
	for _, p := range s.loader.Stats().Partitions {
		oldest = max(oldest, p.Lag)
	}
	for _, n := range s.member.View().Nodes {
		for _, l := range n.Loads {
			oldest = max(oldest, l.Lag)
		}
	}
	return oldest
}

func (s *service) openListeners(ctx context.Context) (err error) {
	var cert *api.Certificate
	if s.certFile != "" {
		if cert, err = api.OpenCertificate(s.certFile, s.keyFile, time.Now, s.log); err != nil {
			return err
		}
	}
	if s.senders, err = net.Listen("tcp", s.listen); err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	if s.config.ops != "" {
		l, err := net.Listen("tcp", s.config.ops)
		if err != nil {
			return fmt.Errorf("--ops: %w", err)
		}
		s.ops = s.limitOps(l)
	}
	senders := s.api.Handler()
	if s.otlp != "" {
		if s.traces, err = console.OpenTraces(s.otlp, programVersion(), s.log); err != nil {
			return fmt.Errorf("--otlp: %w", err)
		}
		senders = s.traces.Wrap(senders)
	}
	s.apiHTTP = api.NewHTTPServer(senders, cert, s.log)
	return s.openConsole(ctx)
}

// url is how to reach the senders' API.
func (s *service) url() string {
	scheme := "http"
	if s.certFile != "" {
		scheme = "https"
	}
	return scheme + "://" + s.senders.Addr().String()
}

// run serves until ctx ends or a part of the service gives up, then stops in the order in which nothing
// acknowledged can be lost: /readyz fails and load balancers look away, then the listeners (requests in flight are answered), then the counts of rejected
// events go into the stream, then the stream, the registry and the loader end, and the loader's leases are free.
func (s *service) run(ctx context.Context) error {
	parts, partsCtx := errgroup.WithContext(context.WithoutCancel(ctx))
	lower, stopLower := context.WithCancel(partsCtx)
	defer stopLower()
	upper, stopUpper := context.WithCancel(partsCtx)
	defer stopUpper()

	if c := newCollector(s.memory); c != nil {
		parts.Go(named("collector", func() error { return c.run(lower) }))
	}
	parts.Go(named("engine", func() error { return s.engine.Run(lower) }))
	parts.Go(named("stream", func() error { return s.stream.Run(lower) }))
	switch {
	case s.loading && !hooks.noLoader:
		parts.Go(named("loader", func() error { return s.loader.Run(lower) }))
		parts.Go(named("loader", func() error { return s.flushOnDemand(lower) }))
	case s.loading:
		parts.Go(named("lake", func() error { return hooks.maintain(lower, s.lake) }))
	}
	if s.loading {
		parts.Go(named("erasures", func() error { return s.finishErasures(lower) }))
	}
	parts.Go(named("heartbeats", func() error { return s.member.Run(lower) }))
	parts.Go(named("datasets", func() error { return s.registry.Run(lower) }))
	parts.Go(named("readers", func() error { return s.readers.Run(lower) }))
	apiDone := make(chan struct{})
	parts.Go(named("api", func() error { defer close(apiDone); return s.api.Run(upper) }))
	parts.Go(named("hourly numbers", func() error { return s.hours.Run(upper, s.lake) }))
	parts.Go(named("console", func() error { return s.console.Run(upper) }))
	if s.ops != nil {
		parts.Go(named("ops listener", func() error { return serve(s.opsHTTP, s.ops, s.opsCert != "") }))
	}
	s.awaitStream(partsCtx)
	parts.Go(named("senders' listener", func() error { return serve(s.apiHTTP, s.api.Limit(s.senders), s.certFile != "") }))

	select {
	case <-ctx.Done():
		s.log.Info("stopping: requests in flight are answered first")
	case <-partsCtx.Done():
	}
	s.drain(partsCtx)
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.stopWithin)
	defer cancel()
	if err := s.apiHTTP.Shutdown(grace); err != nil {
		s.log.Warn("some requests did not end in time and were cut off; their senders got no answer")
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

// flushTopic is the announcement by which a command asks the process that loads to commit everything now.
const flushTopic = "flush"

// flushOnDemand does that until ctx ends.
func (s *service) flushOnDemand(ctx context.Context) error {
	stop, err := s.engine.Listen(flushTopic, s.loader.Flush)
	if err != nil {
		return err
	}
	<-ctx.Done()
	stop()
	return nil
}

// finishErasures deletes what an old version of the tables brought back, or what a killed erase has left, at the start and
// every hour. Nothing in between: the loader lets nothing in that was erased.
func (s *service) finishErasures(ctx context.Context) error {
	tick := time.NewTicker(time.Hour)
	defer tick.Stop()
	for since := hooks.now(); ; since = hooks.now().Add(-erasureTime) {
		switch rows, err := applyErasures(ctx, s.erasures, s.lake, since); {
		case err != nil && ctx.Err() == nil:
			s.log.Error("an erasure is not finished", "error", err)
		case rows > 0:
			s.log.Warn("rows that were erased before had come back: they are erased again", "rows", rows)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// awaitStream gives the stream a moment to take writes before senders are let in: they wait at the listener instead of
// being rejected. /readyz and every answer report a stream that stays down.
func (s *service) awaitStream(ctx context.Context) {
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

// named says which part an error comes from, and takes the end of a context for what it is: no error.
func named(part string, run func() error) func() error {
	return func() error {
		if err := run(); err != nil && !errors.Is(err, context.Canceled) {
			return fmt.Errorf("%s: %w", part, err)
		}
		return nil
	}
}

func (s *service) close() {
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
			s.log.Error("close engine", "error", err)
		}
	}
}

// free is the address, or the same host with any port when somebody listens there already.
func free(address string) string {
	l, err := net.Listen("tcp", address)
	if err == nil {
		_ = l.Close()
		return address
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	return net.JoinHostPort(host, "0")
}
