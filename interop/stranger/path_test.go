package stranger

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// container runs the image of the release by buildah, which needs neither a registry nor a daemon.
type container struct {
	t       *testing.T
	buildah []string
	name    string
}

// load takes the image in, as docker load does.
func load(t *testing.T) *container {
	t.Helper()
	work := t.TempDir()
	c := &container{t: t, buildah: []string{"--storage-driver", "vfs", "--root", filepath.Join(work, "storage"), "--runroot", filepath.Join(work, "run")}}
	_, err := run(work, nil, "sh", "-c", "gunzip -c "+filepath.Join(dist, "sluice-"+version+"-linux-amd64.image.tar.gz")+" > image.tar")
	must(t, err)
	_, err = run(work, nil, "buildah", c.args("pull", "--quiet", "docker-archive:image.tar")...)
	must(t, err)
	c.name, err = run(work, nil, "buildah", c.args("from", "localhost/sluice:"+version)...)
	must(t, err)
	// With docker a volume that is given takes the place of the image's own. With buildah the image's own hides it.
	_, err = run(work, nil, "buildah", c.args("config", "--volume", "/data-", c.name)...)
	must(t, err)
	return c
}

func (c *container) args(more ...string) []string {
	return append(append([]string{}, c.buildah...), more...)
}

// command is the image with a volume and arguments, as docker run has them. Its network is that of the machine.
func (c *container) command(ctx context.Context, volumes []string, env []string, args ...string) *exec.Cmd {
	all := c.args("run", "--isolation", "chroot", "--user", "65532:65532")
	for _, v := range volumes {
		all = append(all, "--volume", v)
	}
	for _, e := range env {
		all = append(all, "--env", e)
	}
	all = append(append(all, c.name, "--", "/sluice"), args...)
	cmd := exec.CommandContext(ctx, "buildah", all...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

// sluice runs a command of the image to its end and returns what it printed.
func (c *container) sluice(input string, volumes []string, args ...string) string {
	c.t.Helper()
	cmd := c.command(c.t.Context(), volumes, nil, args...)
	cmd.Stdin = strings.NewReader(input)
	var out, words strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &words
	if err := cmd.Run(); err != nil {
		c.t.Fatalf("sluice %s: %v\n%s%s", strings.Join(args, " "), err, out.String(), words.String())
	}
	return strings.TrimSpace(out.String())
}

// service is a container that serves.
type service struct {
	t        *testing.T
	cmd      *exec.Cmd
	url, ops string
	ended    chan struct{}
	mu       sync.Mutex
	words    strings.Builder
}

// serve starts the container as docs/operate.md has it, on ports of its own.
func (c *container) serve(volume string) *service {
	c.t.Helper()
	s := &service{t: c.t, ended: make(chan struct{})}
	env := []string{"SLUICE_LISTEN=127.0.0.1:0", "SLUICE_OPS=127.0.0.1:0", "SLUICE_OPS_PROXY=true", "SLUICE_COMMIT_EVERY=300ms"}
	s.cmd = c.command(context.Background(), []string{volume}, env, "serve")
	log, err := s.cmd.StderrPipe()
	must(c.t, err)
	must(c.t, s.cmd.Start())
	c.t.Cleanup(s.kill)
	serving := make(chan [2]string, 1)
	go func() {
		defer close(s.ended)
		for scan := bufio.NewScanner(log); scan.Scan(); {
			s.mu.Lock()
			s.words.WriteString(scan.Text() + "\n")
			s.mu.Unlock()
			var line struct{ API, Ops string }
			if json.Unmarshal(scan.Bytes(), &line) == nil && line.API != "" {
				serving <- [2]string{line.API, strings.TrimSuffix(line.Ops, "/")}
			}
		}
		_ = s.cmd.Wait() // it was killed
	}()
	select {
	case at := <-serving:
		s.url, s.ops = at[0], at[1]
	case <-s.ended:
		c.t.Fatalf("the container ended instead of serving:\n%s", s.said())
	case <-time.After(time.Minute):
		c.t.Fatalf("the container does not serve within a minute:\n%s", s.said())
	}
	s.await("ready", func() bool { status, _ := s.get(s.ops+"/readyz", ""); return status == 200 })
	return s
}

func (s *service) said() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.words.String()
}

// kill ends the container and everything in it as kill -9 does.
func (s *service) kill() {
	_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL) // it may have ended
	<-s.ended
}

func (s *service) get(url, token string) (int, string) {
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, url, nil)
	must(s.t, err)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer answer.Body.Close()
	b, _ := io.ReadAll(answer.Body)
	return answer.StatusCode, string(b)
}

func (s *service) await(what string, ok func() bool) {
	s.t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(time.Minute); !ok(); <-tick.C {
		if time.Now().After(end) {
			s.t.Fatalf("not within a minute: %s\n%s", what, s.said())
		}
	}
}

// sdks are the packed SDKs, installed, with a program that sends orders with each.
type sdks struct{ node, python string }

