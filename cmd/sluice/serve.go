package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sluice/cmd/sluice/internal/service"
	"sluice/internal/console"
	"sluice/internal/engine"
	"sluice/internal/profile"
	"sluice/internal/version"
)

// leastSnapshots is the shortest snapshot retention. Arbitrary.
const leastSnapshots = time.Minute

var (
	errSnapshots       = errors.New("--snapshot-retention must be at least 1m: queries need their files until they end")
	errStreamRetention = errors.New("--stream-retention must be at least 48h: that long an Idempotency-Key is promised " +
		"to be known")
)

func newServe() *cobra.Command {
	var c service.Config
	streamRetention, tableRetention, snapshots := days(0), days(engine.DefaultTableRetention),
		days(engine.DefaultSnapshotRetention)
	var memory size
	var logFormat, logLevel string
	cmd := &cobra.Command{
		Use: "serve", Short: "Run the service", Args: cobra.NoArgs,
		Example: `  sluice serve
  sluice serve --listen :8443 --tls-cert cert.pem --tls-key key.pem
  sluice serve --nats tls://nats-1:4222,tls://nats-2:4222,tls://nats-3:4222 ` +
			"--nats-ca ca.crt --nats-cert sluice.crt --nats-key sluice.key --replicas 3",
	}
	f := cmd.Flags()
	f.StringVar(&c.Listen, "listen", "127.0.0.1:8080", "address of the senders' API")
	f.StringVar(&c.OpsListen, "ops", "127.0.0.1:8081",
		"address of the operators' listener: console, catalog, feed, /metrics, /livez, /readyz; empty for none")
	f.StringVar(&c.OpsCert, "ops-tls-cert", "", "certificate file of the operators' listener; read again when it changes")
	f.StringVar(&c.OpsKey, "ops-tls-key", "", "key file of that certificate")
	f.BoolVar(&c.OpsProxy, "ops-proxy", false,
		"a proxy in front of the operators' listener ends TLS and sets X-Forwarded-For")
	f.StringVar(&c.Webhook, "alarm-webhook", "",
		"address that gets a POST with JSON when an alarm begins and when it ends")
	f.StringVar(&c.PublicURL, "public-url", "", "address at which senders reach the API, for the commands and texts of "+
		"the console; default is the address of --listen")
	f.StringVar(&c.OpsPublicURL, "ops-public-url", "",
		"address at which operators reach the console, for the links that the webhook gets; default is the address of --ops")
	f.StringVar(&c.CertFile, "tls-cert", "", "certificate file of the senders' API; read again when it changes")
	f.StringVar(&c.KeyFile, "tls-key", "", "key file of the certificate")
	replicas := f.Int("replicas", 0,
		"copies of everything in the engine; more than 1 needs --nats; 0 is as many as there are, or 1")
	f.IntVar(&c.Partitions, "partitions", 0,
		"partitions of the stream; may grow, never shrink; 0 is as many as there are, or 1")
	f.Var(&streamRetention, "stream-retention",
		"how long the stream retains accepted events; also how long an Idempotency-Key is known; 0 is as it is, or 72h")
	f.Var(&memory, "memory",
		"memory to plan with: an eighth each for requests in flight, connections and idempotency keys; "+
			"0 is what its control group or GOMEMLIMIT allows, at most 2GiB")
	f.DurationVar(&c.BacklogAge, "max-backlog-age", 0,
		"reject events while the oldest one not yet in the table is older than this; 0 is never")
	f.Var(&snapshots, "snapshot-retention",
		"how long a snapshot of a table, with its files, stays readable after the next one has come; a cluster has one "+
			"value for all nodes, see sluice cluster set")
	f.StringVar(&c.TableGroup, "lake-group", "",
		"a group of this machine that may read the tables; without it only the owner may")
	f.Var(&tableRetention, "table-retention",
		"how long the tables retain events; 0 is for ever; a cluster has one value for all nodes, see sluice cluster set")
	f.BoolVar(&c.Loading, "loading", true, "carry accepted events into the table; false on a node that only accepts")
	f.DurationVar(&c.CommitEvery, "commit-every", 5*time.Second, "how long an event may wait for its commit to the table")
	f.DurationVar(&c.DrainWait, "drain-wait", 0,
		"when the service stops: how long /readyz fails before the senders' listener closes, so that load balancers notice")
	f.StringVar(&logFormat, "log-format", "text", "text or json")
	f.StringVar(&logLevel, "log-level", "info", "debug, info, warn or error")
	profiles := f.String("profile", "", "write cpu.pprof and memory.pprof into this directory at the end")
	_ = f.MarkHidden("profile")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		switch {
		case (c.CertFile == "") != (c.KeyFile == ""):
			return errors.New("--tls-cert and --tls-key go together")
		case (c.OpsCert == "") != (c.OpsKey == ""):
			return errors.New("--ops-tls-cert and --ops-tls-key go together")
		case streamRetention != 0 && time.Duration(streamRetention) < 48*time.Hour:
			return errStreamRetention
		case time.Duration(snapshots) < leastSnapshots:
			return errSnapshots
		}
		for _, name := range []string{"alarm-webhook", "public-url", "ops-public-url"} {
			if v := f.Lookup(name).Value.String(); v != "" && !webAddress(v) {
				return fmt.Errorf("--%s is an address that begins with http:// or https://, such as https://events.example.com",
					name)
			}
		}
		log, err := newLogger(cmd.ErrOrStderr(), logFormat, logLevel)
		if err != nil {
			return err
		}
		if c.Tables, err = saidPlace(cmd); err != nil {
			return err
		}
		c.S3 = s3Flags(cmd)
		c.Log = log
		c.Engine = engineOptions(cmd)
		c.Engine.Replicas = *replicas
		c.Tracing = os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
		c.StreamRetention = time.Duration(streamRetention)
		if f.Changed("table-retention") {
			c.TableRetention = cmp.Or(time.Duration(tableRetention), -1)
		}
		if f.Changed("snapshot-retention") {
			c.SnapshotRetention = time.Duration(snapshots)
		}
		c.Memory = int64(memory)
		c.Settings = func(ctx context.Context, e *engine.Engine) []console.Setting { return running(ctx, cmd, e) }
		c.SecretFiles, c.Now, c.Hooks = secretFiles(&c), hooks.now, hooks.Hooks
		ctx := cmd.Context()
		s, err := service.Open(ctx, c)
		if err != nil {
			return failed(err)
		}
		defer s.Close()
		stopProfile, err := profile.Start(*profiles)
		if err != nil {
			return failed(err)
		}
		attrs := []any{"api", s.URL(), "data", c.Engine.Dir, "engine", s.Mode(), "version", version.Number}
		if url := s.OpsURL(); url != "" {
			attrs = append(attrs, "ops", url)
		}
		log.Info("serving", attrs...)
		if len(s.Registry().Datasets()) == 0 {
			log.Info("there is no dataset yet; make one with: sluice dataset create ID")
		}
		if err := errors.Join(s.Run(ctx), stopProfile()); err != nil {
			return failed(err)
		}
		log.Info("stopped")
		return nil
	}
	return cmd
}

