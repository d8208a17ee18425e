package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/bench"
	"sluice/internal/objectstore"
	"sluice/internal/traffic"
)

func newBench() *cobra.Command {
	b := &bench.Harness{Now: time.Now}
	var mix, jsonFile, plotFile string
	var keys []string
	var suite, mine, reference bool
	var repeat int
	var page string
	var commit time.Duration
	var partitions int
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure the service on this machine",
		Long: `Starts a server of its own in a temporary directory, sends it events over loopback, and prints what
it took: events a second, latency, processor time, memory, bytes written, freshness, bytes on disk.
With --url it measures a server that runs already, as a sender sees it; the events it sends are
stored there. --rate offers events at a steady rate whatever the answers take (open loop), and counts
latency from the moment a request was due. Without it each sender waits for its answer (closed loop).
With --lake s3://bucket/prefix the tables of its own server are in that bucket, below a prefix that
it empties afterwards. It then counts the requests to the bucket from the first event until all events
are loaded, and prints what a day of that load costs at the prices of Amazon S3 Standard (us-east-1:
0.005 dollars for a thousand PUT or LIST, 0.0004 for a thousand GET or HEAD). The sweep runs once an hour and is in none of the shorter runs.`,
		Example: `  sluice bench --reference
  sluice bench --batch 1 --senders 64 --rate 5000
  sluice bench --suite --json bench.json --plot bench.svg
  sluice bench --lake s3://my-bucket/bench --s3-region eu-central-1 --rate 500 --for 10m --commit-every 15s
  sluice bench --url http://127.0.0.1:8080 --key shop=sluice_…`,
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	f.IntVar(&b.Load.Batch, "batch", 500, "events in a request; 1 sends single events")
	f.IntVar(&b.Load.Senders, "senders", 16, "connections")
	f.Float64Var(&b.Load.Rate, "rate", 0, "events a second to offer, whatever the answers take; 0: as many as are answered")
	f.DurationVar(&b.Load.Length, "for", 10*time.Second, "how long to send, at most an hour")
	f.Int64Var(&b.Load.Events, "events", 0, "stop after so many events; 0: when the time is over")
	f.BoolVar(&b.Load.Keyed, "keyed", false, "give each request an idempotency key of its own")
	f.IntVar(&b.Datasets, "datasets", 1, "datasets to make and send to")
	f.StringVar(&mix, "mix", "standard", "standard, lively, plain, or shares such as gpp=0.5,custom=1,urls=0,value=1,late=0.1,invalid=0.01")
	f.Uint64Var(&b.Seed, "seed", 1, "the same seed makes the same events")
	f.BoolVar(&b.Load.Loading, "loading", true, "let the server load events into the table while it accepts; false measures accepting alone")
	f.DurationVar(&commit, "commit-every", 5*time.Second, "how long an event may wait for its commit to the table")
	f.IntVar(&partitions, "partitions", 0, "partitions of the stream of the own server; 0 is as many as there are, or 1")
	f.BoolVar(&reference, "reference", false, "send the same to a server that does the least possible, one round each by turns, and print the ratio")
	f.IntVar(&b.Rounds, "rounds", 4, "with --reference: how many rounds")
	f.BoolVar(&suite, "suite", false, "measure everything that docs/performance.md gives, and print it beside its goals; --for and --events set the size")
	f.IntVar(&repeat, "repeat", 1, "with --suite: how often")
	f.StringVar(&page, "write", "", "with --suite: put the table into this Markdown page, in place of the one before")
	f.StringVar(&b.Address, "url", "", "measure the server at this address instead of an own one")
	f.StringArrayVar(&keys, "key", nil, "with --url: DATASET=KEY; may be repeated")
	f.IntVar(&b.Process, "pid", 0, "with --url: process id of that server, to read its processor time, memory and writes")
	f.BoolVar(&mine, "i-own-this-server", false, "with --url: allow an address beyond this machine")
	f.StringVar(&jsonFile, "json", "", "write all figures to this file")
	f.StringVar(&plotFile, "plot", "", "draw latency and throughput into this SVG file")
	f.StringVar(&b.Profiles, "profiles", "", "let the server write its profiles into this directory")
	cmd.AddCommand(newReference())
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		if b.Mix, err = parseMix(mix); err != nil {
			return err
		}
		if err := checkBench(b, keys, mine); err != nil {
			return err
		}
		if b.Bucket, err = benchBucket(cmd); err != nil {
			return err
		}
		b.Serve = []string{"--commit-every", commit.String(), "--partitions", strconv.Itoa(partitions)}
		if b.Program, err = os.Executable(); err != nil {
			return failed(err)
		}
		b.Words = cmd.ErrOrStderr()
		b.Data, _ = cmd.Flags().GetString("data")
		if !cmd.Flags().Changed("data") {
			b.Data = ""
		}
		if suite {
			return failed(runSuite(cmd, b, repeat, page, jsonFile))
		}
		if reference {
			b.Load.Rival = bench.Least
		}
		report := &bench.Report{Machine: machine()}
		if err := b.Run(cmd.Context(), []bench.Step{b.Load}, report); err != nil {
			return failed(err)
		}
		return failed(errors.Join(report.WriteTable(cmd.OutOrStdout()), toFile(jsonFile, report.WriteJSON), toFile(plotFile, report.WritePlot)))
	}
	return cmd
}

