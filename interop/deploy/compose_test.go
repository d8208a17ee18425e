package deploy

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"sluice/internal/enginetest"
	"sluice/internal/servicetest"
)

// composeFile is the part of a compose file that says what runs.
type composeFile struct {
	Services map[string]composeService
	Secrets  map[string]struct{ File string }
}

type composeService struct {
	Image       string
	Command     []string
	Environment map[string]string
	Volumes     []string
	Secrets     []string
	Ports       []string
}

// readCompose reads the compose file of a directory, with the variables of its .env.
func readCompose(t testing.TB, dir string) (out composeFile) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "compose.yml"))
	must(t, err)
	env, err := os.ReadFile(filepath.Join(dir, ".env"))
	must(t, err)
	filled := regexp.MustCompile(`\$\{([A-Z_]+):\?[^}]*\}`).ReplaceAllStringFunc(string(text), func(found string) string {
		name, _, _ := strings.Cut(found[2:], ":")
		for line := range strings.Lines(string(env)) {
			if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+"="); ok {
				return value
			}
		}
		t.Fatalf(".env has no %s", name)
		return ""
	})
	must(t, yaml.Unmarshal([]byte(filled), &out))
	return out
}

// imageOfSluice is what deploy/Dockerfile says about the image.
func imageOfSluice(t testing.TB) (user int, env, entrypoint, command, health []string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, "deploy/Dockerfile"))
	must(t, err)
	for line := range strings.Lines(string(b)) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch word {
		case "USER":
			_, err = fmt.Sscanf(rest, "%d:", &user)
		case "ENV":
			env = strings.Fields(rest)
		case "ENTRYPOINT":
			err = json.Unmarshal([]byte(rest), &entrypoint)
		case "CMD":
			err = json.Unmarshal([]byte(rest), &command)
		case "HEALTHCHECK":
			err = json.Unmarshal([]byte(rest[strings.Index(rest, "["):]), &health)
		}
		must(t, err)
	}
	return user, env, entrypoint, command, health
}

// service makes the container of a service.
func (s *site) service(dir, name string, d composeService, secrets map[string]struct{ File string }) *container {
	t := s.t
	t.Helper()
	image, version, _ := strings.Cut(d.Image, ":")
	if version == "" || version == "latest" {
		t.Errorf("%s: the image %s has no version", name, d.Image)
	}
	var c *container
	switch image {
	case "nats":
		c = s.container(name, 0, enginetest.Build(t), append([]string{"/nats-server"}, d.Command...)...)
	case "versity/versitygw":
		c = s.store(name, d.Command...)
	case "prom/prometheus":
		c = s.prometheus(name, d.Command)
	case "sluice":
		user, env, entrypoint, command, _ := imageOfSluice(t)
		program, err := sluiceOnce()
		must(t, err)
		c = s.container(name, user, program, append(entrypoint, command...)...)
		c.env = env
	default:
		t.Fatalf("%s: the image %s is not known here", name, image)
	}
	for k, v := range d.Environment {
		c.env = append(c.env, k+"="+v)
	}
	for _, v := range d.Volumes {
		from, to, _ := strings.Cut(v, ":")
		if strings.HasPrefix(from, "./") {
			c.mount(filepath.Join(dir, from), strings.TrimSuffix(to, ":ro"))
		} else {
			c.volume(to)
		}
	}
	for _, name := range d.Secrets {
		c.mount(filepath.Join(dir, secrets[name].File), "/run/secrets/"+name)
	}
	return c
}

// prometheus makes the container of Prometheus from the program of this machine. The image runs it as nobody, and has other
// defaults.
func (s *site) prometheus(name string, command []string) *container {
	t := s.t
	t.Helper()
	program, err := exec.LookPath("prometheus")
	must(t, err)
	c := s.container(name, 65534, program, append([]string{"/bin/prometheus", "--web.listen-address=:9090", "--storage.tsdb.path=data"}, command...)...)
	c.work, c.env = "/prometheus", []string{"GODEBUG=netdns=go"}
	return c
}

// up starts every service that can be started here.
func (s *site) up(dir string) {
	t := s.t
	t.Helper()
	file := readCompose(t, dir)
	for name, d := range file.Services {
		switch {
		case strings.HasPrefix(d.Image, "grafana/"): // there is no program of it
		case strings.HasPrefix(d.Image, "busybox:"):
		default:
			s.service(dir, name, d, file.Secrets)
		}
	}
	// The directory of the bucket is on the volume of the store.
	must(t, os.MkdirAll(filepath.Join(s.dir, "bucket", strings.Join(file.Services["bucket-directory"].Command[2:], "")), 0o700))
	for _, c := range s.containers {
		c.start()
	}
}

