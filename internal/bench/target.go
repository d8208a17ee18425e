package bench

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

	"sluice/internal/dataset"
	"sluice/internal/engine"
	"sluice/internal/objectstore"
)

// target is a server under load and what was measured of it.
type target struct {
	now      func() time.Time
	name     string
	url      *url.URL
	data     string // its data directory, when it is ours
	child    *child // nil: somebody else runs it
	pid      int    // 0: cannot be looked into
	datasets []Dataset
	tables   objectstore.Store // in a bucket; nil: in the data directory

	result    Result
	cpu, user time.Duration // while events were sent
	loaded    time.Duration // and until they were in the table
	generator time.Duration
	written   int64
	peak      int64
	settled   time.Duration // from the last answer until everything was in the table
	fresh     []time.Duration
	sent      *BucketFigures // to the bucket
}

// openSubject starts the server to be measured and makes its datasets, or takes the one that runs.
func (h *Harness) openSubject(ctx context.Context, s Step, dir string) (*target, error) {
	if h.Address != "" {
		u, err := url.Parse(h.Address)
		return &target{now: h.Now, name: u.Host, url: u, pid: h.Process, datasets: h.Given}, err
	}
	data := h.Data
	if data == "" {
		data = filepath.Join(dir, "data")
	}
	args := []string{"serve", "--data", data, "--listen", "127.0.0.1:0", "--ops", "127.0.0.1:0"}
	if !s.Loading {
		args = append(args, "--loading=false")
	}
	args = append(args, h.Serve...)
	var tables objectstore.Store
	if h.Bucket != nil && s.Loading {
		place := fmt.Sprintf("%s/bench-%d", h.Bucket.URL, h.Now().UnixNano())
		args = append(append(args, "--lake", place), h.Bucket.Args...)
		var err error
		if tables, err = h.Bucket.Open(ctx, place); err != nil {
			return nil, err
		}
	}
	t, err := h.startTarget(ctx, "sluice", s, args)
	if err != nil {
		return nil, err
	}
	t.data, t.tables = data, tables
	if tables != nil {
		t.sent = &BucketFigures{}
	}
	if t.datasets, err = h.makeDatasets(ctx, t); err != nil {
		return nil, errors.Join(err, t.stop())
	}
	return t, nil
}

// openReference starts the reference. It has no keys and takes those of the subject for what they are to it: bytes.
func (h *Harness) openReference(ctx context.Context, s Step, dir string, datasets []Dataset) (*target, error) {
	t, err := h.startTarget(ctx, "reference", s, []string{"bench", "reference", filepath.Join(dir, "reference")})
	if err != nil {
		return nil, err
	}
	t.datasets = datasets
	return t, nil
}

func (h *Harness) startTarget(ctx context.Context, name string, s Step, args []string) (*target, error) {
	if h.Profiles != "" {
		args = append(args, "--profile", filepath.Join(h.Profiles, strings.ReplaceAll(s.Name, " ", "-")+"-"+name))
	}
	c, err := startChild(ctx, h.Program, h.Words, args...)
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(c.url)
	if err != nil {
		return nil, errors.Join(err, c.stop())
	}
	return &target{now: h.Now, name: name, url: u, child: c, pid: c.pid()}, nil
}

// makeDatasets makes datasets with ids of one length and waits until the server knows the last of them.
func (h *Harness) makeDatasets(ctx context.Context, t *target) ([]Dataset, error) {
	e, err := engine.Open(ctx, engine.Options{Dir: t.data})
	if err != nil {
		return nil, err
	}
	defer e.Close()
	registry, err := dataset.Open(ctx, e, dataset.Options{Now: h.Now})
	if err != nil {
		return nil, err
	}
	var out []Dataset
	for i := range h.Datasets {
		id := fmt.Sprintf("bench-%06d", i)
		_, _, key, err := registry.Create(ctx, dataset.Spec{ID: id, Name: "Benchmark"})
		if errors.Is(err, dataset.ErrExists) { // the directory is from an earlier run
			_, key, err = registry.RotateKey(ctx, id, 0)
		}
		if err != nil {
			return nil, err
		}
		out = append(out, Dataset{ID: id, Key: key.Reveal})
	}
	probe := t.probe(out[h.Datasets-1])
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return out, probe.Known(ctx)
}

func (t *target) probe(d Dataset) *Probe {
	return &Probe{URL: t.url.Scheme + "://" + t.url.Host, Dataset: d, Client: &http.Client{Timeout: 30 * time.Second}, Now: t.now}
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
func (t *target) usage() (server, own Usage, err error) {
	if own, err = ReadUsage(os.Getpid()); err != nil || t.pid == 0 {
		return Usage{}, own, err
	}
	server, err = ReadUsage(t.pid)
	return server, own, err
}

// settleAtMost is how long a server may take to load what it was sent.
const settleAtMost = 15 * time.Minute

// begin ends what came before the measured load: its events are loaded, and it is in no profile.
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
func (t *target) send(ctx context.Context, load Load, loading bool) (err error) {
	loading = loading && t.name != "reference"
	if t.sent != nil {
		begun := t.now()
		from, err := readRequests(ctx, t.child.ops)
		if err != nil {
			return err
		}
		defer func() {
			to, failed := readRequests(ctx, t.child.ops)
			t.sent.add(from, to, t.now().Sub(begun))
			err = errors.Join(err, failed)
		}()
	}
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
func (t *target) figures(s Step, bodies *Bodies) Figures {
	f := t.result.Summarize(s.Name, t.name, bodies, s.Rate)
	f.CPU, f.UserCPU, f.LoadedCPU = f.Million(t.cpu), f.Million(t.user), f.Million(t.loaded)
	f.GeneratorCPU = f.Million(t.generator)
	f.Memory = t.peak
	f.WrittenBytes = float64(t.written) / float64(max(f.Events, 1))
	f.SettleSeconds = t.settled.Seconds()
	f.Fresh(t.fresh)
	f.Bucket = t.sent
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
