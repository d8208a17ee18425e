package deploy

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sluice/internal/enginetest"
	"sluice/internal/servicetest"
	"sluice/interop/gateway"
)

const root = "../.."

var (
	programs   string // the directory of the programs that were built
	sluiceOnce = sync.OnceValues(func() (string, error) {
		p, err := servicetest.Build(root, programs)
		return p.Path, err
	})
	bucketOnce = sync.OnceValues(func() (string, error) {
		path, err := gateway.Build(root + "/tools/s3")
		if err != nil {
			return "", err
		}
		defer os.RemoveAll(filepath.Dir(path))
		return filepath.Join(programs, "versitygw"), os.Rename(path, filepath.Join(programs, "versitygw"))
	})
)

func TestMain(m *testing.M) {
	var err error
	if programs, err = os.MkdirTemp("", "sluice-deploy"); err != nil {
		panic(err)
	}
	code := enginetest.Main(m)
	os.RemoveAll(programs)
	os.Exit(code)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// site is containers that find each other by name. Every name leads to loopback, and every port to a free one.
type site struct {
	t          testing.TB
	dir        string
	names      []string // of all containers
	ports      map[string]string
	containers map[string]*container
}

func newSite(t testing.TB, names ...string) *site {
	return &site{t: t, dir: t.TempDir(), names: names, ports: map[string]string{}, containers: map[string]*container{}}
}

// port is where a port of a container is on loopback.
func (s *site) port(name, port string) string {
	at := name + ":" + port
	if s.ports[at] == "" {
		l := enginetest.Reserve(s.t)
		_, s.ports[at], _ = strings.Cut(l.Addr().String(), ":")
		must(s.t, l.Close()) // free for the program
	}
	return s.ports[at]
}

var address = regexp.MustCompile(`([A-Za-z0-9.-]*):(4222|6222|7070|8080|8081|8222|9090)\b`)

// local puts the ports of this site into a text that the container name reads: everything else stays as it is.
func (s *site) local(name, text string) string {
	return address.ReplaceAllStringFunc(text, func(found string) string {
		part := address.FindStringSubmatch(found)
		switch host := part[1]; {
		case host == "" || host == "0.0.0.0" || host == "127.0.0.1":
			return "127.0.0.1:" + s.port(name, part[2])
		case slices.Contains(s.names, host):
			return host + ":" + s.port(host, part[2])
		}
		return found
	})
}

// container is a directory that is the root of its processes.
type container struct {
	site *site
	name string
	root string
	user int
	work string // the working directory
	env  []string
	args []string // the program first
	host bool     // its root is that of the machine; paths in its arguments are below its own

	process *exec.Cmd
	log     *os.File
}

// container makes one with a program. user is who runs it.
func (s *site) container(name string, user int, program string, args ...string) *container {
	s.t.Helper()
	c := s.process(name, name, user, args...)
	var hosts strings.Builder
	for _, n := range s.names {
		fmt.Fprintf(&hosts, "127.0.0.1 %s\n", n)
	}
	c.file("/etc/hosts", hosts.String(), 0o644, 0)
	c.file("/etc/nsswitch.conf", "hosts: files\n", 0o644, 0)
	c.program(program, args[0])
	s.containers[name] = c
	return c
}

// process is a container in the root of the one with a name. What it says goes to a log.
func (s *site) process(name, log string, user int, args ...string) *container {
	t := s.t
	t.Helper()
	c := &container{site: s, name: name, root: filepath.Join(s.dir, name), user: user, work: "/", args: args}
	var err error
	c.log, err = os.Create(filepath.Join(s.dir, log+".log"))
	must(t, err)
	t.Cleanup(func() {
		c.stop()
		if t.Failed() {
			said := c.said()
			t.Logf("%s said:\n%s", log, said[max(0, len(said)-4000):])
		}
		c.log.Close()
	})
	return c
}

// said is what the program of the container has printed.
func (c *container) said() string {
	text, _ := os.ReadFile(c.log.Name())
	return string(text)
}

// bucketKey and bucketSecret open the store that bucket starts.
const bucketKey, bucketSecret = "sluice", "secret-of-the-bucket"

// store makes the container of the store. The store needs /proc, which only the root of the machine has.
func (s *site) store(name string, args ...string) *container {
	s.t.Helper()
	program, err := bucketOnce()
	must(s.t, err)
	c := s.container(name, 0, program, append([]string{"/versitygw"}, args...)...)
	c.host = true
	return c
}

// bucket starts a store with a bucket in the container "bucket", and returns the settings that lead there.
func (s *site) bucket(name string) (settings []string) {
	s.t.Helper()
	c := s.store("bucket", "--port", ":7070", "--region", "eu-central-1", "posix", "/buckets")
	c.env = []string{"ROOT_ACCESS_KEY=" + bucketKey, "ROOT_SECRET_KEY=" + bucketSecret}
	c.volume("/buckets/" + name)
	c.start()
	return []string{"SLUICE_S3_ENDPOINT=http://bucket:7070", "SLUICE_S3_PATH_STYLE=true"}
}

// program puts a program into the container, with the libraries that it is linked with.
func (c *container) program(from, to string) {
	t := c.site.t
	t.Helper()
	files := map[string]string{to: from}
	libraries, _ := exec.Command("ldd", from).Output() // fails where there are none
	for _, path := range regexp.MustCompile(`/\S+`).FindAllString(string(libraries), -1) {
		files[path] = path
	}
	for to, from := range files {
		text, err := os.ReadFile(from)
		must(t, err)
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(c.root, to)), 0o755))
		must(t, os.WriteFile(filepath.Join(c.root, to), text, 0o755))
	}
}

