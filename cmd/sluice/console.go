package main

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"sluice/internal/api"
	"sluice/internal/audit"
	"sluice/internal/catalog"
	"sluice/internal/console"
	"sluice/internal/feed"
)

// openConsole makes the operators' listener: console, catalog, feed, /metrics, /livez, /readyz. On an address that is not this
// machine's own it answers only the last two without a log-in, and over TLS only.
func (s *service) openConsole() error {
	dir := s.config.engine.Dir
	// Who comes through a proxy on this machine is not on this machine.
	o := console.Options{Loopback: (s.ops == nil || isLoopback(s.ops.Addr())) && !s.opsProxy, Proxy: s.opsProxy, APIURL: s.url()}
	tables := &catalog.Catalog{Tables: s.lake, Readers: s.readers, Open: o.Loopback, Log: s.log}
	follow := feed.New(feed.Options{Stream: s.stream, Tables: s.lake, Readers: s.readers, IDs: s.api.IDs, Log: s.log})
	o.Mounts = []console.Mount{
		{Prefix: catalog.Prefix, Handler: tables.Handler(), Reject: catalog.Reject},
		{Prefix: feed.Prefix, Handler: follow.Handler(), Reject: feed.Reject},
	}
	s.console = console.New(console.Sources{
		Engine: s.engine, Registry: s.registry, Stream: s.stream, Lake: s.lake, Hours: s.hours, Loader: s.loader, API: s.api, Audit: audit.Open(dir),
		StreamRetention: s.api.Limits.KeyAge, DataDir: dir, Version: programVersion(), Now: hooks.now, Log: s.log,
	}, o)
	s.api.Live = s.console
	s.opsHTTP = &http.Server{
		Handler: s.console.Handler(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	if s.opsCert != "" {
		cert, err := api.OpenCertificate(s.opsCert, s.opsKey, time.Now, s.log)
		if err != nil {
			return err
		}
		s.opsHTTP.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: cert.Choose}
	}
	if !o.Loopback && s.opsCert == "" && !s.opsProxy {
		s.log.Warn("the operators' listener is not loopback and has no TLS: it answers /livez and /readyz only; see --ops-tls-cert and --ops-proxy")
	}
	return nil
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
in the data directory. At least %d characters. A server that runs takes it up at once.`, console.MinPassword),
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			secret, err := readPassword(cmd)
			if err != nil {
				return failed(err)
			}
			dir, _ := cmd.Flags().GetString("data")
			if err := console.SetPassword(dir, secret); err != nil {
				return failed(err)
			}
			fmt.Fprintln(cmd.ErrOrStderr(), "The password is set.")
			return failed(note(audit.Open(dir), "console.password", "", nil))
		},
	}
	token := &cobra.Command{
		Use:   "token",
		Short: "Make the token with which programs, such as Prometheus, reach the console; replaces the one before",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, _ := cmd.Flags().GetString("data")
			secret, err := console.NewToken(dir)
			if err != nil {
				return failed(err)
			}
			fmt.Fprintln(cmd.ErrOrStderr(), "Send it as: Authorization: Bearer TOKEN. It is not shown again:")
			fmt.Fprintln(cmd.OutOrStdout(), secret)
			return failed(note(audit.Open(dir), "console.token", "", nil))
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
		dir, _ := cmd.Flags().GetString("data")
		sum, err := audit.Open(dir).Verify()
		if err != nil {
			return failed(err)
		}
		if *asJSON {
			return failed(json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]any{"entries": sum.Entries, "last": sum.Last.Format(time.RFC3339), "seal": sum.Seal}))
		}
		fmt.Fprintf(cmd.OutOrStdout(), "intact: %d entries\n", sum.Entries)
		if sum.Entries > 0 {
			fmt.Fprintf(cmd.OutOrStdout(), "last:   %s\nseal:   %s\n", sum.Last.Format(time.RFC3339), sum.Seal)
		}
		return nil
	}
	limit := 20
	list := &cobra.Command{Use: "list", Short: "Show the newest entries, one JSON object a line", Args: cobra.NoArgs}
	list.Flags().IntVar(&limit, "limit", limit, "how many")
	list.RunE = func(cmd *cobra.Command, _ []string) error {
		dir, _ := cmd.Flags().GetString("data")
		entries, err := audit.Open(dir).Tail(limit)
		if err != nil {
			return failed(err)
		}
		out := json.NewEncoder(cmd.OutOrStdout())
		for _, e := range entries {
			if err := out.Encode(e); err != nil {
				return failed(err)
			}
		}
		return nil
	}
	cmd.AddCommand(verify, list)
	return cmd
}
