package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"sluice/internal/bench"
	"sluice/internal/dataset"
	"sluice/internal/engine"
)

// target is a server under load and what was measured of it.
type target struct {
	name     string
	url      *url.URL
	data     string // its data directory, when it is ours
	child    *child // nil: somebody else runs it
	pid      int    // 0: cannot be looked into
	datasets []bench.Dataset

	result    bench.Result
	cpu, user time.Duration // while events were sent
	loaded    time.Duration // and until they were in the table
	generator time.Duration
	written   int64
	peak      int64
	settled   time.Duration // from the last answer until everything was in the table
	fresh     []time.Duration
}

// openSubject starts the server to be measured and makes its datasets, or takes the one that runs.
func (b *benchmark) openSubject(ctx context.Context, s step, dir string) (*target, error) {
	if b.address != "" {
		u, err := url.Parse(b.address)
		return &target{name: u.Host, url: u, pid: b.process, datasets: b.given}, err
	}
	data := b.data
	if data == "" {
		data = filepath.Join(dir, "data")
	}
	args := []string{"serve", "--data", data, "--listen", "127.0.0.1:0", "--ops", "127.0.0.1:0"}
	if !s.loading {
		args = append(args, "--loading=false")
	}
	t, err := b.startTarget(ctx, "sluice", s, args)
	if err != nil {
		return nil, err
	}
	t.data = data
	if t.datasets, err = makeDatasets(ctx, t, b.datasets); err != nil {
		return nil, errors.Join(err, t.stop())
	}
	return t, nil
}

// openReference starts the reference. It has no keys and takes those of the subject for what they are to it: bytes.
func (b *benchmark) openReference(ctx context.Context, s step, dir string, datasets []bench.Dataset) (*target, error) {
	t, err := b.startTarget(ctx, "reference", s, []string{"bench", "reference", filepath.Join(dir, "reference")})
	if err != nil {
		return nil, err
	}
	t.datasets = datasets
	return t, nil
}

func (b *benchmark) startTarget(ctx context.Context, name string, s step, args []string) (*target, error) {
	if b.profiles != "" {
		args = append(args, "--profile", filepath.Join(b.profiles, strings.ReplaceAll(s.name, " ", "-")+"-"+name))
	}
	c, err := startChild(ctx, b.words, args...)
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(c.url)
	if err != nil {
		return nil, errors.Join(err, c.stop())
	}
	return &target{name: name, url: u, child: c, pid: c.pid()}, nil
}

// makeDatasets makes n datasets with ids of one length and waits until the server knows the last of them.
func makeDatasets(ctx context.Context, t *target, n int) ([]bench.Dataset, error) {
	e, err := engine.Open(ctx, engine.Options{Dir: t.data})
	if err != nil {
		return nil, err
	}
	defer e.Close()
	registry, err := dataset.Open(ctx, e, dataset.Options{Now: time.Now})
	if err != nil {
		return nil, err
	}
	var out []bench.Dataset
	for i := range n {
		id := fmt.Sprintf("bench-%06d", i)
		_, _, key, err := registry.Create(ctx, dataset.Spec{ID: id, Name: "Benchmark"})
		if errors.Is(err, dataset.ErrExists) { // the directory is from an earlier run
			_, key, err = registry.RotateKey(ctx, id, 0)
		}
		if err != nil {
			return nil, err
		}
		out = append(out, bench.Dataset{ID: id, Key: key.Reveal})
	}
	probe := t.probe(out[n-1])
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return out, probe.Known(ctx)
}

func (t *target) probe(d bench.Dataset) *bench.Probe {
	return &bench.Probe{URL: t.url.Scheme + "://" + t.url.Host, Dataset: d, Client: &http.Client{Timeout: 30 * time.Second}, Now: time.Now}
}

func (t *target) dial(ctx context.Context) (net.Conn, error) {
	host := t.url.Host
	if t.url.Port() == "" {
		host = net.JoinHostPort(t.url.Hostname(), map[string]string{"http": "80", "https": "443"}[t.url.Scheme])
	}
	if t.url.Scheme == "https" {
		return new(tls.Dialer).DialContext(ctx, "tcp", host)
	}
	return new(net.Dialer).DialContext(ctx, "tcp", host)
}

// usage is what the server and this process have used so far.
func (t *target) usage() (server, own bench.Usage, err error) {
	if own, err = bench.ReadUsage(os.Getpid()); err != nil || t.pid == 0 {
		return bench.Usage{}, own, err
	}
	server, err = bench.ReadUsage(t.pid)
	return server, own, err
}

// settleAtMost is how long a server may take to load what it was sent.
const settleAtMost = 15 * time.Minute

// begin makes an end of what came before the measured load: its events are loaded, and it is in no profile.
func (t *target) begin(ctx context.Context, loading, profiled bool) error {
	if loading && t.name != "reference" {
		if _, err := t.loadAll(ctx); err != nil {
			return err
		}
	}
	if profiled && t.child != nil {
		return t.child.cmd.Process.Signal(syscall.SIGUSR1)
	}
	return nil
}

// loadAll waits until everything that was sent is in the table, and says how long that took.
func (t *target) loadAll(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, settleAtMost)
	defer cancel()
	took, err := t.probe(t.datasets[0]).Once(ctx)
	if err != nil {
		return 0, fmt.Errorf("wait until everything is loaded: %w", err)
	}
	return took, nil
}

// send runs a load and adds what it took. When the server loads, freshness is probed meanwhile, and then waited
// until everything is in the table: only that is the whole cost of an event.
func (t *target) send(ctx context.Context, load bench.Load, loading bool) error {
	loading = loading && t.name != "reference"
	probing, stopProbe := context.WithCancel(ctx)
	defer stopProbe()
	probed := make(chan []time.Duration, 1)
	server, own, err := t.usage()
	if err != nil {
		return err
	}
	if loading {
		go func() { probed <- t.probe(t.datasets[0]).Run(probing) }()
	}
	r, err := load.Run(ctx)
	if err != nil {
		return err
	}
	t.result.Add(r)
	after, ownAfter, err := t.usage()
	if err != nil {
		return err
	}
	t.cpu += after.CPU() - server.CPU()
	t.user += after.User - server.User
	t.generator += ownAfter.CPU() - own.CPU()
	if loading {
		stopProbe()
		t.fresh = append(t.fresh, <-probed...)
		took, err := t.loadAll(ctx)
		if err != nil {
			return err
		}
		t.settled += took
		if after, _, err = t.usage(); err != nil {
			return err
		}
		t.loaded += after.CPU() - server.CPU()
	}
	t.written += after.Written - server.Written
	t.peak = max(t.peak, after.Peak)
	return nil
}

// figures sums up what was measured.
func (t *target) figures(s step, stock *bench.Stock) bench.Figures {
	f := t.result.Summarize(s.name, t.name, stock, s.rate)
	f.CPU, f.UserCPU, f.LoadedCPU = f.Million(t.cpu), f.Million(t.user), f.Million(t.loaded)
	f.GeneratorCPU = f.Million(t.generator)
	f.Memory = t.peak
	f.WrittenBytes = float64(t.written) / float64(max(f.Events, 1))
	f.SettleSeconds = t.settled.Seconds()
	f.Fresh(t.fresh)
	return f
}

// stop ends a server of ours; again, it does nothing.
func (t *target) stop() error {
	if t.child == nil {
		return nil
	}
	c := t.child
	t.child = nil
	return c.stop()
}
