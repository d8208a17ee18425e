package measure

import (
	"cmp"
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
	"sluice/internal/traffictest"
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
	loading  bool // it carries events into the table
	bodies   *Bodies
	keyed    bool // requests have idempotency keys
	want     int  // see Load

	result              Result
	cpu, user           time.Duration // while events were sent
	loaded              time.Duration // and until they were in the table
	quiet               time.Duration // and until the server had nothing left to do
	drained             float64       // how many events of a backlog were loaded in a second
	generator           time.Duration
	written             int64
	peak                int64
	settled             time.Duration // from the last answer until everything was in the table
	fresh               []time.Duration
	commits, commitTime float64 // by the loader of the server, in seconds
}

// openSubject starts the server to be measured and makes its datasets, or takes the one that runs.
func (h *Harness) openSubject(ctx context.Context, s Step, dir string) (*target, error) {
	if h.Address != "" {
		u, err := url.Parse(h.Address)
		return &target{now: h.Now, name: u.Host, url: u, pid: h.Process, datasets: h.Given, loading: s.Loading}, err
	}
	data := h.Data
	if data == "" {
		data = filepath.Join(dir, "data")
	}
	return h.openServer(ctx, s, subjectName, data)
}

// subjectName is the name of the server to be measured in a report.
const subjectName = "sluice"

// openServer starts a server of ours.
func (h *Harness) openServer(ctx context.Context, s Step, name, data string) (*target, error) {
	args := []string{"serve", "--data", data, "--listen", "127.0.0.1:0", "--ops", "127.0.0.1:0"}
	if !s.Loading {
		args = append(args, "--loading=false")
	}
	args = append(args, h.Serve...)
	t, err := h.startTarget(ctx, name, s, args)
	if err != nil {
		return nil, err
	}
	t.data, t.loading = data, s.Loading
	if t.datasets, err = h.makeDatasets(ctx, t, cmp.Or(s.Datasets, h.Datasets)); err != nil {
		return nil, errors.Join(err, t.stop())
	}
	return t, nil
}

// openRival makes whom the step compares the server with.
func (h *Harness) openRival(ctx context.Context, s Step, dir string, subject *target) (*target, error) {
	same := &target{
		now: h.Now, name: string(s.Rival), url: subject.url, pid: subject.pid, datasets: subject.datasets, bodies: subject.bodies,
		loading: subject.loading,
	}
	bodies := func(mix traffictest.Mix, datasets []Dataset) (err error) {
		same.bodies, err = NewBodies(mix, s.Batch, s.Senders, datasets, h.Seed, h.Now().Unix())
		return err
	}
	switch s.Rival {
	case Least: // it has no keys, and takes those of the server for what they are to it: bytes
		t, err := h.startChild(ctx, h.Self, string(Least), "reference", filepath.Join(dir, "reference"))
		if err == nil {
			t.datasets, t.bodies = subject.datasets, subject.bodies
		}
		return t, err
	case Keyed:
		same.keyed = true
		return same, nil
	case Invalid:
		same.want = http.StatusBadRequest
		mix := h.Mix
		mix.Invalid = 1
		return same, bodies(mix, subject.datasets)
	case Forbidden:
		same.want = http.StatusForbidden
		unknown := Dataset{ID: subject.datasets[0].ID, Key: func() string { return unknownKey }}
		return same, bodies(h.Mix, []Dataset{unknown})
	case Resting:
		s.Loading = false
		t, err := h.openServer(ctx, s, string(Resting), filepath.Join(dir, "resting"))
		if err == nil {
			t.bodies, err = NewBodies(h.Mix, s.Batch, s.Senders, t.datasets, h.Seed, h.Now().Unix())
		}
		return t, err
	}
	return nil, fmt.Errorf("%q is no rival", s.Rival)
}

// startTarget starts a server of ours, with a profile if one is wanted.
func (h *Harness) startTarget(ctx context.Context, name string, s Step, args []string) (*target, error) {
	if h.Profiles != "" {
		args = append(args, "--profile", filepath.Join(h.Profiles, strings.ReplaceAll(s.Name, " ", "-")+"-"+name))
	}
	return h.startChild(ctx, h.Program, name, append(args, "--log-format", "json")...)
}

