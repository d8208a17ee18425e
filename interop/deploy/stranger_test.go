package deploy

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"sluice/internal/servicetest"
)

// takesEvents sends an event to a node until it is accepted: a new key reaches every node within seconds.
func (s *site) takesEvents(name, key string) {
	s.t.Helper()
	ledger := servicetest.Ledger{ID: "shop", Key: key}
	servicetest.Eventually(s.t, 30*time.Second, "an event accepted by "+name, func() error {
		r, err := http.NewRequest(http.MethodPost, "http://127.0.0.1:"+s.port(name, "8080")+"/v1/events", strings.NewReader(ledger.Event("one", 0)))
		must(s.t, err)
		r.Header.Set("Authorization", "Bearer "+key)
		r.Header.Set("Content-Type", "application/json")
		a, err := servicetest.Client.Do(r)
		if err != nil {
			return err
		}
		defer a.Body.Close()
		if body, _ := io.ReadAll(a.Body); a.StatusCode != http.StatusOK {
			return fmt.Errorf("got %d %s", a.StatusCode, body)
		}
		return nil
	})
}

// strangers reach NATS and are rejected: without a certificate, with that of a server, and with one of another authority.
func (c *container) strangers(server, certs string) {
	t := c.site.t
	t.Helper()
	others := filepath.Join(t.TempDir(), "others")
	out, err := exec.Command("sh", filepath.Join(root, "deploy/certificates.sh"), others, server).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for name, from := range map[string]string{"server": filepath.Join(certs, server), "other": filepath.Join(others, "sluice")} {
		for _, kind := range []string{".crt", ".key"} {
			text, err := os.ReadFile(from + kind)
			must(t, err)
			c.file("/stranger/"+name+kind, string(text), 0o644, 0)
		}
	}
	for name, want := range map[string]string{"": "certificate required|after TLS handshake", "server": "Authorization Violation", "other": "unknown certificate authority|after TLS handshake"} {
		env := []string{"SLUICE_NATS_CERT=", "SLUICE_NATS_KEY="}
		if name != "" {
			env = []string{"SLUICE_NATS_CERT=/stranger/" + name + ".crt", "SLUICE_NATS_KEY=/stranger/" + name + ".key"}
		}
		if out, err := c.run(env, c.args[0], "dataset", "list"); err == nil || !regexp.MustCompile(want).MatchString(err.Error()) {
			t.Errorf("a stranger with the certificate %q: got %q %v, want %q", name, out, err, want)
		}
	}
}

// strangerAmongServers starts a NATS server with the certificate of the nodes. The others must not let it in: it would get
// everything that they store.
func (s *site) strangerAmongServers(like, certs string) {
	t := s.t
	t.Helper()
	known := s.containers[like]
	program := filepath.Join(known.root, known.args[0])
	c := s.container("stranger", 0, program, known.args...)
	c.env = []string{"SERVER_NAME=stranger"}
	for to, from := range map[string]string{
		"ca.crt": filepath.Join(certs, "ca.crt"), "tls.crt": filepath.Join(certs, "sluice.crt"), "tls.key": filepath.Join(certs, "sluice.key"),
		"nats.conf": filepath.Join(root, "deploy/nats.conf"),
	} {
		text, err := os.ReadFile(from)
		must(t, err)
		c.file("/etc/nats/"+to, string(text), 0o600, 0)
	}
	c.volume("/data")
	c.start()
	servicetest.Eventually(t, 30*time.Second, "a stranger that every server rejects", func() error {
		said := c.said()
		for _, n := range s.names {
			if strings.HasPrefix(n, "nats-") && !strings.Contains(said, "Router connection closed: Parse Error - Remote: "+n) {
				return fmt.Errorf("%s has not closed the connection", n)
			}
		}
		if !strings.Contains(said, "Authorization Violation") {
			return errors.New("it is not told why")
		}
		return nil
	})
	if strings.Contains(c.said(), "new metadata leader") {
		t.Error("a server with the certificate of the nodes is in the cluster")
	}
}
