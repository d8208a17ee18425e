package client

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/netip"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Why a value could not be hashed. None of them repeats the value.
var (
	ErrAlreadyHashed = errors.New("the value is 64 hex digits, a hash already: hashing it again would match nobody")
	ErrNotEmail      = errors.New("the value is not an e-mail address")
	ErrNotIPv4       = errors.New("the value is not an IPv4 address")
)

// HashEmail is the email_sha256 of an address: spaces around it cut off, letters lowered, then SHA-256 in lower-case
// hex. Nothing else is normalised: dots and +tags are part of the address.
func HashEmail(address string) (string, error) {
	s := strings.ToLower(strings.TrimSpace(address))
	if isDigest(s) {
		return "", ErrAlreadyHashed
	}
	local, domain, found := strings.Cut(s, "@")
	bad := func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) || r == utf8.RuneError }
	if !found || local == "" || domain == "" || strings.Contains(domain, "@") || strings.ContainsFunc(s, bad) {
		return "", ErrNotEmail
	}
	return digest(s), nil
}

// HashIPv4 is the ip of an address: its canonical dotted form, then SHA-256 in lower-case hex. An IPv4 address
// written inside IPv6 (::ffff:192.0.2.1) is taken for what it is; leading zeros, which some read as octal, are
// rejected.
func HashIPv4(address string) (string, error) {
	s := strings.TrimSpace(address)
	if isDigest(strings.ToLower(s)) {
		return "", ErrAlreadyHashed
	}
	addr, err := netip.ParseAddr(s)
	if err != nil || !addr.Unmap().Is4() {
		return "", ErrNotIPv4
	}
	return digest(addr.Unmap().String()), nil
}

func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

func isDigest(s string) bool {
	return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == ""
}

// Vector is a pair to check another implementation against.
type Vector struct {
	Kind   string // email or ip
	Input  string // as a sender may hold it
	Normal string // what is hashed
	SHA256 string
}

// Vectors are the published pairs. The addresses are from the ranges kept for documentation.
var Vectors = []Vector{
	{"email", "ana@example.com", "ana@example.com", "8e43ca37701228e74983efdbd0cff5c16b3b1e5d4e29a7c05626d4d25a018e11"},
	{
		"email", "  Ana@Example.COM\t", "ana@example.com",
		"8e43ca37701228e74983efdbd0cff5c16b3b1e5d4e29a7c05626d4d25a018e11",
	},
	{
		"email", "ana.maria+news@example.com", "ana.maria+news@example.com",
		"4e27e7cf8c5b10ec6f863fc5adce00b1dac91c6b6d78e7f1864352936a085bbc",
	},
	{
		"email", "JÜRGEN@example.com", "jürgen@example.com",
		"3d2a5310682ac922a4ba3ffac29753c038ecc44ac4c45c7a3b05ac5e155dd036",
	},
	{"ip", "192.0.2.1", "192.0.2.1", "37fcff24bf62035b2b08020afc08b4fecd4fcffce57ab23518e3561ff0fe76b9"},
	{"ip", " 198.51.100.23\n", "198.51.100.23", "bfeb4c6192985efa05e7fa0740ac45708a515e569e7edaec7fc060ff72b44a0c"},
	{"ip", "::ffff:203.0.113.7", "203.0.113.7", "fec52565aa0cf18f57d7cf5b3ac728503b8992d2d6f7d46da1d1201090902b02"},
}
