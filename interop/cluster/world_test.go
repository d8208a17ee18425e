// Package cluster tries faults on a whole cluster: three NATS servers, three nodes and a bucket, under a load whose every
// answer is noted. All are processes of their own, and every connection between them goes over a link that a test can cut.
package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"sluice/internal/enginetest"
	"sluice/internal/servicetest"
	s3 "sluice/interop/gateway"
	"sluice/interop/witness"
)

// gateway is the S3 server, built once.
var gateway = sync.OnceValues(func() (string, error) { return s3.Build("../../tools/s3") })

func TestMain(m *testing.M) {
	code := enginetest.Main(m)
	if path, err := gateway(); err == nil {
		_ = os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

// plan is what is special about a cluster.
type plan struct {
	login    login
	unsynced bool          // the servers do not sync each write: they are a control
	dirs     []string      // for the NATS servers, or none
	versions bool          // the bucket keeps versions of what is deleted
	backlog  time.Duration // --max-backlog-age of the nodes; 0 is none
}

// world is a cluster.
type world struct {
	plan
	t       *testing.T
	program servicetest.Program
	dir     string
	servers []*enginetest.Server
	configs []string  // of the servers
	routes  [][]*link // from a server to another one
	bucket  *s3.Gateway
	spoiler *s3.Spoiler // before the bucket
	flags   []string    // that every command needs: addresses without links
	key     string      // of the dataset
	sites   []*site     // of the nodes
	witness *witness.Witness

	mu    sync.Mutex
	nodes []*servicetest.Server
}

// login is how the NATS servers know who connects.
type login struct {
	config  string   // lines of the servers; "" is a token
	user    string   // and password, or the token, in their addresses
	nodes   []string // flags of nodes
	command []string // and of commands
	file    string   // credentials of the witness
}

var byToken = login{user: enginetest.Token}

// site is what a node has around it.
type site struct {
	program servicetest.Program
	env     []string
	listen  string  // it has the same address after a restart
	servers []*link // to each NATS server
	bucket  *link
}

const nodes, servers, partitions = 3, 3, 3

const commitEvery = time.Second

func soon() time.Time { return time.Now().Add(300 * time.Millisecond) }

// newWorld starts a cluster. dirs are directories for the NATS servers, or none.
func newWorld(t *testing.T, dirs ...string) *world {
	t.Helper()
	w := newServers(t, dirs)
	w.startNodes()
	return w
}

// newServers is a world without nodes. dirs are directories for the NATS servers, or none; build is added to go build.
func newServers(t *testing.T, dirs []string, build ...string) *world {
	t.Helper()
	return prepare(t, plan{login: byToken, dirs: dirs}, build...)
}

// prepare is newServers for a cluster that is special.
func prepare(t *testing.T, p plan, build ...string) *world {
	t.Helper()
	w := &world{plan: p, t: t, dir: t.TempDir(), nodes: make([]*servicetest.Server, nodes)}
	var err error
	if w.program, err = servicetest.Build("../..", w.dir, build...); err != nil {
		t.Fatal(err)
	}
	w.program.Env = []string{"AWS_ACCESS_KEY_ID=" + s3.AccessKey, "AWS_SECRET_ACCESS_KEY=" + s3.SecretKey}
	for range servers {
		p.dirs = append(p.dirs, t.TempDir())
	}
	w.startServers(p.dirs[:servers])
	w.startBucket()
	for range nodes {
		at := &site{program: w.program, listen: freePort(t), bucket: newLink(t, strings.TrimPrefix(w.spoiler.URL, "http://"))}
		for _, s := range w.servers {
			at.servers = append(at.servers, newLink(t, strings.TrimPrefix(s.URL(), "nats://")))
		}
		w.sites = append(w.sites, at)
	}
	var direct []string
	for _, s := range w.servers {
		direct = append(direct, strings.TrimPrefix(s.URL(), "nats://"))
	}
	w.flags = slices.Concat(w.onServers(direct), w.login.command, inBucket(w.spoiler.URL))
	t.Cleanup(w.stopNodes)
	return w
}

// startNodes starts the nodes, and makes a dataset that all of them know.
func (w *world) startNodes() {
	t := w.t
	t.Helper()
	for i := range w.nodes {
		w.startNode(i)
	}
	var err error
	w.key, _, err = w.sites[0].program.CreateDataset(t.Context(), w.operator(), "shop", w.flags...)
	if err != nil {
		t.Fatal(err)
	}
	for i := range w.nodes {
		servicetest.Eventually(t, 10*time.Second, "a node that knows the key", func() error {
			a, err := w.node(i).Call("POST", w.key, "/v1/events/validate", event("first"))
			if err == nil && a.Status != http.StatusOK {
				err = fmt.Errorf("got %d", a.Status)
			}
			return err
		})
	}
}

// freePort is an address where nobody listens: others must know it before the process that will listen there.
func freePort(t *testing.T) string {
	t.Helper()
	l := enginetest.Reserve(t)
	defer l.Close()
	return l.Addr().String()
}

// operator is the data directory of commands.
func (w *world) operator() string { return filepath.Join(w.dir, "operator") }

// onServers are the flags that name NATS servers.
func (w *world) onServers(addresses []string) []string { return []string{"--nats", w.urls(addresses)} }

func (w *world) urls(addresses []string) string {
	urls := make([]string, len(addresses))
	for i, address := range addresses {
		urls[i] = "nats://" + address
		if w.login.user != "" {
			urls[i] = "nats://" + w.login.user + "@" + address
		}
	}
	return strings.Join(urls, ",")
}

// connect connects to the servers, for what only a test does to them.
func (w *world) connect(t *testing.T) jetstream.JetStream {
	t.Helper()
	var direct []string
	for _, s := range w.servers {
		direct = append(direct, strings.TrimPrefix(s.URL(), "nats://"))
	}
	if w.login.file != "" {
		return enginetest.Connect(t, w.urls(direct), w.login.file)
	}
	return enginetest.Connect(t, w.urls(direct))
}

// inBucket are the flags that name the bucket.
func inBucket(url string) []string {
	return []string{"--lake", "s3://" + s3.Bucket + "/lake", "--s3-endpoint", url, "--s3-region", s3.Region, "--s3-path-style"}
}

// startServers starts the NATS servers, with a link from each to each. They advertise nothing that goes around a link: no
// address to clients, and to each other one where nobody listens.
func (w *world) startServers(dirs []string) {
	t := w.t
	t.Helper()
	var ports []string
	for range servers {
		ports = append(ports, freePort(t))
	}
	for i := range servers {
		var routes []string
		w.routes = append(w.routes, make([]*link, servers))
		for j := range servers {
			if j != i {
				w.routes[i][j] = newLink(t, ports[j])
				routes = append(routes, "nats://"+w.routes[i][j].address())
			}
		}
		config := fmt.Sprintf(`max_payload: 8MB
server_name: n%d
server_tags: [n%d]
http: "127.0.0.1:-1"
logtime_utc: true
cluster: {name: c, listen: %q, advertise: "127.0.0.1:%d", no_advertise: true, routes: [%s]}`, i, i, ports[i], i+1, strings.Join(routes, ", "))
		config += "\n" + w.login.config
		if w.unsynced {
			config += fmt.Sprintf("\njetstream: {store_dir: %q}", filepath.Join(dirs[i], "store"))
		}
		w.servers, w.configs = append(w.servers, enginetest.StartIn(t, dirs[i], config)), append(w.configs, config)
	}
}

func (w *world) startBucket() {
	t := w.t
	t.Helper()
	path, err := gateway()
	if err != nil {
		t.Fatal(err)
	}
	start := s3.Start
	if w.versions {
		start = func(program, root string) (*s3.Gateway, error) { return s3.StartVersioned(program, root, false) }
	}
	g, err := start(path, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Stop)
	w.bucket, w.spoiler = g, s3.NewSpoiler(g, httptest.NewServer)
	w.spoiler.Late = 32 * time.Second // a node waits for 30 s
	t.Cleanup(w.spoiler.Close)
}

func (w *world) stopNodes() {
	for i := range w.nodes {
		n := w.node(i)
		if n == nil {
			continue
		}
		n.Stop(syscall.SIGKILL)
		if said := n.Said(); w.t.Failed() {
			w.t.Logf("node %d said:\n%s", i, said[max(0, len(said)-3000):])
		}
	}
}

// startNode starts a node with an empty disk.
func (w *world) startNode(i int) {
	w.t.Helper()
	at := w.sites[i]
	dir, err := os.MkdirTemp(w.dir, fmt.Sprint("node", i, "-"))
	if err != nil {
		w.t.Fatal(err)
	}
	var nats []string
	for _, k := range at.servers {
		nats = append(nats, k.address())
	}
	tables := inBucket("http://" + at.bucket.address())
	args := slices.Concat([]string{"--replicas", "3", "--partitions", fmt.Sprint(partitions), "--commit-every", commitEvery.String()}, w.onServers(nats), w.login.nodes, tables)
	if w.backlog > 0 {
		args = append(args, "--max-backlog-age", w.backlog.String())
	}
	n, err := servicetest.Launch{Program: at.program, Env: at.env, Listen: at.listen, Data: dir, Args: args, Within: 60 * time.Second}.Start()
	if err != nil {
		w.t.Fatal(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.nodes[i] = n
}

func (w *world) node(i int) *servicetest.Server {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.nodes[i%len(w.nodes)]
}

// watch holds what the nodes say about storage against what is true, until the end of the test.
func (w *world) watch(t *testing.T) {
	t.Helper()
	var stop func()
	w.witness, stop = witness.Watch(t, witness.Service{
		Nodes: func() []*servicetest.Server {
			w.mu.Lock()
			defer w.mu.Unlock()
			return slices.Clone(w.nodes)
		},
		Status: func(ctx context.Context) (string, bool) {
			out, err := w.program.Run(ctx, append([]string{"cluster", "status", "--json", "--data", w.operator()}, w.flags...)...)
			return out, err == nil
		},
		JetStream: w.connect(t),
		Table:     []string{filepath.Join(w.bucket.Dir, "lake", "events", "metadata")},
		Commit:    commitEvery,
		Backlog:   w.backlog,
	})
	t.Cleanup(stop)
}

// run runs a command of the operator, which must work.
func (w *world) run(t *testing.T, args ...string) string {
	t.Helper()
	out, err := w.program.Run(t.Context(), slices.Concat(args, []string{"--data", w.operator()}, w.flags)...)
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
	return out
}

// leader is the number of the server that leads a partition.
func (w *world) leader(partition int) int {
	w.t.Helper()
	found := -1
	servicetest.Eventually(w.t, 30*time.Second, "a leader", func() error {
		name, err := w.leaders()
		if err == nil {
			_, err = fmt.Sscanf(name[fmt.Sprint("SLUICE_", partition)], "n%d", &found)
		}
		return err
	})
	return found
}

// leaders are the leaders of the streams.
func (w *world) leaders() (map[string]string, error) {
	streams, err := w.streams()
	found := map[string]string{}
	for _, stream := range streams {
		found[stream.Name] = stream.Cluster.Leader
	}
	return found, err
}

// streamInfo is what a server says of a stream.
type streamInfo struct {
	Name    string
	Cluster struct{ Leader string }
	State   struct {
		Last uint64 `json:"last_seq"`
	}
}

// streams are the streams as the first server that runs knows them.
func (w *world) streams() (found []streamInfo, err error) {
	for _, s := range w.servers {
		if !s.Running() {
			continue
		}
		var jsz struct {
			Accounts []struct {
				Streams []streamInfo `json:"stream_detail"`
			} `json:"account_details"`
		}
		answer, err := servicetest.Client.Get(s.Monitor() + "/jsz?streams=true")
		if err != nil {
			return nil, err
		}
		defer answer.Body.Close()
		if err := json.NewDecoder(answer.Body).Decode(&jsz); err != nil {
			return nil, err
		}
		for _, a := range jsz.Accounts {
			found = append(found, a.Streams...)
		}
		return found, nil
	}
	return nil, errors.New("no server runs")
}

// status is what sluice cluster status says that these tests use.
type status struct {
	Leases []struct {
		Name   string
		NodeID string `json:"node_id"`
	}
	Nodes []struct {
		ID, API, Version string
		Started          time.Time
	}
	Problems []string
}

func (w *world) status() (st status, err error) {
	out, err := w.program.Run(w.t.Context(), append([]string{"cluster", "status", "--json", "--data", w.operator()}, w.flags...)...)
	if wrong := json.Unmarshal([]byte(out), &st); wrong != nil {
		return st, errors.Join(err, wrong)
	}
	return st, err
}

// holder is the number of the node that has a lease, and the id of its process.
func (w *world) holder(lease string) (node int, id string) {
	w.t.Helper()
	servicetest.Eventually(w.t, 30*time.Second, "a node with the lease "+lease, func() error {
		st, err := w.status()
		newest := map[string]int{} // by address: a process that was killed is listed for a while
		for i, n := range st.Nodes {
			if before, found := newest[n.API]; !found || n.Started.After(st.Nodes[before].Started) {
				newest[n.API] = i
			}
		}
		for _, l := range st.Leases {
			for i, at := range w.sites {
				if k, found := newest[at.listen]; found && l.Name == lease && st.Nodes[k].ID == l.NodeID {
					node, id = i, l.NodeID
					return nil
				}
			}
		}
		return fmt.Errorf("got %+v %v", st, err)
	})
	return node, id
}

// says asks a node for a page of the operators' listener.
func (w *world) says(node int, path string, status int, text string) bool {
	a, err := servicetest.Client.Get(w.node(node).Ops() + path)
	if err != nil {
		return false
	}
	defer a.Body.Close()
	body, err := io.ReadAll(a.Body)
	return err == nil && a.StatusCode == status && strings.Contains(string(body), text)
}

// whole waits until every stream has all its copies in step.
func (w *world) whole() {
	w.t.Helper()
	servicetest.Eventually(w.t, 90*time.Second, "all replicas in step", func() error {
		st, err := w.status()
		if err != nil {
			err = fmt.Errorf("%q, leases %v, nodes %v: %w", st.Problems, st.Leases, st.Nodes, err)
		}
		return err
	})
}
