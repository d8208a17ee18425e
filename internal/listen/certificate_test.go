package listen

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
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

// A renewed certificate is used without a restart; one that does not load changes nothing.
func TestCertificate(t *testing.T) {
	dir := t.TempDir()
	var log strings.Builder
	noon := time.Date(2026, 11, 14, 12, 0, 0, 0, time.UTC)
	at := noon
	now := func() time.Time { return at }
	certFile, keyFile := writeCertificate(t, dir, 1)
	cert, err := OpenCertificate(certFile, keyFile, now, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	serial := func() int64 {
		t.Helper()
		got, err := cert.Choose(nil)
		if err != nil {
			t.Fatal(err)
		}
		leaf, err := x509.ParseCertificate(got.Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		return leaf.SerialNumber.Int64()
	}
	touch := func(after time.Duration) {
		t.Helper()
		for _, name := range []string{certFile, keyFile} {
			if err := os.Chtimes(name, noon.Add(after), noon.Add(after)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, step := range []struct {
		name   string
		change func()
		wait   time.Duration
		want   int64
	}{
		{"at first", func() {}, 0, 1},
		{"not looked at yet", func() { writeCertificate(t, dir, 2); touch(time.Minute) }, 0, 1},
		{"renewed", func() {}, checkEvery, 2},
		{"damaged", func() { _ = os.WriteFile(certFile, []byte("x"), 0o600) }, checkEvery, 2},
		{"gone", func() { _ = os.Remove(keyFile) }, checkEvery, 2},
		{"back", func() { writeCertificate(t, dir, 3); touch(time.Hour) }, checkEvery, 3},
	} {
		step.change()
		at = at.Add(step.wait)
		if got := serial(); got != step.want {
			t.Errorf("%s: got certificate %d, want %d", step.name, got, step.want)
		}
	}
	if got := log.String(); strings.Count(got, "does not load") != 1 || strings.Count(got, "certificate renewed") != 2 {
		t.Errorf("log: %s", got)
	}
	if _, err := OpenCertificate(certFile+"x", keyFile, now, slog.Default()); err == nil {
		t.Error("a missing file is opened")
	}
}