// runSuite runs the suite several times, prints the goals, and puts them into a page.
func runSuite(cmd *cobra.Command, b *bench.Harness, repeat int, page, jsonFile string) error {
	if repeat < 1 || repeat > 20 {
		return errors.New("--repeat is 1 to 20")
	}
	var reports []*bench.Report
	for i := range repeat {
		fmt.Fprintf(b.Words, "run %d of %d\n", i+1, repeat)
		report := &bench.Report{Machine: machine()}
		if err := b.Run(cmd.Context(), b.Suite(), report); err != nil {
			return err
		}
		reports = append(reports, report)
		if err := report.WriteTable(cmd.OutOrStdout()); err != nil {
			return err
		}
	}
	if err := bench.WriteGoals(cmd.OutOrStdout(), reports); err != nil {
		return err
	}
	err := toFile(jsonFile, func(w io.Writer) error {
		for _, r := range reports {
			if err := r.WriteJSON(w); err != nil {
				return err
			}
		}
		return nil
	})
	if page == "" || err != nil {
		return err
	}
	text, err := os.ReadFile(page)
	if err == nil {
		text, err = bench.PutGoals(text, reports)
	}
	if err == nil {
		err = os.WriteFile(page, text, 0o644)
	}
	return err
}

// benchBucket is the bucket that --lake names; nil without it.
func benchBucket(cmd *cobra.Command) (*bench.Bucket, error) {
	f := cmd.Flags()
	if !f.Changed("lake") {
		return nil, nil
	}
	if f.Changed("url") {
		return nil, errors.New("--lake is for the own server of bench, and not for --url")
	}
	lake, _ := f.GetString("lake")
	place, err := parsePlace(cmd, "--lake", lake)
	if err != nil {
		return nil, err
	}
	if place.dir != "" {
		return nil, errors.New("--lake of bench is a bucket such as s3://bucket/prefix; use --data for a directory")
	}
	b := &bench.Bucket{URL: place.String(), Open: func(ctx context.Context, url string) (objectstore.Store, error) {
		p, err := parsePlace(cmd, "--lake", url)
		if err != nil {
			return nil, err
		}
		return p.open(ctx)
	}}
	for _, name := range []string{"s3-endpoint", "s3-region", "s3-path-style"} {
		if f.Changed(name) {
			b.Args = append(b.Args, "--"+name+"="+f.Lookup(name).Value.String())
		}
	}
	return b, nil
}

