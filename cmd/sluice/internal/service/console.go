package service

import (
	"cmp"
	"context"
	"net"
	"strings"
	"time"

	"sluice/internal/access"
	"sluice/internal/catalog"
	"sluice/internal/console"
	"sluice/internal/feed"
	"sluice/internal/listen"
	"sluice/internal/measure"
	"sluice/internal/version"
)

// openConsole makes the operators' listener: console, catalog, feed, /metrics, /livez, /readyz. On an address that is
// not this machine's own it answers only the last two without a log-in, and over TLS only.
func (s *Service) openConsole(ctx context.Context) error {
	// Who comes through a proxy on this machine is not on this machine.
	o := console.Options{
		Loopback: (s.ops == nil || isLoopback(s.ops.Addr())) && !s.OpsProxy, Proxy: s.OpsProxy,
		APIURL: strings.TrimSuffix(cmp.Or(s.PublicURL, s.URL()), "/"), URL: cmp.Or(s.OpsPublicURL, s.OpsURL()),
		Webhook: s.Webhook,
	}
	if s.Settings != nil {
		o.Settings = s.Settings(ctx, s.engine)
	}
	o.Reader = func(token string) bool { _, err := s.readers.Authenticate(token); return err == nil }
	credentials, err := access.Open(ctx, s.engine)
	if err != nil {
		return err
	}
	views, err := measure.OpenSaved(ctx, s.engine)
	if err != nil {
		return err
	}
	tables := &catalog.Catalog{Tables: s.lake, Views: views, Readers: s.readers, Open: o.Loopback, Log: s.Log}
	follow := feed.New(feed.Options{
		Stream: s.stream, Erasures: s.erasures, Tables: s.lake, Readers: s.readers,
		Secret: s.secret, IDs: s.ids, Log: s.Log, Oldest: s.member.Oldest,
	})
	o.Mounts = []access.Mount{
		{Prefix: catalog.Prefix, Handler: tables.Handler(), Reject: catalog.Reject},
		{Prefix: feed.Prefix, Handler: follow.Handler(), Reject: feed.Reject},
	}
	var connections func() listen.Stats
	if s.ops != nil {
		connections = s.ops.Stats
	}
	s.console = console.New(console.Sources{
		Engine: s.engine, Registry: s.registry, Stream: s.stream, Lake: s.lake, Hours: s.hours, Loader: s.loader,
		Backlog: s.backlog, API: s.api, Feed: follow, Audit: s.audit, Access: credentials, Cluster: s.member.View,
		Copies: s.member.Copies, Damaged: s.damage.Files, Requests: s.requests, Connections: connections,
		StreamRetention: s.api.Limits.KeyAge, DataDir: s.Engine.Dir, Version: version.Number, Now: s.Now, Log: s.Log,
	}, o)
	s.api.Live = s.console
	if err := s.console.OpenAlarms(ctx); err != nil {
		return err
	}
	var cert *listen.Certificate
	if s.OpsCert != "" {
		if cert, err = listen.OpenCertificate(s.OpsCert, s.OpsKey, time.Now, s.Log); err != nil {
			return err
		}
	}
	s.opsHTTP = listen.NewOpsServer(s.console.Handler(), cert, s.Log)
	if !o.Loopback && s.OpsCert == "" && !s.OpsProxy {
		s.Log.Warn("the operators' listener is not loopback and has no TLS: it answers /livez and /readyz only; see " +
			"--ops-tls-cert and --ops-proxy")
	}
	return nil
}

// opsConnections is how many connections the operators' listener takes: pages, and a hundred followers of the feed.
// Arbitrary; with TLS they cost some 20 MB.
const opsConnections = 512

// limitOps bounds the connections of the operators' listener. One peer may have a quarter, unless all come from one: on
// loopback, and behind a proxy.
func (s *Service) limitOps(l net.Listener) *listen.Listener {
	perPeer := int64(opsConnections / 4)
	if isLoopback(l.Addr()) || s.OpsProxy {
		perPeer = opsConnections + 1 // no share: only the limit of all counts
	}
	return listen.New(l, opsConnections, perPeer)
}

// OpsURL is how to reach the operators' listener; "" without one.
func (s *Service) OpsURL() string {
	if s.ops == nil {
		return ""
	}
	scheme := "http"
	if s.OpsCert != "" {
		scheme = "https"
	}
	return scheme + "://" + s.ops.Addr().String() + "/"
}

func isLoopback(a net.Addr) bool {
	t, ok := a.(*net.TCPAddr)
	return ok && t.IP.IsLoopback()
}