// environmentFile is where deploy/sluice.service has systemd read settings from, passwords and tokens among them. The
// server itself does not read it, and can still see who may.
const environmentFile = "/etc/sluice.env"

// secretFiles are the files with secrets that are not in the data directory: those that the server reads, and
// environmentFile.
func secretFiles(c *service.Config) []string {
	files := []string{c.KeyFile, c.OpsKey, c.Engine.Credentials, c.Engine.ClientKey, environmentFile}
	if c.Tables.Dir == "" { // the S3 client looks there
		home, _ := os.UserHomeDir() // "" names a file that is not there
		files = append(files, cmp.Or(os.Getenv("AWS_SHARED_CREDENTIALS_FILE"), filepath.Join(home, ".aws", "credentials")))
	}
	return files
}

// webAddress says whether a text is an address of the web that can stand in a command of a shell.
func webAddress(v string) bool {
	u, err := url.Parse(v)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" &&
		!strings.ContainsAny(v, " '\"`$\\\n")
}

// running are the settings with which a service runs, for the console; none where they cannot be told.
func running(ctx context.Context, cmd *cobra.Command, e *engine.Engine) (out []console.Setting) {
	list, err := settings(cmd, func() *effective {
		x := newEffective(cmd)
		x.unknown = x.ask(ctx, cmd, e) != nil
		return x
	})
	if err != nil {
		return nil
	}
	for i := range list {
		out = append(out, console.Setting{Name: list[i].Flag, Value: list[i].Value, From: list[i].from()})
	}
	return out
}

func newLogger(w io.Writer, format, level string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, errors.New("--log-level is debug, info, warn or error")
	}
	o := &slog.HandlerOptions{Level: l, ReplaceAttr: withUnit}
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(w, o)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, o)), nil
	}
	return nil, fmt.Errorf("--log-format is text or json")
}

// withUnit writes a duration with its unit, such as 1.5s, in JSON as in text.
func withUnit(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}