// file writes a file into the container, with the ports of the site. A group other than 0 may read it.
func (c *container) file(path, text string, mode fs.FileMode, group int) {
	t := c.site.t
	t.Helper()
	to := filepath.Join(c.root, path)
	must(t, os.MkdirAll(filepath.Dir(to), 0o755))
	must(t, os.WriteFile(to, []byte(c.site.local(c.name, text)), mode))
	c.own(to, 0, group)
}

// mount copies a file of the host into the container, with its owner and mode, as a bind mount shows it.
func (c *container) mount(from, to string) {
	t := c.site.t
	t.Helper()
	text, err := os.ReadFile(from)
	must(t, err)
	info, err := os.Stat(from)
	must(t, err)
	owner := info.Sys().(*syscall.Stat_t)
	c.file(to, string(text), info.Mode(), 0)
	c.own(filepath.Join(c.root, to), int(owner.Uid), int(owner.Gid))
}

// volume is a directory of the container that its user may write to.
func (c *container) volume(to string) {
	t := c.site.t
	t.Helper()
	at := filepath.Join(c.root, to)
	must(t, os.MkdirAll(filepath.Dir(at), 0o755))
	must(t, os.MkdirAll(at, 0o700))
	c.own(at, c.user, c.user)
}

// own changes the owner where the test may do that. Else every container runs as the user of the test.
func (c *container) own(path string, user, group int) {
	c.site.t.Helper()
	if os.Getuid() == 0 {
		must(c.site.t, os.Chown(path, user, group))
	}
}

// command is a process of the container.
func (c *container) command(env []string, args ...string) *exec.Cmd {
	args = slices.Clone(args)
	for i, a := range args {
		if args[i] = c.site.local(c.name, a); c.host && strings.HasPrefix(a, "/") {
			args[i] = filepath.Join(c.root, a)
		}
	}
	cmd := exec.CommandContext(c.site.t.Context(), args[0], args[1:]...)
	for _, e := range slices.Concat(c.env, env) {
		cmd.Env = append(cmd.Env, c.site.local(c.name, e))
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if c.host {
		return cmd
	}
	cmd.Dir, cmd.SysProcAttr.Chroot = c.work, c.root
	if id := uint32(c.user); os.Getuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: id, Gid: id}
	} else {
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: c.user, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: c.user, HostID: os.Getgid(), Size: 1}}
	}
	return cmd
}

// start runs the program of the container until the end of the test.
func (c *container) start() {
	c.site.t.Helper()
	c.process = c.command(nil, c.args...)
	c.process.Stdout, c.process.Stderr = c.log, c.log
	must(c.site.t, c.process.Start())
}

func (c *container) stop() {
	if c.process != nil {
		_ = c.process.Process.Kill()
		_ = c.process.Wait()
		c.process = nil
	}
}

// run runs a command to its end and returns what it printed.
func (c *container) run(env []string, args ...string) (string, error) {
	cmd := c.command(env, args...)
	var out, words bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &words
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("in %s: %s: %w\n%s%s", c.name, strings.Join(args, " "), err, out.String(), words.String())
	}
	return out.String(), nil
}

// soon runs a command until it ends well.
func (c *container) soon(args ...string) error {
	return servicetest.Await(time.Minute, strings.Join(args, " "), func() error {
		_, err := c.run(nil, args...)
		return err
	})
}