func install(t *testing.T) sdks {
	t.Helper()
	s := sdks{t.TempDir(), t.TempDir()}
	must(t, os.WriteFile(filepath.Join(s.node, "package.json"), []byte(`{"name":"shop","private":true}`), 0o600))
	_, err := run(s.node, nil, "npm", "install", "--offline", "--no-audit", "--no-fund", filepath.Join(dist, "sluice-client-1.0.0.tgz"))
	must(t, err)
	_, err = run(s.python, nil, "python3", "-m", "pip", "install", "--quiet", "--no-index", "--disable-pip-version-check", "--target", s.python,
		filepath.Join(dist, "sluice_client-1.0.0-py3-none-any.whl"))
	must(t, err)
	for dir, name := range map[string]string{s.node: "shop.mjs", s.python: "shop.py"} {
		b, err := os.ReadFile(filepath.Join("testdata", name))
		must(t, err)
		must(t, os.WriteFile(filepath.Join(dir, name), b, 0o600))
	}
	return s
}

// send sends orders with both SDKs and returns the submission ids by order.
func (k sdks) send(t *testing.T, s *service, key, mark string) map[string]string {
	t.Helper()
	ids := map[string]string{}
	for _, program := range []struct{ dir, name, file string }{{k.node, "node", "shop.mjs"}, {k.python, "python3", "shop.py"}} {
		var orders []string
		for i := range 3 {
			orders = append(orders, fmt.Sprintf("%s-%s-%d", mark, program.name, i))
		}
		out, err := run(program.dir, []string{"SLUICE_URL=" + s.url, "SLUICE_API_KEY=" + key, "SLUICE_PLAIN_HTTP=1"}, program.name, append([]string{program.file}, orders...)...)
		must(t, err)
		got := strings.Fields(out)
		if len(got) != len(orders) {
			t.Fatalf("%s: got %q, want %d submission ids", program.name, out, len(orders))
		}
		for i, order := range orders {
			ids[order] = got[i]
		}
	}
	return ids
}

// TestStrangersPath is the first day of somebody who has only the release.
func TestStrangersPath(t *testing.T) {
	c := load(t)
	disk := t.TempDir()
	must(t, os.Chmod(filepath.Dir(disk), 0o755)) // the container's user must reach its volume
	must(t, os.Chmod(disk, 0o755))
	volume := func(name string) (dir, mounted string) {
		dir = filepath.Join(disk, name)
		must(t, os.Mkdir(dir, 0o700))
		must(t, os.Chown(dir, 65532, 65532))
		return dir, dir + ":/data"
	}
	data, mounted := volume("data")

	// Provision: a dataset, a password and a token for the console.
	var made struct {
		Key string `json:"api_key"`
	}
	must(t, json.Unmarshal([]byte(c.sluice("", []string{mounted}, "dataset", "create", "shop", "--json")), &made))
	c.sluice("a password for the console\n", []string{mounted}, "console", "password")
	token := c.sluice("", []string{mounted}, "console", "token")

	// Serve, send, look up, read the numbers.
	s := c.serve(mounted)
	kit := install(t)
	ids := kit.send(t, s, made.Key, "before")
	s.await("the events are stored", func() bool {
		for _, id := range ids {
			if _, body := s.get(s.url+"/v1/submissions/"+id, made.Key); !strings.Contains(body, `"status":"PROCESSED"`) {
				return false
			}
		}
		return true
	})
	s.await("the numbers of the sender", func() bool {
		_, body := s.get(s.url+"/v1/stats?window=24h", made.Key)
		return strings.Contains(body, `"accepted":6`)
	})
	for path, want := range map[string]int{"/metrics": 200, "/": 200} {
		if status, _ := s.get(s.ops+path, token); status != want {
			t.Errorf("%s with the token: got %d, want %d", path, status, want)
		}
		if status, _ := s.get(s.ops+path, ""); status != http.StatusUnauthorized {
			t.Errorf("%s without the token: got %d, want 401", path, status)
		}
	}
	host := strings.TrimPrefix(s.ops, "http://")
	if got := c.sluice("", []string{mounted}, "health", "--ops", host); got != "ready" {
		t.Errorf("health: got %q, want ready", got)
	}

	// Back up while it runs, lose the machine, restore, go on.
	copies, _ := volume("copies")
	c.sluice("", []string{mounted, copies + ":/copies"}, "backup", "/copies/monday")
	s.kill()
	if status, _ := s.get(s.ops+"/livez", ""); status != 0 {
		t.Fatalf("the service answers %d after it was killed", status)
	}
	_, err := os.Stat(filepath.Join(data, "engine")) // else the volume was not used
	must(t, err)
	must(t, os.RemoveAll(data))
	_, mounted = volume("restored")
	c.sluice("", []string{mounted, copies + ":/copies"}, "restore", "/copies/monday")
	s = c.serve(mounted)
	for order, id := range kit.send(t, s, made.Key, "after") {
		ids[order] = id
	}
	stored := map[string]int{}
	s.await("everything is stored", func() bool {
		clear(stored)
		total := 0
		for d := json.NewDecoder(strings.NewReader(c.sluice("", []string{mounted}, "export", "--dataset", "shop"))); d.More(); total++ {
			var row struct {
				CustomData struct{ Order string } `json:"custom_data"`
			}
			must(t, d.Decode(&row))
			stored[row.CustomData.Order]++
		}
		return total >= len(ids)
	})
	for order, id := range ids {
		if stored[order] != 1 {
			t.Errorf("%s is stored %d times, want once", order, stored[order])
		}
		if status, body := s.get(s.url+"/v1/submissions/"+id, made.Key); status != 200 || !strings.Contains(body, `"accepted":1`) {
			t.Errorf("look-up of %s: got %d %s", order, status, body)
		}
	}
}
