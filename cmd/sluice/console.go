package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"sluice/internal/access"
	"sluice/internal/audit"
	"sluice/internal/catalog"
	"sluice/internal/console"
	"sluice/internal/engine"
	"sluice/internal/feed"
	"sluice/internal/listen"
	"sluice/internal/measure"
	"sluice/internal/version"
)

// openConsole makes the operators' listener: console, catalog, feed, /metrics, /livez, /readyz. On an address that is
// not this machine's own it answers only the last two without a log-in, and over TLS only.
func (s *service) openConsole(ctx context.Context) error {
	dir := s.engineOptions.Dir
	// Who comes through a proxy on this machine is not on this machine.
	o := console.Options{Loopback: (s.ops == nil || isLoopback(s.ops.Addr())) && !s.opsProxy, Proxy: s.opsProxy, APIURL: strings.TrimSuffix(cmp.Or(s.publicURL, s.url()), "/"), URL: s.opsURLSaid, Webhook: s.webhook}
	if s.ops != nil {
		o.URL = cmp.Or(o.URL, s.opsURL())
	}
	if s.settings != nil {
		o.Settings = s.settings(ctx, s.engine)
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
	tables := &catalog.Catalog{Tables: s.lake, Views: views, Readers: s.readers, Open: o.Loopback, Log: s.log}
	secret, err := s.engine.Secret(ctx, submissionSecret)
	if err != nil {
		return err
	}
	follow := feed.New(feed.Options{
		Stream: s.stream, Erasures: s.erasures, Tables: s.lake, Readers: s.readers,
		Secret: secret, IDs: s.api.IDs, Log: s.log, Oldest: s.member.Oldest,
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
		StreamRetention: s.api.Limits.KeyAge, DataDir: dir, Version: version.Number, Now: s.now, Log: s.log,
	}, o)
	s.api.Live = s.console
	if err := s.console.OpenAlarms(ctx); err != nil {
		return err
	}
	var cert *listen.Certificate
	if s.opsCert != "" {
		if cert, err = listen.OpenCertificate(s.opsCert, s.opsKey, time.Now, s.log); err != nil {
			return err
		}
	}
	s.opsHTTP = listen.NewOpsServer(s.console.Handler(), cert, s.log)
	if !o.Loopback && s.opsCert == "" && !s.opsProxy {
		s.log.Warn("the operators' listener is not loopback and has no TLS: it answers /livez and /readyz only; see --ops-tls-cert and --ops-proxy")
	}
	return nil
}

// opsConnections is how many connections the operators' listener takes: pages, and a hundred followers of the feed.
// Arbitrary; with TLS they cost some 20 MB.
const opsConnections = 512

// limitOps bounds the connections of the operators' listener. One peer may have a quarter, unless all come from one: on
// loopback, and behind a proxy.
func (s *service) limitOps(l net.Listener) *listen.Listener {
	perPeer := int64(opsConnections / 4)
	if isLoopback(l.Addr()) || s.opsProxy {
		perPeer = opsConnections + 1 // no share: only the limit of all counts
	}
	return listen.New(l, opsConnections, perPeer)
}

// opsURL is how to reach the operators' listener.
func (s *service) opsURL() string {
	scheme := "http"
	if s.opsCert != "" {
		scheme = "https"
	}
	return scheme + "://" + s.ops.Addr().String() + "/"
}

func isLoopback(a net.Addr) bool {
	t, ok := a.(*net.TCPAddr)
	return ok && t.IP.IsLoopback()
}

func newConsole() *cobra.Command {
	cmd := &cobra.Command{Use: "console", Short: "Say who may look at the console from another machine", Args: cobra.NoArgs, RunE: needsSubcommand}
	password := &cobra.Command{
		Use:   "password",
		Short: "Set the password of the console; ends every open session",
		Long: fmt.Sprintf(`Reads the password from standard input, or asks for it on a terminal, and stores its argon2id hash
in the engine, for all nodes. At least %d characters. A server that runs takes it up at once.`, access.MinPassword),
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			secret, err := readPassword(cmd)
			if err != nil {
				return failed(err)
			}
			return withAudit(cmd, func(e *engine.Engine, log *audit.Log) error {
				credentials, err := access.Open(cmd.Context(), e)
				if err != nil {
					return err
				}
				if err := credentials.SetPassword(cmd.Context(), secret); err != nil {
					return err
				}
				fmt.Fprintln(cmd.ErrOrStderr(), "The password is set.")
				return note(cmd.Context(), log, "console.password", "", nil)
			})
		},
	}
	token := &cobra.Command{
		Use:   "token",
		Short: "Make the token with which programs, such as Prometheus, reach the console; replaces the one before",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withAudit(cmd, func(e *engine.Engine, log *audit.Log) error {
				credentials, err := access.Open(cmd.Context(), e)
				if err != nil {
					return err
				}
				secret, err := credentials.NewToken(cmd.Context())
				if err != nil {
					return err
				}
				fmt.Fprintln(cmd.ErrOrStderr(), "Send it as: Authorization: Bearer TOKEN. It is not shown again:")
				fmt.Fprintln(cmd.OutOrStdout(), secret)
				return note(cmd.Context(), log, "console.token", "", nil)
			})
		},
	}
	cmd.AddCommand(password, token)
	return cmd
}

