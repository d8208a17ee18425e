// Command bench measures the service on this machine: it builds sluice, starts a server in a temporary directory, sends it events
// over loopback, and prints what it took. With -url it measures a server that runs already, as a sender sees it; the events that
// it sends are stored there.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"sluice/internal/servicetest"
	"sluice/internal/traffictest"
	"sluice/tools/bench/measure"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	run := bench
	if len(os.Args) == 3 && os.Args[1] == "reference" {
		run = reference
	}
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

// options are what flags say beside the harness.
type options struct {
	mix, json        string
	keys             []string
	suite, mine, ref bool
	repeat           int
	commit           time.Duration
	partitions       int
}

func bench(ctx context.Context, args []string) error {
	b, o := &measure.Harness{Now: time.Now, Words: os.Stderr}, options{}
	if err := parse(b, &o, args); err != nil {
		return err
	}
	b.Serve = []string{"--commit-every", o.commit.String(), "--partitions", strconv.Itoa(o.partitions)}
	dir, err := os.MkdirTemp("", "sluice-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if b.Address == "" && b.Program == "" {
		program, err := servicetest.Build(".", dir)
		if err != nil {
			return err
		}
		b.Program = program.Path
	}
	if b.Self, err = os.Executable(); err != nil {
		return err
	}
	plan := []measure.Step{b.Load}
	if o.suite {
		plan = b.Suite()
	}
	var reports []*measure.Report
	for range o.repeat {
		report := &measure.Report{Machine: machine()}
		if err := b.Run(ctx, plan, report); err != nil {
			return err
		}
		reports = append(reports, report)
		if err := report.WriteTable(os.Stdout); err != nil {
			return err
		}
	}
	if o.suite {
		err = measure.WriteGoals(os.Stdout, reports)
	}
	return errors.Join(err, write(o.json, reports))
}

// parse reads the flags and holds them against each other.
func parse(b *measure.Harness, o *options, args []string) (err error) {
	f := flag.NewFlagSet("bench", flag.ExitOnError)
	f.IntVar(&b.Load.Batch, "batch", 500, "events in a request; 1 sends single events")
	f.IntVar(&b.Load.Senders, "senders", 16, "connections")
	f.Float64Var(&b.Load.Rate, "rate", 0, "events a second to offer, whatever the answers take (open loop); 0: as many as are answered")
	f.DurationVar(&b.Load.Length, "for", 10*time.Second, "how long to send, at most an hour")
	f.Int64Var(&b.Load.Events, "events", 0, "stop after so many events; 0: when the time is over")
	f.BoolVar(&b.Load.Keyed, "keyed", false, "give each request an idempotency key of its own")
	f.IntVar(&b.Datasets, "datasets", 1, "datasets to make and send to")
	f.StringVar(&o.mix, "mix", "standard", "standard, lively, plain, or shares such as gpp=0.5,custom=1,urls=0,value=1,late=0.1,invalid=0.01")
	f.Uint64Var(&b.Seed, "seed", 1, "the same seed makes the same events")
	f.BoolVar(&b.Load.Loading, "loading", true, "let the server load events into the table while it accepts; false measures accepting alone")
	f.DurationVar(&o.commit, "commit-every", 5*time.Second, "how long an event may wait for its commit to the table")
	f.IntVar(&o.partitions, "partitions", 0, "partitions of the stream; 0 is as many as there are, or 1")
	f.BoolVar(&o.ref, "reference", false, "send the same to a server that does the least possible, one round each by turns, and print the ratio")
	f.IntVar(&b.Rounds, "rounds", 4, "with -reference: how many rounds")
	f.BoolVar(&o.suite, "suite", false, "measure everything that docs/performance.md gives, and print it beside its goals; -for and -events set the size")
	f.IntVar(&o.repeat, "repeat", 1, "how often, 1 to 20")
	f.StringVar(&b.Program, "program", "", "the sluice to measure, such as one of another revision; empty: one of this tree")
	f.StringVar(&b.Data, "data", "", "keep what is stored in this directory; empty: nowhere")
	f.StringVar(&b.Address, "url", "", "measure the server at this address instead of an own one")
	f.Func("key", "with -url: DATASET=KEY; may be repeated", func(s string) error { o.keys = append(o.keys, s); return nil })
	f.IntVar(&b.Process, "pid", 0, "with -url: process id of that server, to read its processor time, memory and writes")
	f.BoolVar(&o.mine, "i-own-this-server", false, "with -url: allow an address beyond this machine")
	f.StringVar(&o.json, "json", "", "write all figures to this file")
	f.StringVar(&b.Profiles, "profiles", "", "let the server write its profiles into this directory")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("%q is no flag", f.Arg(0))
	}
	if b.Mix, err = parseMix(o.mix); err != nil {
		return err
	}
	if o.ref {
		b.Load.Rival = measure.Least
	}
	return check(b, o)
}