func machine() bench.Machine {
	return bench.Machine{
		OS: runtime.GOOS, Arch: runtime.GOARCH, Processors: runtime.NumCPU(), Go: runtime.Version(),
		Version: programVersion(), Begun: time.Now().UTC().Format(time.RFC3339),
	}
}

// toFile writes a file, if there is a name for it.
func toFile(name string, write func(io.Writer) error) error {
	if name == "" {
		return nil
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

// checkBench holds the flags against each other, and keeps the traffic at home.
func checkBench(b *bench.Harness, keys []string, mine bool) error {
	l := &b.Load
	switch {
	case l.Batch < 1 || l.Batch > 1000:
		return errors.New("--batch is 1 to 1000")
	case l.Senders < 1 || l.Senders > 10_000:
		return errors.New("--senders is 1 to 10000")
	case l.Length <= 0 || l.Length > time.Hour:
		return errors.New("--for is more than nothing and at most an hour")
	case l.Rate < 0 || l.Events < 0:
		return errors.New("--rate and --events are not negative")
	case b.Datasets < 1 || b.Datasets > 100_000:
		return errors.New("--datasets is 1 to 100000")
	case b.Rounds < 1 || b.Rounds > 100:
		return errors.New("--rounds is 1 to 100")
	case b.Address == "":
		if len(keys) > 0 || b.Process != 0 {
			return errors.New("--key and --pid go with --url")
		}
		return nil
	}
	u, err := url.Parse(b.Address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return errors.New("--url is an address such as http://127.0.0.1:8080")
	}
	if !mine && !loopback(u.Hostname()) {
		return errors.New("--url is beyond this machine: a load there needs --i-own-this-server")
	}
	for _, k := range keys {
		id, key, ok := strings.Cut(k, "=")
		if !ok || id == "" || key == "" {
			return errors.New("--key is DATASET=KEY")
		}
		b.Given = append(b.Given, bench.Dataset{ID: id, Key: func() string { return key }})
	}
	if len(b.Given) == 0 {
		return errors.New("--url needs a --key DATASET=KEY")
	}
	return nil
}

// loopback says whether a host is this machine, without asking anybody for its address.
func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.IsLoopback()
}

func parseMix(text string) (traffic.Mix, error) {
	switch text {
	case "standard":
		return traffic.Standard, nil
	case "lively":
		return traffic.Lively, nil
	case "plain":
		return traffic.Mix{}, nil
	}
	var m traffic.Mix
	shares := map[string]*float64{
		"gpp": &m.GPP, "custom": &m.Custom, "urls": &m.URLs, "value": &m.Value, "late": &m.Late, "invalid": &m.Invalid,
	}
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(part, "=")
		v, err := strconv.ParseFloat(value, 64)
		if shares[name] == nil || err != nil || v < 0 || v > 1 {
			return m, fmt.Errorf("--mix: %q is not a share such as gpp=0.5", part)
		}
		*shares[name] = v
	}
	return m, nil
}

// newReference runs the reference as a process of its own. Only bench calls it.
func newReference() *cobra.Command {
	cmd := &cobra.Command{Use: "reference FILE", Hidden: true, Args: cobra.ExactArgs(1)}
	format := cmd.Flags().String("log-format", "text", "text or json")
	profile := profileFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		log, err := newLogger(cmd.ErrOrStderr(), *format, "info")
		if err != nil {
			return err
		}
		ref, err := bench.OpenReference(args[0])
		if err != nil {
			return failed(err)
		}
		defer ref.Close()
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return failed(err)
		}
		stop, err := profile()
		if err != nil {
			return failed(err)
		}
		server := &http.Server{Handler: ref} // no deadlines: they would cost something
		go func() { <-cmd.Context().Done(); _ = server.Close() }()
		done := make(chan error, 1)
		go func() { done <- ref.Run(cmd.Context()) }()
		log.Info("serving", "api", "http://"+l.Addr().String())
		return failed(errors.Join(serve(server, l, false), <-done, stop()))
	}
	return cmd
}
