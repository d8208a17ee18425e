// Package cluster tries faults on a whole cluster: three NATS servers, three nodes and a bucket, under a load whose every
// answer is noted. All are processes of their own.
package cluster

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sluice/internal/enginetest"
	"sluice/internal/servicetest"
)

const (
	accessKey = "test"
	secretKey = "testsecret"
	bucket    = "tables"
)

// gateway is the S3 server, built once.
var gateway = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "gateway")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "versitygw")
	build := exec.Command("go", "build", "-o", path, "github.com/versity/versitygw/cmd/versitygw")
	build.Dir = "../../tools/s3"
	build.Env = append(os.Environ(), "GOFLAGS=-mod=mod")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the S3 server: %w\n%s", err, out)
	}
	return path, nil
})

func TestMain(m *testing.M) {
	code := enginetest.Main(m)
	if path, err := gateway(); err == nil {
		_ = os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

// startGateway runs the S3 server and returns its address.
func startGateway(t *testing.T) string {
	t.Helper()
	path, err := gateway()
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, bucket), 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	cmd := exec.Command(path, "--port", address, "posix", root)
	cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+accessKey, "ROOT_SECRET_KEY="+secretKey)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var words bytes.Buffer
	cmd.Stdout, cmd.Stderr = &words, &words
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	servicetest.Eventually(t, 20*time.Second, "the S3 server", func() error {
		c, err := net.Dial("tcp", address)
		if err == nil {
			_ = c.Close()
		}
		return err
	})
	return "http://" + address
}

// world is a cluster.
type world struct {
	t       *testing.T
	program servicetest.Program
	dir     string
	servers []*enginetest.Server
	flags   []string // that every node and command needs
	key     string   // of the dataset

	mu    sync.Mutex
	nodes []*servicetest.Server
}

const nodes, partitions = 3, 3

func newWorld(t *testing.T) *world {
	t.Helper()
	w := newServers(t)
	for i := range w.nodes {
		w.startNode(i)
	}
	var err error
	w.key, _, err = w.program.CreateDataset(t.Context(), filepath.Join(w.dir, "operator"), "shop", w.flags...)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// newServers is a world without nodes. build is added to go build.
func newServers(t *testing.T, build ...string) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), nodes: make([]*servicetest.Server, nodes)}
	var err error
	if w.program, err = servicetest.Build("../..", w.dir, build...); err != nil {
		t.Fatal(err)
	}
	w.program.Env = []string{"AWS_ACCESS_KEY_ID=" + accessKey, "AWS_SECRET_ACCESS_KEY=" + secretKey}
	w.servers = enginetest.StartCluster(t, 3)
	var urls []string
	for _, s := range w.servers {
		urls = append(urls, strings.Replace(s.URL(), "nats://", "nats://"+enginetest.Token+"@", 1))
	}
	w.flags = []string{
		"--nats", strings.Join(urls, ","), "--lake", "s3://" + bucket + "/lake", "--s3-endpoint", startGateway(t), "--s3-region", "us-east-1", "--s3-path-style",
	}
	t.Cleanup(func() {
		for i := range w.nodes {
			if n := w.node(i); n != nil {
				n.Stop(syscall.SIGKILL)
			}
		}
		for i := range w.nodes {
			if n := w.node(i); n != nil && t.Failed() {
				said := n.Said()
				t.Logf("node %d said:\n%s", i, said[max(0, len(said)-3000):])
			}
		}
	})
	return w
}

// startNode starts a node with an empty disk.
func (w *world) startNode(i int) {
	w.t.Helper()
	dir, err := os.MkdirTemp(w.dir, fmt.Sprint("node", i, "-"))
	if err != nil {
		w.t.Fatal(err)
	}
	args := append([]string{"--replicas", "3", "--partitions", fmt.Sprint(partitions), "--commit-every", "1s"}, w.flags...)
	n, err := servicetest.Launch{Program: w.program, Data: dir, Args: args, Within: 60 * time.Second}.Start()
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

// leader is the number of the server that leads a partition.
func (w *world) leader(partition int) int {
	w.t.Helper()
	found := -1
	servicetest.Eventually(w.t, 30*time.Second, "a leader", func() error {
		for _, s := range w.servers {
			st, err := s.JetStream().Stream(w.t.Context(), fmt.Sprint("SLUICE_", partition))
			if err != nil {
				continue
			}
			if info := st.CachedInfo().Cluster; info != nil {
				if _, err := fmt.Sscanf(info.Leader, "n%d", &found); err == nil {
					return nil
				}
			}
		}
		return fmt.Errorf("none")
	})
	return found
}

// whole waits until every stream has all its copies in step.
func (w *world) whole() {
	w.t.Helper()
	servicetest.Eventually(w.t, 90*time.Second, "all replicas in step", func() error {
		_, err := w.program.Run(w.t.Context(), append([]string{"cluster", "status", "--data", filepath.Join(w.dir, "operator")}, w.flags...)...)
		return err
	})
}