// readPassword asks twice on a terminal, and reads a line from anything else.
func readPassword(cmd *cobra.Command) (string, error) {
	f, ok := cmd.InOrStdin().(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		line, err := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
		if line == "" && err != nil {
			return "", errors.New("no password on standard input")
		}
		return strings.TrimRight(line, "\r\n"), nil
	}
	ask := func(prompt string) (string, error) {
		fmt.Fprint(cmd.ErrOrStderr(), prompt)
		b, err := term.ReadPassword(int(f.Fd()))
		fmt.Fprintln(cmd.ErrOrStderr())
		return string(b), err
	}
	first, err := ask("New password: ")
	if err != nil {
		return "", err
	}
	second, err := ask("Once more:    ")
	if err != nil {
		return "", err
	}
	if first != second {
		return "", errors.New("the two are not the same")
	}
	return first, nil
}

func newAudit() *cobra.Command {
	cmd := &cobra.Command{Use: "audit", Short: "Read and verify the log of what operators did", Args: cobra.NoArgs, RunE: needsSubcommand}
	verify := &cobra.Command{
		Use:   "verify",
		Short: "Hold every entry against its seal; note the last seal elsewhere to prove that nothing before it changed",
		Args:  cobra.NoArgs,
	}
	asJSON := jsonFlag(verify)
	verify.RunE = func(cmd *cobra.Command, _ []string) error {
		return withAudit(cmd, func(_ *engine.Engine, log *audit.Log) error {
			sum, err := log.Verify(cmd.Context())
			if err != nil {
				return err
			}
			if *asJSON {
				return printJSON(cmd.OutOrStdout(),
					map[string]any{
						"entries": sum.Entries, "dropped": sum.Dropped, "last": sum.Last.Format(time.RFC3339),
						"seal": sum.Seal,
					})
			}
			fmt.Fprintf(cmd.OutOrStdout(), "intact: %d entries\n", sum.Entries)
			if sum.Dropped > 0 {
				fmt.Fprintf(cmd.OutOrStdout(), "the oldest %d of them were dropped, because the log is limited\n", sum.Dropped)
			}
			if sum.Entries > 0 {
				fmt.Fprintf(cmd.OutOrStdout(), "last:   %s\nseal:   %s\n", sum.Last.Format(time.RFC3339), sum.Seal)
			}
			return nil
		})
	}
	limit := 20
	list := &cobra.Command{Use: "list", Short: "Show the newest entries, one JSON object a line", Args: cobra.NoArgs}
	list.Flags().IntVar(&limit, "limit", limit, "how many")
	list.RunE = func(cmd *cobra.Command, _ []string) error {
		return withAudit(cmd, func(_ *engine.Engine, log *audit.Log) error {
			entries, err := log.Tail(cmd.Context(), limit)
			if err != nil {
				return err
			}
			out := json.NewEncoder(cmd.OutOrStdout())
			for _, e := range entries {
				if err := out.Encode(e); err != nil {
					return err
				}
			}
			return nil
		})
	}
	cmd.AddCommand(verify, list)
	return cmd
}