func (h *Harness) startChild(ctx context.Context, program, name string, args ...string) (*target, error) {
	c, err := startChild(ctx, program, h.Words, args...)
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
func (h *Harness) makeDatasets(ctx context.Context, t *target, n int) ([]Dataset, error) {
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
	for i := range n {
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
	probe := t.probe(out[n-1])
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

// unknownKey has the form of a key, and is none.
const unknownKey = "sluice_unknown_0000000000000000000000000000000000000000000"

// settleAtMost is how long a server may take to load what it was sent.
const settleAtMost = 15 * time.Minute

// begin ends what came before the measured load: its events are loaded, and it is in no profile.
func (t *target) begin(ctx context.Context, profiled bool) error {
	if t.loading {
		if _, err := t.loadAll(ctx); err != nil {
			return err
		}
	}
	if profiled && t.child != nil && t.name != string(Least) {
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
func (t *target) send(ctx context.Context, load Load) (err error) {
	if t.loading && t.child != nil {
		from, err := scrape(ctx, t.child.ops)
		if err != nil {
			return err
		}
		defer func() {
			to, failed := scrape(ctx, t.child.ops)
			t.between(from, to)
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
	if t.loading {
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
	if t.loading {
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
		if err := t.rest(ctx); err != nil {
			return err
		}
		if after, _, err = t.usage(); err != nil {
			return err
		}
		t.quiet += after.CPU() - server.CPU()
	}
	t.written += after.Written - server.Written
	t.peak = max(t.peak, after.Peak)
	return nil
}

// A server is at rest when it has used next to no processor time for a while: compaction has ended, too.
const (
	restingFor    = 3 * time.Second
	restingShare  = 0.05 // of one processor
	restingAtMost = 2 * time.Minute
)

// rest waits until the server is at rest.
func (t *target) rest(ctx context.Context) error {
	if t.pid == 0 {
		return nil
	}
	for begun := t.now(); t.now().Sub(begun) < restingAtMost; {
		before, _, err := t.usage()
		if err != nil {
			return err
		}
		if !sleep(ctx, restingFor) {
			return ctx.Err()
		}
		after, _, err := t.usage()
		if err != nil {
			return err
		}
		if (after.CPU() - before.CPU()).Seconds() < restingShare*restingFor.Seconds() {
			return nil
		}
	}
	return nil
}

// lastBatch is what is left of a backlog when it is none: the last events are too few for a commit of their own, and wait for
// their time as others do.
const lastBatch = 64_000

// drain starts a server that loads what another has accepted, and measures how fast that goes.
func (h *Harness) drain(ctx context.Context, s Step, t *target) error {
	if t.child == nil {
		return errors.New("a backlog is measured on a server of its own")
	}
	if err := t.stop(); err != nil {
		return err
	}
	begun := h.Now()
	args := append([]string{"serve", "--data", t.data, "--listen", "127.0.0.1:0", "--ops", "127.0.0.1:0"}, h.Serve...)
	s.Name += " drained"
	loader, err := h.startTarget(ctx, subjectName, s, args)
	if err != nil {
		return err
	}
	t.child, t.pid, t.url, t.loading = loader.child, loader.pid, loader.url, true
	for {
		now, err := scrape(ctx, t.child.ops)
		if err != nil {
			return err
		}
		rows := now[`sluice_lake_rows{table="events"}`]
		t.drained = rows / h.Now().Sub(begun).Seconds()
		if rows >= float64(t.result.Events-lastBatch) {
			break
		}
		if !sleep(ctx, 100*time.Millisecond) {
			return ctx.Err()
		}
	}
	if _, err := t.loadAll(ctx); err != nil {
		return err
	}
	after, _, err := t.usage()
	if err != nil {
		return err
	}
	t.loaded = t.cpu + after.CPU()
	t.peak = max(t.peak, after.Peak)
	return nil
}

// alone stops the processes of all other targets. The function that it returns lets them go on.
func (t *target) alone(all []*target) (resume func() error, err error) {
	var waiting []*child
	resume = func() (err error) {
		for _, c := range waiting {
			err = errors.Join(err, c.cmd.Process.Signal(syscall.SIGCONT))
		}
		return err
	}
	for _, o := range all {
		if t.child == nil || o.child == nil || o.child == t.child {
			continue
		}
		if err := o.child.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			return nil, errors.Join(err, resume())
		}
		waiting = append(waiting, o.child)
	}
	return resume, nil
}

// between adds what the metrics of the server say about the time between two readings.
func (t *target) between(from, to map[string]float64) {
	const commits, seconds = "sluice_load_commits_total", "sluice_load_commit_seconds_total"
	t.commits += to[commits] - from[commits]
	t.commitTime += to[seconds] - from[seconds]
}

// figures sums up what was measured.
func (t *target) figures(s Step) Figures {
	f := t.result.Summarize(s.Name, t.name, t.bodies, s.Rate)
	f.CPU, f.UserCPU, f.LoadedCPU, f.StoredCPU = f.Million(t.cpu), f.Million(t.user), f.Million(t.loaded), f.Million(t.quiet)
	f.DrainedPerSecond = t.drained
	f.GeneratorCPU = f.Million(t.generator)
	f.Memory = t.peak
	f.WrittenBytes = float64(t.written) / float64(max(f.Events, 1))
	f.SettleSeconds = t.settled.Seconds()
	f.Fresh(t.fresh)
	if t.commits > 0 {
		f.CommitSeconds = t.commitTime / t.commits
	}
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
