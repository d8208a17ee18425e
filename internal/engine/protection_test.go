package engine

import (
	"fmt"
	"path/filepath"
	"testing"

	"sluice/internal/enginetest"
)

// What protects a connection is what the server asks for, whatever the client sends.
func TestProtection(t *testing.T) {
	dir := certificates(t, filepath.Join(t.TempDir(), "certificates"))
	file := func(name string) string { return filepath.Join(dir, name) }
	tls := fmt.Sprintf("tls: {cert_file: %q, key_file: %q, ca_file: %q", file("localhost.crt"), file("localhost.key"), file("ca.crt"))
	known := Options{RootCA: file("ca.crt"), ClientCert: file("sluice.crt"), ClientKey: file("sluice.key")}
	const payload = "max_payload: 8MB\n"
	for name, c := range map[string]struct {
		server string
		o      Options
		want   Protection
	}{
		"token":        {payload, Options{Token: enginetest.Token}, Protection{Credentials: true, Loopback: true}},
		"nothing":      {payload + "accounts: {}\n", Options{}, Protection{Loopback: true}},
		"token unused": {payload + "accounts: {}\n", Options{Token: enginetest.Token}, Protection{Loopback: true}},
		"user for who has none": {
			payload + "accounts: {A: {jetstream: enabled, users: [{user: a, password: b}]}}\nno_auth_user: a\n",
			Options{},
			Protection{Loopback: true},
		},
		"TLS":          {payload + tls + "}", Options{Token: enginetest.Token, RootCA: file("ca.crt")}, Protection{Credentials: true, TLS: true, Loopback: true}},
		"certificate":  {payload + "accounts: {}\n" + tls + ", verify: true}", known, Protection{Credentials: true, TLS: true, Loopback: true}},
		"not verified": {payload + "accounts: {}\n" + tls + "}", known, Protection{TLS: true, Loopback: true}},
	} {
		t.Run(name, func(t *testing.T) {
			c.o.URL = enginetest.Start(t, c.server).URL()
			if got := open(t, c.o).Protection(); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
	if got := open(t, Options{Dir: t.TempDir()}).Protection().Problems(); len(got) != 0 {
		t.Errorf("got %q for the embedded engine, want no problem", got)
	}
}

func TestProblemsOfProtection(t *testing.T) {
	for p, want := range map[Protection]int{
		{Credentials: true, Loopback: true}: 0,
		{Credentials: true, TLS: true}:      0,
		{Credentials: true}:                 1,
		{TLS: true}:                         1,
		{Loopback: true}:                    1,
		{}:                                  2,
		{Credentials: true, TLS: true, Loopback: true}: 0,
	} {
		if got := p.Problems(); len(got) != want {
			t.Errorf("%+v: got %q, want %d", p, got, want)
		}
	}
	for address, want := range map[string]bool{
		"127.0.0.1:4222": true, "[::1]:4222": true, "[::ffff:127.0.0.1]:4222": true, "10.0.0.1:4222": false, "[2001:db8::1]:4222": false, "pipe": false,
	} {
		if loopback(address) != want {
			t.Errorf("%s: got loopback %v, want %v", address, !want, want)
		}
	}
}
