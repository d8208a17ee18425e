// Package enginetest runs a real NATS server in a process of its own beside a test.
package enginetest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Token opens every server of this package.
const Token = "for-tests-only"

var program struct {
	once sync.Once
	dir  string
	err  error
}

// Main runs a package's tests and removes what Start has built. Call it from TestMain.
func Main(m *testing.M) int {
	code := m.Run()
	if program.dir != "" {
		os.RemoveAll(program.dir)
	}
	return code
}

// Build compiles the server from the module that go.mod pins, once per test binary, and returns its path.
func Build(t testing.TB) string {
	t.Helper()
	program.once.Do(func() {
		program.dir, program.err = os.MkdirTemp("", "sluice-nats")
		if program.err != nil {
			return
		}
		root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "sluice").Output() // whichever module the test is in
		if err != nil {
			program.err = fmt.Errorf("find the module of nats-server: %w", err)
			return
		}
		cmd := exec.Command("go", "build", "-trimpath", "-o", program.dir, "github.com/nats-io/nats-server/v2")
		cmd.Dir = strings.TrimSpace(string(root))
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // as it is released
		out, err := cmd.CombinedOutput()
		if err != nil {
			program.err = fmt.Errorf("build nats-server: %w\n%s", err, out)
		}
	})
	if program.err != nil {
		t.Fatal(program.err)
	}
	return filepath.Join(program.dir, "nats-server")
}

// Attach connects to the engine that a process runs in a data directory and lets others reach, for what only a test
// does to it. The connection ends with the test.
func Attach(t testing.TB, dir string) jetstream.JetStream {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "engine.json"))
	var at struct{ URL, Token string }
	if err == nil {
		err = json.Unmarshal(data, &at)
	}
	if err != nil {
		t.Fatal(err)
	}
	return connect(t, at.URL, nats.Token(at.Token))
}

// JetStream connects to the server, for what only a test does to it. The connection ends with the test.
func (s *Server) JetStream() jetstream.JetStream { return Connect(s.t, s.URL()) }

// Connect is JetStream for several servers, with a comma between their addresses: it goes on with another one when one
// is down. credentials are a file of them, where the servers do not take the token.
func Connect(t testing.TB, urls string, credentials ...string) jetstream.JetStream {
	t.Helper()
	if len(credentials) > 0 {
		return connect(t, urls, nats.UserCredentials(credentials[0]))
	}
	return connect(t, urls, nats.Token(Token))
}

func connect(t testing.TB, url string, who nats.Option) jetstream.JetStream {
	t.Helper()
	nc, err := nats.Connect(url, who, nats.MaxReconnects(-1), nats.IgnoreAuthErrorAbort())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// Server is a running server. It ends with the test.
type Server struct {
	t    testing.TB
	dir  string
	more string
	port int
	cmd  *exec.Cmd
}

// Start runs a server that syncs every write and allows large messages. Lines of configuration in more are added, and
// may say otherwise. With accounts in them there is no token.
func Start(t testing.TB, more string) *Server {
	t.Helper()
	return StartIn(t, t.TempDir(), more)
}

// StartIn is Start with a directory of the caller for the files of the server.
func StartIn(t testing.TB, dir, more string) *Server {
	t.Helper()
	s := &Server{t: t, dir: dir, more: more, port: -1}
	t.Cleanup(s.Kill)
	s.Restart()
	return s
}

// Cluster is servers that replicate among each other.
type Cluster []*Server

// URL is where clients connect to, with a comma between the addresses.
func (c Cluster) URL() string {
	var urls []string
	for _, s := range c {
		urls = append(urls, s.URL())
	}
	return strings.Join(urls, ",")
}

// StartCluster runs n servers that replicate among each other; they are called and tagged n0, n1 and so on. They need
// seconds to agree on a leader.
func StartCluster(t testing.TB, n int) Cluster {
	t.Helper()
	var routes []string
	var listeners []net.Listener
	for range n {
		l := Reserve(t)
		listeners = append(listeners, l)
		routes = append(routes, "nats://"+l.Addr().String())
	}
	var servers Cluster
	for i, l := range listeners {
		l.Close() // free for the server, which cannot take any free port: the others must know it before
		servers = append(servers,
			Start(t,
				fmt.Sprintf("max_payload: 8MB\nserver_name: n%d\nserver_tags: [n%d]\ncluster: {name: c, listen: %q, routes: [%s]}",
					i, i, l.Addr().String(), strings.Join(routes, ", "))))
	}
	return servers
}

// Reserve returns a listener whose port nobody takes after it was closed, until the test ends: it is below those that the
// system gives to connections, and other tests that reserve one, also in other processes, see that it is taken by the
// UDP port of the same number.
func Reserve(t testing.TB) net.Listener {
	t.Helper()
	for range 100 {
		address := fmt.Sprint("127.0.0.1:", 15_000+rand.IntN(17_000))
		claim, err := net.ListenPacket("udp", address)
		if err != nil {
			continue
		}
		if l, err := net.Listen("tcp", address); err == nil {
			t.Cleanup(func() { claim.Close() })
			return l
		}
		claim.Close()
	}
	t.Fatal("no port is free")
	return nil
}

// URL returns the server's address.
func (s *Server) URL() string { return "nats://127.0.0.1:" + strconv.Itoa(s.port) }

// Monitor returns the address of the monitoring port of a server that was started with one: "http: 127.0.0.1:-1".
func (s *Server) Monitor() string {
	s.t.Helper()
	var ports struct{ Monitoring []string }
	data, err := os.ReadFile(filepath.Join(s.dir, fmt.Sprintf("nats-server_%d.ports", s.cmd.Process.Pid)))
	if err == nil {
		err = json.Unmarshal(data, &ports)
	}
	if err != nil || len(ports.Monitoring) == 0 {
		s.t.Fatalf("nats-server has no monitoring port: %v", err)
	}
	return ports.Monitoring[0]
}

// PID is the process id of the server.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Running says whether the server was started and not killed.
func (s *Server) Running() bool { return s.cmd != nil }

// Log returns what the server has logged.
func (s *Server) Log() string {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join(s.dir, "log"))
	if err != nil {
		s.t.Fatal(err)
	}
	return string(text)
}

