package proxy

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/interop/service"
)

const password = "correct horse battery staple"

var program string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "sluice-proxy")
	if err == nil {
		program, err = service.Build("../..", dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// nginx is a real one before the operators' listener at ops. It ends TLS, and is reached by a socket in a directory, so that
// the test needs no free port. settings are lines of its location. The client speaks to it as a browser does.
func nginx(t *testing.T, ops, settings string) *http.Client {
	t.Helper()
	path, err := exec.LookPath("nginx")
	if err != nil {
		path = "/usr/sbin/nginx" // not on every user's path
	}
	dir := t.TempDir()
	pool := certificate(t, dir)
	config := fmt.Sprintf(`daemon off; master_process off; pid %[1]s/pid; error_log stderr;
events { worker_connections 256; }
http {
  access_log off;
  client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/fastcgi; uwsgi_temp_path %[1]s/uwsgi; scgi_temp_path %[1]s/scgi;
  server {
    listen unix:%[1]s/s ssl;
    ssl_certificate %[1]s/cert.pem; ssl_certificate_key %[1]s/key.pem;
    location / { proxy_pass %[2]s; %[3]s }
  }
}
`, dir, strings.TrimSuffix(ops, "/"), settings)
	file := filepath.Join(dir, "nginx.conf")
	must(t, os.WriteFile(file, []byte(config), 0o600))
	var log strings.Builder
	cmd := exec.Command(path, "-p", dir, "-c", file, "-e", "stderr")
	cmd.Stdout, cmd.Stderr = &log, &log
	must(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() { _ = cmd.Process.Kill(); <-ended })
	for until := time.Now().Add(20 * time.Second); ; {
		conn, err := net.Dial("unix", dir+"/s")
		if err == nil {
			conn.Close()
			break
		}
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("nginx ended: %v\n%s", err, log.String())
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(until) {
			t.Fatal("nginx does not listen")
		}
	}
	jar, err := cookiejar.New(nil)
	must(t, err)
	return &http.Client{
		Jar: jar, Timeout: 20 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: pool},
			DialContext:     func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", dir+"/s") },
		},
	}
}

// certificate writes one for ops.example and returns the pool that trusts it.
func certificate(t *testing.T, dir string) *x509.CertPool {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ops.example"}, DNSNames: []string{"ops.example"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	must(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	must(t, os.WriteFile(dir+"/cert.pem", cert, 0o600))
	must(t, os.WriteFile(dir+"/key.pem", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(cert)
	return pool
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// get asks for a page and returns status and body.
func get(t *testing.T, c *http.Client, at, token string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at, nil)
	must(t, err)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := c.Do(r)
	must(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	must(t, err)
	return resp.StatusCode, string(b)
}

// What operators write into a location. nginx knows no address of its peer here; where it would send one, there is a constant.
const (
	asUsual   = `proxy_set_header Host $host; proxy_set_header X-Forwarded-For "$http_x_forwarded_for, 192.0.2.7"; proxy_set_header X-Forwarded-Proto $scheme;`
	hostAsIs  = `proxy_set_header X-Forwarded-For 192.0.2.8;`
	onlyProto = `proxy_set_header X-Forwarded-Proto https;`
	onlyReal  = `proxy_set_header X-Real-IP 192.0.2.7;`
	forwarded = `proxy_set_header Forwarded "for=192.0.2.7;proto=https";`
	onlyHost  = `proxy_set_header Host $host;`
)

// A server that does not know of a proxy on its machine shows nobody anything through it: pages, numbers, tables, feed.
func TestProxyThatWasNotAnnounced(t *testing.T) {
	s := service.Start(t, program, "shop")
	s.Run(password+"\n", "console", "password")
	token := s.Run("", "reader", "create", "warehouse", "--allow", "catalog,feed")
	for _, settings := range []string{asUsual, hostAsIs, onlyProto, onlyReal, forwarded, onlyHost} {
		c := nginx(t, s.Ops, settings)
		for path, token := range map[string]string{
			"/": "", "/system": "", "/metrics": "", "/live/events": "", "/iceberg/v1/config": "", "/iceberg/v1/namespaces/sluice/tables/events": token,
			"/feed/v1/events?purpose=measurement&wait=0s": token,
		} {
			status, body := get(t, c, "https://ops.example"+path, token)
			if settings == onlyHost { // nothing says that there is a proxy, but the name is not this machine's
				if status != 421 {
					t.Errorf("%s: %s: got %d, want 421", settings, path, status)
				}
				continue
			}
			if status != 403 || !strings.Contains(body, "--ops-proxy") {
				t.Errorf("%s: %s: got %d %.80q, want 403 with the remedy", settings, path, status, body)
			}
		}
	}
	if status, _ := get(t, http.DefaultClient, s.Ops, ""); status != 200 {
		t.Errorf("on the machine itself: got %d, want 200", status)
	}
}

// With --ops-proxy a loopback address is not trusted: everybody logs in, through the proxy and beside it.
func TestProxyOnTheSameHost(t *testing.T) {
	s := service.Start(t, program, "shop", "--ops-proxy")
	s.Run(password+"\n", "console", "password")
	reader := s.Run("", "reader", "create", "warehouse", "--allow", "catalog,feed")
	for name, c := range map[string]*http.Client{"nginx": nginx(t, s.Ops, asUsual), "nginx without Host": nginx(t, s.Ops, hostAsIs)} {
		for path, want := range map[string]int{
			"/": 401, "/system": 401, "/metrics": 401, "/live/events": 401, "/iceberg/v1/config": 401, "/feed/v1/events?purpose=measurement": 401, "/livez": 200, "/login": 200,
		} {
			if status, _ := get(t, c, "https://ops.example"+path, ""); status != want {
				t.Errorf("%s: %s without a log-in: got %d, want %d", name, path, status, want)
			}
		}
		for _, path := range []string{"/iceberg/v1/config", "/feed/v1/events?purpose=measurement&wait=0s"} {
			if status, body := get(t, c, "https://ops.example"+path, reader); status != 200 {
				t.Errorf("%s: %s with a token: got %d %.100s", name, path, status, body)
			}
		}
		resp, err := c.PostForm("https://ops.example/login", url.Values{"password": {password}, "next": {"/system"}})
		must(t, err)
		resp.Body.Close()
		if resp.StatusCode != 303 {
			t.Fatalf("%s: log-in: got %d, want 303", name, resp.StatusCode)
		}
		if status, _ := get(t, c, "https://ops.example/system", ""); status != 200 {
			t.Errorf("%s: after the log-in: got %d, want 200", name, status)
		}
	}
	for path, want := range map[string]int{"": 401, "iceberg/v1/config": 401} {
		if status, _ := get(t, http.DefaultClient, s.Ops+path, ""); status != want {
			t.Errorf("beside the proxy: /%s: got %d, want %d", path, status, want)
		}
	}
	log := s.Run("", "audit", "list")
	for _, actor := range []string{"console:192.0.2.7", "console:192.0.2.8"} {
		if !strings.Contains(log, actor) {
			t.Errorf("the audit log has no log-in of %s:\n%s", actor, log)
		}
	}
}
