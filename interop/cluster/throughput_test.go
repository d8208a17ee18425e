//go:build throughput

package cluster

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sluice/internal/enginetest"
	"sluice/internal/servicetest"
	load "sluice/tools/bench/measure"
)

// kinds are the loads, as flags of tools/bench.
var kinds = []struct {
	name string
	args []string
	goal float64 // of a cluster beside the embedded engine
}{
	{"single events", []string{"--batch", "1", "--senders", "64"}, 0.5},
	{"single events with keys", []string{"--batch", "1", "--senders", "64", "--keyed"}, 0.8},
	{"batches of 500", []string{"--batch", "500", "--senders", "16"}, 0.75},
}

// subject is one or more nodes that accept events.
type subject struct {
	name  string
	run   servicetest.Program
	id    string // of its dataset
	key   string
	data  string   // data directory of the last node
	args  []string // of every command
	nodes []*servicetest.Server
	pids  []int // of the nodes
	nats  []int // of the NATS servers
	got   map[string][]figures
}

type figures struct {
	events float64
	rate   float64 // events a second
	cpu    float64 // seconds for a million events, of nodes and NATS servers
	nats   float64 // of NATS servers alone
	p99    float64 // milliseconds
}

// The rate of a cluster of three NATS servers on this machine, beside the embedded engine, by turns: 1, 3 and 6 partitions, 1 and 3
// nodes. Nodes do not load: this is about accepting. THROUGHPUT is how long each load lasts.
func TestThroughput(t *testing.T) {
	length := 3 * time.Second
	if text := os.Getenv("THROUGHPUT"); text != "" {
		var err error
		if length, err = time.ParseDuration(text); err != nil {
			t.Fatalf("THROUGHPUT: %v", err)
		}
	}
	const rounds = 3
	for _, partitions := range []int{1, 3, 6} {
		b := newBench(t)
		subjects := []*subject{b.embedded(), b.external(partitions, 1), b.external(partitions, 3)}
		for range rounds {
			for _, kind := range kinds {
				for _, s := range subjects {
					b.measure(s, kind.name, kind.args, length)
				}
			}
		}
		for _, kind := range kinds {
			alone := subjects[0].middle(kind.name)
			for _, s := range subjects[1:] {
				f := s.middle(kind.name)
				t.Logf("%d partitions, %s, %s: %.0f events/s, %.2f of embedded (goal %.2f); %.1f s of processor time a million, of it %.1f in NATS, %.1f times; p99 %.1f ms, embedded %.1f",
					partitions, s.name, kind.name, f.rate, f.rate/alone.rate, kind.goal, f.cpu, f.nats, f.cpu/alone.cpu, f.p99, alone.p99)
			}
		}
		for _, s := range subjects {
			t.Logf("%d partitions, %s: memory of the largest node %d MiB, of the largest NATS server %d MiB", partitions, s.name, b.memory(s.pids), b.memory(s.nats))
			for _, n := range s.nodes {
				n.Stop(syscall.SIGKILL)
			}
		}
		for _, s := range b.servers {
			s.Kill()
		}
	}
}

func (s *subject) middle(kind string) figures {
	all := s.got[kind]
	sort.Slice(all, func(i, j int) bool { return all[i].rate < all[j].rate })
	return all[len(all)/2]
}

// bench is three NATS servers, and the program.
type bench struct {
	t       *testing.T
	dir     string
	program servicetest.Program
	servers []*enginetest.Server
	made    int
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{t: t, dir: t.TempDir(), servers: enginetest.StartCluster(t, 3)}
	var err error
	if b.program, err = servicetest.Build("../..", b.dir); err != nil {
		t.Fatal(err)
	}
	return b
}

// embedded is one node with the embedded engine.
func (b *bench) embedded() *subject {
	s := &subject{name: "embedded", run: b.program, got: map[string][]figures{}}
	b.add(s)
	b.dataset(s)
	return s
}

// external is some nodes on the NATS servers.
func (b *bench) external(partitions, nodes int) *subject {
	s := &subject{name: fmt.Sprint(nodes, " nodes"), run: b.program, got: map[string][]figures{}}
	var urls []string
	for _, server := range b.servers {
		urls = append(urls, strings.Replace(server.URL(), "nats://", "nats://"+enginetest.Token+"@", 1))
		s.nats = append(s.nats, server.PID())
	}
	s.args = []string{"--nats", strings.Join(urls, ",")}
	for range nodes {
		b.add(s, "--replicas", "3", "--partitions", fmt.Sprint(partitions))
	}
	b.dataset(s)
	return s
}