// Kill ends the server without warning.
func (s *Server) Kill() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill() // fails only when it has ended by itself
	_ = s.cmd.Wait()         // always an error: it was killed
	s.cmd = nil
}

// Stop ends the server as its operator does, by a signal, and waits for its end.
func (s *Server) Stop(sig syscall.Signal) {
	s.t.Helper()
	s.signal(sig)
	ended := make(chan struct{})
	go func() { _ = s.cmd.Wait(); close(ended) }() // how it ended does not matter
	select {
	case <-ended:
		s.cmd = nil
	case <-time.After(time.Minute):
		s.t.Fatalf("the NATS server did not end within a minute of signal %v", sig)
	}
}

// Pause stops the server in its tracks: connections stay, nothing answers. It returns when every thread has stopped.
func (s *Server) Pause() {
	s.t.Helper()
	s.signal(syscall.SIGSTOP)
	s.await("stop", func() bool {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", s.cmd.Process.Pid))
		if err != nil || len(threads) == 0 {
			return false
		}
		for _, path := range threads {
			stat, err := os.ReadFile(path)
			_, after, found := strings.Cut(string(stat), ") ")
			if err != nil || !found || after[0] != 'T' {
				return false
			}
		}
		return true
	})
}

// Resume lets a paused server go on.
func (s *Server) Resume() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig syscall.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}

// Replace runs the server again with an empty disk, as a new machine would.
func (s *Server) Replace() {
	s.t.Helper()
	s.Kill()
	if err := os.RemoveAll(filepath.Join(s.dir, "store")); err != nil {
		s.t.Fatal(err)
	}
	s.Restart()
}

// Restart runs the server again on the same files and the same port.
func (s *Server) Restart() {
	s.t.Helper()
	s.Kill()
	config := s.configure()
	cmd := exec.Command(Build(s.t), "-c", config, "-l", filepath.Join(s.dir, "log"))
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.cmd = cmd
	s.port = s.awaitPort(cmd.Process.Pid)
}

// Reload lets the running server read other lines of configuration, as its operator does. One that runs on a random
// port was restarted before.
func (s *Server) Reload(more string) {
	s.t.Helper()
	s.more = more
	s.configure()
	reloads := func() int { return strings.Count(s.Log(), "Reloaded server configuration") }
	before := reloads()
	s.signal(syscall.SIGHUP)
	s.await("reload", func() bool { return reloads() > before })
}

// configure writes the configuration, and says where it lies.
func (s *Server) configure() string {
	s.t.Helper()
	config := filepath.Join(s.dir, "nats.conf")
	text := fmt.Sprintf("listen: \"127.0.0.1:%d\"\nports_file_dir: %q\n", s.port, s.dir)
	if !strings.Contains(s.more, "accounts:") { // which have users of their own
		text += fmt.Sprintf("authorization: {token: %q}\n", Token)
	}
	if s.more == "" {
		s.more = "max_payload: 8MB\n"
	}
	text += s.more + "\n"
	if !strings.Contains("\n"+s.more, "\njetstream:") { // that of an account is in a line with it
		text += fmt.Sprintf("jetstream: {store_dir: %q, sync_interval: always}\n", filepath.Join(s.dir, "store"))
	}
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return config
}

// awaitPort waits for the file in which the server says where it listens.
func (s *Server) awaitPort(pid int) (port int) {
	s.t.Helper()
	path := filepath.Join(s.dir, fmt.Sprintf("nats-server_%d.ports", pid))
	s.await("listen", func() bool {
		var ports struct{ Nats []string }
		data, err := os.ReadFile(path)
		if err != nil || json.Unmarshal(data, &ports) != nil || len(ports.Nats) == 0 {
			return false
		}
		_, address, _ := strings.Cut(ports.Nats[0], "://") // nats, or tls where the server has a certificate
		_, err = fmt.Sscanf(address, "127.0.0.1:%d", &port)
		return err == nil
	})
	return port
}

// await waits for the server to do something.
func (s *Server) await(what string, ok func() bool) {
	s.t.Helper()
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			log, _ := os.ReadFile(filepath.Join(s.dir, "log"))
			s.t.Fatalf("nats-server does not %s:\n%s", what, log)
		}
	}
}
