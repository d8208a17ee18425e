package client

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
)

func TestVectors(t *testing.T) {
	for _, v := range Vectors {
		sum := sha256.Sum256([]byte(v.Normal))
		if hex.EncodeToString(sum[:]) != v.SHA256 {
			t.Errorf("%s %q: the vector is not the hash of its normal form", v.Kind, v.Input)
		}
		hash := HashEmail
		if v.Kind == "ip" {
			hash = HashIPv4
		}
		if got, err := hash(v.Input); err != nil || got != v.SHA256 {
			t.Errorf("%s %q: got %s, %v, want %s", v.Kind, v.Input, got, err, v.SHA256)
		}
	}
}

func TestHashRejects(t *testing.T) {
	for _, s := range []string{"", " ", "ana", "@example.com", "ana@", "a@b@c", "ana maria@example.com", "ana@exa\x00mple.com", "ana@\xff"} {
		if _, err := HashEmail(s); !errors.Is(err, ErrNotEmail) {
			t.Errorf("HashEmail(%q): got %v", s, err)
		}
	}
	for _, s := range []string{"", "192.0.2", "192.0.2.256", "192.000.002.001", "2001:db8::1", "192.0.2.1:80", "fe80::1%eth0", "3221225985"} {
		if _, err := HashIPv4(s); !errors.Is(err, ErrNotIPv4) {
			t.Errorf("HashIPv4(%q): got %v", s, err)
		}
	}
	for _, s := range []string{Vectors[0].SHA256, strings.ToUpper(Vectors[0].SHA256), " " + Vectors[0].SHA256} {
		if _, err := HashEmail(s); !errors.Is(err, ErrAlreadyHashed) {
			t.Errorf("HashEmail of a hash: got %v", err)
		}
		if _, err := HashIPv4(s); !errors.Is(err, ErrAlreadyHashed) {
			t.Errorf("HashIPv4 of a hash: got %v", err)
		}
	}
}
