package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/api"
)

func newServe() *cobra.Command {
	var c config
	streamRetention, tableRetention, snapshots := days(0), days(400*24*time.Hour), days(24*time.Hour)
	var maxStream, headroom, inFlight, memory size
	var logFormat, logLevel string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the service",
		Example: `  sluice serve
  sluice serve --listen :8443 --tls-cert cert.pem --tls-key key.pem
  sluice serve --nats nats://10.0.0.1:4222,nats://10.0.0.2:4222 --replicas 3`,
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	f.StringVar(&c.listen, "listen", "127.0.0.1:8080", "address of the senders' API")
	f.StringVar(&c.ops, "ops", "127.0.0.1:8081", "address of the operators' listener: console, catalog, feed, /metrics, /livez, /readyz; empty for none")
	f.StringVar(&c.opsCert, "ops-tls-cert", "", "certificate file of the operators' listener; read again when it changes")
	f.StringVar(&c.opsKey, "ops-tls-key", "", "key file of that certificate")
	f.BoolVar(&c.opsProxy, "ops-proxy", false, "a proxy in front of the operators' listener ends TLS and sets X-Forwarded-For")
	f.StringVar(&c.otlp, "otlp", "", "address of an OpenTelemetry collector for traces, such as http://127.0.0.1:4318; empty for none")
	f.StringVar(&c.certFile, "tls-cert", "", "certificate file of the senders' API; read again when it changes")
	f.StringVar(&c.keyFile, "tls-key", "", "key file of the certificate")
	replicas := f.Int("replicas", 0, "copies of everything in the engine; more than 1 needs --nats; 0 is as many as there are, or 1")
	f.IntVar(&c.partitions, "partitions", 0, "partitions of the stream; may grow, never shrink; 0 is as many as there are, or 1")
	f.Var(&streamRetention, "stream-retention", "how long the stream retains accepted events; also how long an Idempotency-Key is known; 0 is as it is, or 72h")
	f.Var(&maxStream, "max-stream", "bytes each partition may hold; 0 is no limit but the disk")
	f.Var(&headroom, "headroom", "free disk space below which events are rejected; 0 is 5 %, at least 16MiB, at most 512MiB")
	f.Var(&inFlight, "max-in-flight", "bytes that requests may hold in memory together; 0 is 256MiB, or an eighth of what its control group allows")
	f.Int64Var(&c.connections, "max-connections", 0, "connections that senders may have open at one time, one peer a half of them; 0 is 10000, or as many as an eighth of its control group's memory holds")
	f.Int64Var(&c.maxKeys, "max-idempotency-keys", 0, "idempotency keys that one dataset may have in use on this node; 0 is 1000000")
	f.IntVar(&c.maxAllKeys, "max-idempotency-keys-total", 0, "idempotency keys that all datasets may have in use on this node with the embedded engine, 16 bytes of memory each; 0 is 32 Mi")
	f.Var(&memory, "memory", "bytes the program stays below while it can; 0 is 256MiB, or half of what its control group allows; not used when GOGC or GOMEMLIMIT is set")
	f.DurationVar(&c.backlogAge, "max-backlog-age", 0, "reject events while the oldest one not yet in the table is older than this; 0 is never")
	f.Var(&snapshots, "snapshot-retention", "how long a snapshot of a table, with its files, stays readable after the next one has come")
	f.StringVar(&c.tableGroup, "lake-group", "", "a group of this machine that may read the tables; without it only the owner may")
	f.Var(&tableRetention, "table-retention", "how long the tables retain events; 0 is for ever")
	renamed(f, "keep", &streamRetention, "stream-retention")
	renamed(f, "retain", &tableRetention, "table-retention")
	f.BoolVar(&c.loading, "loading", true, "carry accepted events into the table; false on a node that only accepts")
	f.DurationVar(&c.commit, "commit-every", 5*time.Second, "how long an event may wait for its commit to the table")
	f.DurationVar(&c.stopWithin, "stop-within", 30*time.Second, "how long requests in flight may take to end when the service stops")
	f.DurationVar(&c.drainWait, "drain-wait", 0, "when the service stops: how long /readyz fails before the senders' listener closes, so that load balancers notice")
	f.DurationVar(&c.natsWait, "nats-wait", 0, "how long to wait at the start for a NATS server that does not answer; 0 is without end, with /readyz failing")
	f.StringVar(&logFormat, "log-format", "text", "text or json")
	f.StringVar(&logLevel, "log-level", "info", "debug, info, warn or error")
	profile := profileFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if (c.certFile == "") != (c.keyFile == "") {
			return errors.New("--tls-cert and --tls-key go together")
		}
		if (c.opsCert == "") != (c.opsKey == "") {
			return errors.New("--ops-tls-cert and --ops-tls-key go together")
		}
		log, err := newLogger(cmd.ErrOrStderr(), logFormat, logLevel)
		if err != nil {
			return err
		}
		if streamRetention != 0 && time.Duration(streamRetention) < 48*time.Hour {
			return errors.New("--stream-retention must be at least 48h: that long an Idempotency-Key is promised to be known")
		}
		if inFlight > 0 && inFlight < api.LeastInFlight {
			return errors.New("--max-in-flight must be at least 32MiB: with less the largest request would never be taken")
		}
		if snapshots < days(time.Minute) {
			return errors.New("--snapshot-retention must be at least 1m: queries need their files until they end")
		}
		if c.tables, err = placeOfLake(cmd); err != nil {
			return err
		}
		c.log, c.snapshots = log, time.Duration(snapshots)
		c.engine = engineOptions(cmd)
		c.engine.Replicas = *replicas
		c.streamRetention, c.tableRetention = time.Duration(streamRetention), time.Duration(tableRetention)
		c.maxStream, c.headroom, c.inFlight, c.memory = int64(maxStream), int64(headroom), int64(inFlight), int64(memory)
		ctx := cmd.Context()
		s, err := openService(ctx, c)
		if err != nil {
			return failed(err)
		}
		defer s.close()
		stopProfile, err := profile()
		if err != nil {
			return failed(err)
		}
		attrs := []any{"api", s.url(), "data", c.engine.Dir, "engine", s.engine.Mode().String(), "version", programVersion()}
		if s.ops != nil {
			attrs = append(attrs, "ops", s.opsURL())
		}
		log.Info("serving", attrs...)
		if len(s.registry.Datasets()) == 0 {
			log.Info("there is no dataset yet; make one with: sluice dataset create ID")
		}
		if err := errors.Join(s.run(ctx), stopProfile()); err != nil {
			return failed(err)
		}
		log.Info("stopped")
		return nil
	}
	return cmd
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