// The commands of docs/operate.md make a cluster of deploy/compose.yml that takes events, and that Prometheus watches.
func TestCompose(t *testing.T) {
	dir := copied(t)
	var s *site
	var names []string
	docker := func(c call) (string, error) {
		switch words := strings.Join(c.args, " "); {
		case words == "compose up -d":
			for name := range readCompose(t, c.dir).Services {
				names = append(names, name)
			}
			s = newSite(t, names...)
			s.up(c.dir)
			return "", nil
		case words == "compose restart prometheus":
			s.containers["prometheus"].stop()
			s.containers["prometheus"].mount(filepath.Join(c.dir, "token"), "/run/secrets/sluice-token")
			s.containers["prometheus"].start()
			return "", nil
		case strings.HasPrefix(words, "compose exec "):
			args := slices.DeleteFunc(c.args[2:], func(a string) bool { return a == "-T" })
			in := s.containers[args[0]]
			_, _, _, _, health := imageOfSluice(t)
			if err := in.soon(health...); err != nil {
				return "", err
			}
			return in.run(nil, args[1:]...)
		}
		return "", fmt.Errorf("docker %q is not known here", c.args)
	}
	script := with(t, blocks(t, "operate.md", "## Containers"), "docker compose up")
	key := strings.TrimSpace(shell(t, dir, script, map[string]func(call) (string, error){"docker": docker, "sudo": sudo}))
	for _, private := range []string{"token", ".env", "certs/ca.key", "certs/sluice.key", "certs/nats-1.key"} {
		info, err := os.Stat(filepath.Join(dir, "deploy", private))
		must(t, err)
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has the mode %v, want 0600", private, info.Mode())
		}
	}
	for _, name := range []string{"node-1", "node-2"} {
		s.takesEvents(name, key)
		out, err := s.containers[name].run(nil, "/sluice", "cluster", "check")
		if err != nil || !strings.Contains(out, "the cluster sluice names 3 servers") || !strings.Contains(out, "of 273804165120 bytes of the account are used") {
			t.Errorf("cluster check: got %v\n%s", err, out)
		}
	}
	s.containers["node-1"].strangers("nats-1", filepath.Join(dir, "deploy/certs"))
	s.watched("prometheus", 2)
	s.alarmed("prometheus", "node-1", "node-2", key)
}

// alarmed lets every request of a dataset fail at one node, and sees the rule fire in Prometheus; an accepted event at another
// node ends it.
func (s *site) alarmed(prometheus, bad, good, key string) {
	s.t.Helper()
	for range 10 { // what the alarm needs
		r, err := http.NewRequest(http.MethodPost, "http://127.0.0.1:"+s.port(bad, "8080")+"/v1/events", strings.NewReader(`{"a":1,}`))
		must(s.t, err)
		r.Header.Set("Authorization", "Bearer "+key)
		r.Header.Set("Content-Type", "application/json")
		a, err := servicetest.Client.Do(r)
		must(s.t, err)
		a.Body.Close()
		if a.StatusCode != http.StatusBadRequest {
			s.t.Fatalf("got %d, want 400", a.StatusCode)
		}
	}
	firing := func(want bool) func() error {
		return func() error {
			a, err := servicetest.Client.Get("http://127.0.0.1:" + s.port(prometheus, "9090") + "/api/v1/alerts")
			if err != nil {
				return err
			}
			defer a.Body.Close()
			var got struct {
				Data struct {
					Alerts []struct {
						Labels map[string]string
						State  string
					}
				}
			}
			if err := json.NewDecoder(a.Body).Decode(&got); err != nil {
				return err
			}
			fires := false
			for _, one := range got.Data.Alerts {
				fires = fires || one.State == "firing" && one.Labels["alertname"] == "SluiceRequestsFailing" && one.Labels["dataset"] == "shop"
			}
			if fires != want {
				return fmt.Errorf("got alerts %v", got.Data.Alerts)
			}
			return nil
		}
	}
	servicetest.Eventually(s.t, 2*time.Minute, "a rule that fires", firing(true))
	s.takesEvents(good, key)
	servicetest.Eventually(s.t, 2*time.Minute, "a rule that fires no more", firing(false))
}

// No operators' listener is published to the network.
func TestComposePorts(t *testing.T) {
	dir := copied(t)
	must(t, os.WriteFile(filepath.Join(dir, "deploy/.env"), []byte("VERSION=v\nBUCKET_SECRET=s\n"), 0o600))
	loopback := 0
	for name, d := range readCompose(t, filepath.Join(dir, "deploy")).Services {
		for _, port := range d.Ports {
			if strings.HasPrefix(port, "127.0.0.1:") {
				loopback++
			} else if !strings.HasSuffix(port, ":8080") {
				t.Errorf("%s publishes %s to the network", name, port)
			}
		}
	}
	if loopback != 4 {
		t.Errorf("got %d ports on loopback, want those of two nodes, Prometheus and Grafana", loopback)
	}
}

// watched waits until Prometheus has read n nodes, with its rules.
func (s *site) watched(name string, n int) {
	s.t.Helper()
	at := "http://127.0.0.1:" + s.port(name, "9090") + "/api/v1/"
	servicetest.Eventually(s.t, time.Minute, "Prometheus reads the nodes", func() error {
		a, err := servicetest.Client.Get(at + "targets?state=active")
		if err != nil {
			return err
		}
		defer a.Body.Close()
		body, _ := io.ReadAll(a.Body)
		if up := strings.Count(string(body), `"health":"up"`); up != n {
			return fmt.Errorf("got %d targets that are up, want %d: %s", up, n, body)
		}
		return nil
	})
	a, err := servicetest.Client.Get(at + "rules")
	must(s.t, err)
	defer a.Body.Close()
	if body, _ := io.ReadAll(a.Body); !strings.Contains(string(body), "SluiceDown") {
		s.t.Errorf("Prometheus has no rules: %s", body)
	}
}