// add starts a node.
func (b *bench) add(s *subject, args ...string) {
	b.t.Helper()
	b.made++
	s.data = filepath.Join(b.dir, fmt.Sprint("data", b.made))
	args = append(append(args, s.args...), "--loading=false")
	n, err := servicetest.Launch{Program: s.run, Data: s.data, Args: args, Within: time.Minute}.Start()
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { n.Stop(syscall.SIGKILL) })
	s.nodes, s.pids = append(s.nodes, n), append(s.pids, n.PID())
}

// dataset makes the dataset, and waits until every node knows it.
func (b *bench) dataset(s *subject) {
	b.t.Helper()
	var err error
	s.id = fmt.Sprint("bench-", b.made)
	if s.key, _, err = s.run.CreateDataset(b.t.Context(), s.data, s.id, s.args...); err != nil {
		b.t.Fatal(err)
	}
	for _, n := range s.nodes {
		servicetest.Eventually(b.t, 10*time.Second, "a node that knows the key", func() error {
			a, err := n.Call("GET", s.key, "/v1/schema/events", "")
			if err == nil && a.Status != http.StatusOK {
				err = fmt.Errorf("got %d", a.Status)
			}
			return err
		})
	}
}

// measure sends a load to all nodes of a subject at once.
func (b *bench) measure(s *subject, kind string, args []string, length time.Duration) {
	b.t.Helper()
	nodes, nats := b.used(s.pids), b.used(s.nats)
	var wg sync.WaitGroup
	all := make([]figures, len(s.nodes))
	for i, n := range s.nodes {
		wg.Go(func() {
			var err error
			if all[i], err = b.send(n, s, args, length); err != nil {
				b.t.Errorf("%s, %s: %v", s.name, kind, err)
			}
		})
	}
	wg.Wait()
	sum := figures{}
	events := 0.0
	for _, f := range all {
		sum.rate += f.rate
		sum.p99 = max(sum.p99, f.p99)
		events += f.events
	}
	sum.nats = (b.used(s.nats) - nats) / events * 1e6
	sum.cpu = (b.used(s.pids)-nodes)/events*1e6 + sum.nats
	s.got[kind] = append(s.got[kind], sum)
}

// usage is what processes have used so far.
func (b *bench) usage(pids []int) (all []load.Usage) {
	b.t.Helper()
	for _, pid := range pids {
		u, err := load.ReadUsage(pid)
		if err != nil {
			b.t.Fatal(err)
		}
		all = append(all, u)
	}
	return all
}

// used is the processor time of processes so far, in seconds.
func (b *bench) used(pids []int) (seconds float64) {
	b.t.Helper()
	for _, u := range b.usage(pids) {
		seconds += u.CPU().Seconds()
	}
	return seconds
}

// memory is the most that one of the processes had so far, in MiB.
func (b *bench) memory(pids []int) (most int64) {
	b.t.Helper()
	for _, u := range b.usage(pids) {
		most = max(most, u.Peak>>20)
	}
	return most
}

// send sends a load to one node with tools/bench.
func (b *bench) send(n *servicetest.Server, s *subject, args []string, length time.Duration) (f figures, err error) {
	file, err := os.CreateTemp(b.dir, "figures")
	if err != nil {
		return f, err
	}
	defer file.Close()
	all := append([]string{"run", "./tools/bench", "--url", n.URL(), "--key", s.id + "=" + s.key, "--loading=false", "--for", length.String(), "--json", file.Name()}, args...)
	cmd := exec.CommandContext(b.t.Context(), "go", all...)
	cmd.Dir = "../.."
	if out, err := cmd.CombinedOutput(); err != nil {
		return f, fmt.Errorf("bench: %w\n%s", err, out)
	}
	var report load.Report
	if err := json.NewDecoder(file).Decode(&report); err != nil {
		return f, err
	}
	got := report.Figures[0]
	// Eight processes share the processors, so a node may reject a request rather than let it wait in vain.
	if got.Failed > 0 {
		b.t.Logf("%d of %d requests failed, the first: %s", got.Failed, got.Failed+got.Requests, got.FirstFailure)
	}
	if got.Failed*100 > got.Requests {
		err = fmt.Errorf("%d of %d requests failed, want one in a hundred at most: %s", got.Failed, got.Failed+got.Requests, got.FirstFailure)
	}
	return figures{rate: got.EventsPerSecond, p99: got.Latency.P99, events: float64(got.Events)}, err
}
