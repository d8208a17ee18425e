package api

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/dataset"
	"sluice/internal/listen"
)

// writeCertificate makes a self-signed certificate with a serial number, and returns its two files.
func writeCertificate(t *testing.T, dir string, serial int64) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "sluice"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for name, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "PRIVATE KEY", Bytes: raw}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certFile, keyFile
}

// HTTP/2 with and without TLS, large bodies and rejections included.
func TestHTTP2(t *testing.T) {
	s := openShop(t)
	certFile, keyFile := writeCertificate(t, t.TempDir(), 1)
	cert, err := listen.OpenCertificate(certFile, keyFile, time.Now, s.Log)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	secure := listen.NewServer(s.Server, cert, s.Log)
	go secure.ServeTLS(listener, "", "")
	t.Cleanup(func() { secure.Close() })

	var h2, h2c http.Protocols
	h2.SetHTTP2(true)
	h2c.SetUnencryptedHTTP2(true)
	pool := x509.NewCertPool()
	pem, err := os.ReadFile(certFile)
	if err != nil {
		t.Fatal(err)
	}
	pool.AppendCertsFromPEM(pem)
	for name, c := range map[string]struct {
		url       string
		transport *http.Transport
	}{
		"tls":   {"https://" + listener.Addr().String(), &http.Transport{Protocols: &h2, TLSClientConfig: &tls.Config{RootCAs: pool}}},
		"clear": {s.url, &http.Transport{Protocols: &h2c}},
	} {
		t.Run(name, func(t *testing.T) {
			client := &http.Client{Transport: c.transport}
			for _, step := range []struct {
				key    string
				size   int
				status int
			}{{s.key, 300, 200}, {s.key, MaxBody, 200}, {s.key, MaxBody + 1, 413}, {"x", MaxBody, 403}, {s.key, 300, 200}} {
				r, err := http.NewRequest("POST", c.url+"/v1/events", strings.NewReader(padded(step.size)))
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("Authorization", step.key)
				resp, err := client.Do(r)
				if err != nil {
					t.Fatalf("%d bytes: %v", step.size, err)
				}
				resp.Body.Close()
				if resp.StatusCode != step.status || resp.ProtoMajor != 2 {
					t.Errorf("%d bytes: got %s %d, want %d", step.size, resp.Proto, resp.StatusCode, step.status)
				}
			}
		})
	}
}

// Every answer that says to retry says when.
func TestNumbersCannotBeRead(t *testing.T) {
	s := openServiceIn(t, t.TempDir(), func(s *Server) {
		s.Numbers = func(context.Context, string, NumbersWindow, time.Time) (Numbers, error) {
			return Numbers{}, errors.New("away")
		}
	})
	s.key = s.dataset(specShop)
	r := s.send(http.MethodGet, "/v1/stats", "")
	checkAnswer(t, r, "UNAVAILABLE")
	if r.StatusCode != 503 || r.Header.Get("Retry-After") != "1" || !strings.Contains(r.text, `"retryable":true`) {
		t.Errorf("got %d %v %s", r.StatusCode, r.Header, r.text)
	}
}

// panicking panics with a secret in its value.
type panicking struct{ Keys }

func (panicking) Authenticate(presented string) (*dataset.Dataset, string, error) {
	panic("cannot cope with " + presented)
}

func TestPanic(t *testing.T) {
	s := openServiceIn(t, t.TempDir(), func(s *Server) { s.Keys = panicking{} })
	s.key = "very-secret"
	r := s.post("/v1/events", goodEvent(""))
	checkAnswer(t, r, "INTERNAL_ERROR")
	if r.StatusCode != 500 || r.Header.Get("Retry-After") != "1" || !strings.Contains(r.text, `"retryable":true`) {
		t.Errorf("got %d %v %s", r.StatusCode, r.Header, r.text)
	}
	log := s.log.String()
	if !strings.Contains(log, "request failed") || !strings.Contains(log, r.Header.Get("X-Request-Id")) || strings.Contains(log, s.key) {
		t.Errorf("log: %s", log)
	}
	if s.Stats().Faults != 1 {
		t.Errorf("faults: got %d, want 1", s.Stats().Faults)
	}
}

// A stop answers what is in flight: every 200 is in the stream, and nobody hangs.
func TestStopUnderLoad(t *testing.T) {
	dir := t.TempDir()
	s := openServiceIn(t, dir, nil)
	s.key = s.dataset(specShop)
	var mu sync.Mutex
	receipts := map[string]bool{}
	var sent atomic.Int64
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			client := &http.Client{Transport: &http.Transport{}}
			for n := 0; ; n++ {
				r, err := http.NewRequestWithContext(ctx, "POST", s.url+"/v1/events", strings.NewReader(goodEvent("")))
				if err != nil {
					t.Error(err)
					return
				}
				r.Header.Set("Authorization", s.key)
				if i%2 == 0 {
					r.Header.Set("Idempotency-Key", fmt.Sprint(i, n))
				}
				resp, err := client.Do(r)
				if err != nil {
					return // stopped
				}
				var m struct {
					SubmissionID string `json:"submission_id"`
				}
				err = decodeJSON(resp, &m)
				if resp.StatusCode == 200 && err == nil {
					mu.Lock()
					receipts[m.SubmissionID] = true
					mu.Unlock()
					sent.Add(1)
				}
			}
		})
	}
	waitFor(t, "some answers", func() bool { return sent.Load() > 200 })
	s.stop()
	wg.Wait()
	if ctx.Err() != nil {
		t.Fatal("a sender hangs")
	}
	s2 := openServiceIn(t, dir, nil)
	stored := map[string]bool{}
	for _, r := range s2.records(t) {
		for i := range r.Rows {
			stored[r.Rows[i].SubmissionID] = true
		}
	}
	for id := range receipts {
		if !stored[id] {
			t.Errorf("%s was acknowledged and is not there", id)
		}
	}
	t.Logf("%d acknowledged, %d stored", len(receipts), len(stored))
}

// A rejected request over HTTP/2 without TLS gets its answer, though its body is still on the way.
func TestRejectedOverPlainHTTP2(t *testing.T) {
	s := openServiceIn(t, t.TempDir(), nil)
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	c := &http.Client{Transport: &http.Transport{Protocols: &protocols}}
	body := &slowBody{left: 40, part: bytes.Repeat([]byte(" "), 16<<10)}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/v1/events", body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer x")
	resp, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != 403 || resp.ProtoMajor != 2 {
		t.Fatalf("got %s %d, %v", resp.Proto, resp.StatusCode, err)
	}
	if body.left != 0 {
		t.Errorf("the server ended the stream with %d parts of the body unread", body.left)
	}
}

// slowBody is a body that comes in parts.
type slowBody struct {
	left int
	part []byte
}

// Read returns the next part.
func (b *slowBody) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, io.EOF
	}
	b.left--
	return copy(p, b.part), nil
}
