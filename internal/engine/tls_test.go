package engine

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"sluice/internal/enginetest"
)

// certificates makes those of a cluster in a directory, and returns it.
func certificates(t *testing.T, dir string) string {
	t.Helper()
	if out, err := exec.Command("sh", "../../deploy/certificates.sh", dir, "localhost,127.0.0.1").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir
}

// A server that asks for a certificate is opened by the one that it knows. No other error passes by itself, so nobody waits.
func TestCertificates(t *testing.T) {
	dir := t.TempDir()
	ours, theirs := certificates(t, filepath.Join(dir, "ours")), certificates(t, filepath.Join(dir, "theirs"))
	srv := enginetest.Start(t, fmt.Sprintf(`max_payload: 8MB
tls: {cert_file: %q, key_file: %q, ca_file: %q, verify_and_map: true}
accounts: {sluice: {jetstream: enabled, users: [{user: "CN=sluice"}]}}`,
		filepath.Join(ours, "localhost.crt"), filepath.Join(ours, "localhost.key"), filepath.Join(ours, "ca.crt")))
	with := func(authority, dir, name string) Options {
		return Options{
			URL: srv.URL(), RootCA: filepath.Join(authority, "ca.crt"),
			ClientCert: filepath.Join(dir, name+".crt"), ClientKey: filepath.Join(dir, name+".key"),
		}
	}
	e := open(t, with(ours, ours, "sluice"))
	partitions(t, e, PartitionOptions{})
	put(t, e, "one")
	if problems := e.Protection().Problems(); len(problems) > 0 {
		t.Errorf("the server asks for a certificate and gets one: got %q", problems)
	}
	for name, c := range map[string]struct {
		o    Options
		want string
	}{
		"none":                     {Options{URL: srv.URL(), RootCA: filepath.Join(ours, "ca.crt")}, "certificate required|after TLS handshake"},
		"of another authority":     {with(ours, theirs, "sluice"), "unknown certificate authority|after TLS handshake"},
		"of a server":              {with(ours, ours, "localhost"), "Authorization Violation"},
		"of an unknown server":     {with(theirs, ours, "sluice"), "unknown authority"},
		"with the key of another":  {Options{URL: srv.URL(), ClientCert: filepath.Join(ours, "sluice.crt"), ClientKey: filepath.Join(theirs, "sluice.key")}, "private key does not match"},
		"whose file is not there":  {with(ours, dir, "sluice"), "no such file"},
		"without TLS to a spoofer": {Options{URL: enginetest.Start(t, "").URL(), RootCA: filepath.Join(ours, "ca.crt")}, "secure connection not available"},
	} {
		e, err := Open(t.Context(), c.o)
		if err == nil {
			e.Close()
		}
		if err == nil || !regexp.MustCompile(c.want).MatchString(err.Error()) || errors.Is(err, ErrUnavailable) {
			t.Errorf("a certificate %s: got %v (passes by itself: %v), want one with %q that does not", name, err, errors.Is(err, ErrUnavailable), c.want)
		}
	}
}

// A file that is not there will not come by itself: nobody waits for it.
func TestMissingFiles(t *testing.T) {
	srv := enginetest.Start(t, "")
	missing := filepath.Join(t.TempDir(), "missing")
	for name, o := range map[string]Options{
		"authority":   {RootCA: missing},
		"certificate": {ClientCert: missing, ClientKey: missing},
		"credentials": {Credentials: missing},
	} {
		o.URL = srv.URL()
		e, err := Open(t.Context(), o)
		if err == nil {
			e.Close()
		}
		if err == nil || errors.Is(err, ErrUnavailable) {
			t.Errorf("%s: got %v, want an error that does not pass by itself", name, err)
		}
	}
}