func machine() measure.Machine {
	return measure.Machine{OS: runtime.GOOS, Arch: runtime.GOARCH, Processors: runtime.NumCPU(), Go: runtime.Version(), Begun: time.Now().UTC().Format(time.RFC3339)}
}

// write writes the reports to a file, if there is a name for it.
func write(name string, reports []*measure.Report) error {
	if name == "" {
		return nil
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	for _, r := range reports {
		err = errors.Join(err, r.WriteJSON(f))
	}
	return errors.Join(err, f.Close())
}

// check holds the flags against each other, and keeps the traffic at home.
func check(b *measure.Harness, o *options) error {
	l := &b.Load
	switch {
	case l.Batch < 1 || l.Batch > 1000:
		return errors.New("-batch is 1 to 1000")
	case l.Senders < 1 || l.Senders > 10_000:
		return errors.New("-senders is 1 to 10000")
	case l.Length <= 0 || l.Length > time.Hour:
		return errors.New("-for is more than nothing and at most an hour")
	case l.Rate < 0 || l.Events < 0:
		return errors.New("-rate and -events are not negative")
	case b.Datasets < 1 || b.Datasets > 100_000:
		return errors.New("-datasets is 1 to 100000")
	case b.Rounds < 1 || b.Rounds > 100 || o.repeat < 1 || o.repeat > 20:
		return errors.New("-rounds is 1 to 100, and -repeat 1 to 20")
	case b.Address == "":
		if len(o.keys) > 0 || b.Process != 0 {
			return errors.New("-key and -pid go with -url")
		}
		return nil
	}
	return checkAddress(b, o)
}

func checkAddress(b *measure.Harness, o *options) error {
	u, err := url.Parse(b.Address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return errors.New("-url is an address such as http://127.0.0.1:8080")
	}
	if !o.mine && !loopback(u.Hostname()) {
		return errors.New("-url is beyond this machine: a load there needs -i-own-this-server")
	}
	for _, k := range o.keys {
		id, key, ok := strings.Cut(k, "=")
		if !ok || id == "" || key == "" {
			return errors.New("-key is DATASET=KEY")
		}
		b.Given = append(b.Given, measure.Dataset{ID: id, Key: func() string { return key }})
	}
	if len(b.Given) == 0 {
		return errors.New("-url needs a -key DATASET=KEY")
	}
	return nil
}

// loopback says whether a host is this machine, without asking anybody for its address.
func loopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.IsLoopback()
}

func parseMix(text string) (traffictest.Mix, error) {
	switch text {
	case "standard":
		return traffictest.Standard, nil
	case "lively":
		return traffictest.Lively, nil
	case "plain":
		return traffictest.Mix{}, nil
	}
	var m traffictest.Mix
	shares := map[string]*float64{
		"gpp": &m.GPP, "custom": &m.Custom, "urls": &m.URLs, "value": &m.Value, "late": &m.Late, "invalid": &m.Invalid,
	}
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(part, "=")
		v, err := strconv.ParseFloat(value, 64)
		if shares[name] == nil || err != nil || v < 0 || v > 1 {
			return m, fmt.Errorf("-mix: %q is not a share such as gpp=0.5", part)
		}
		*shares[name] = v
	}
	return m, nil
}

// reference runs the reference as a process of its own. Only bench calls it.
func reference(ctx context.Context, args []string) error {
	ref, err := measure.OpenReference(args[1])
	if err != nil {
		return err
	}
	defer ref.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: ref} // no deadlines: they would cost something
	go func() { <-ctx.Done(); _ = server.Close() }()
	done := make(chan error, 1)
	go func() { done <- ref.Run(ctx) }()
	slog.New(slog.NewJSONHandler(os.Stderr, nil)).Info("serving", "api", "http://"+l.Addr().String())
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-done
}
