// Package identifier names the identifiers of people that operators erase, export and suppress: their kinds, their
// spelling, and files of them.
package identifier

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"sluice/event"
)

// Kind is the kind of an identifier, spelled as its column.
type Kind string

// The kinds.
const (
	Email   Kind = "email_sha256"
	IFA     Kind = "ifa"
	IP      Kind = "ip_sha256"
	Partner Kind = "partner_id"
)

// Kinds are all kinds.
var Kinds = []Kind{Email, IFA, IP, Partner}

// Name is how events, files and operators spell the kind.
func (k Kind) Name() string {
	if k == IP {
		return "ip"
	}
	return string(k)
}

// Of returns the identifier of a row; "" for none.
func (k Kind) Of(r *event.Row) string {
	switch k {
	case Email:
		return r.EmailSHA256
	case IFA:
		return r.IFA
	case IP:
		return r.IPSHA256
	case Partner:
		return r.PartnerID
	}
	return ""
}

// Fold is the one spelling under which identifiers of the kind are compared.
func (k Kind) Fold(value string) string {
	switch k {
	case Email, IP:
		return strings.ToLower(value)
	case IFA:
		return event.FoldIFA(value)
	}
	return value
}

// ID is an identifier as Parse spells it. The zero value is none.
type ID struct {
	Kind  Kind
	Value string
}

// In says whether a row carries the identifier.
func (id ID) In(r *event.Row) bool {
	has := id.Kind.Of(r)
	return has != "" && id.Kind.Fold(has) == id.Value
}

// ErrPartner says that partner ids are of one dataset: another sender may give the same id to somebody else.
var ErrPartner = errors.New("a partner_id means something in one dataset only: name it with --dataset")

// maxLength is how long an identifier may be: as long as a partner_id.
const maxLength = 2048

// Parse is Fold for what an operator wrote. Its errors never hold the value.
func (k Kind) Parse(value string) (string, error) {
	value = strings.TrimSpace(value)
	switch {
	case value == "":
		return "", errors.New("the identifier is empty")
	case len(value) > maxLength:
		return "", fmt.Errorf("the %s is longer than %d bytes", k.Name(), maxLength)
	case (k == Email || k == IP) && !isSHA256(value):
		return "", fmt.Errorf("the %s is named by its SHA-256: 64 hex digits", k.Name())
	case k == IFA && strings.ContainsFunc(value, notOfToken):
		return "", errors.New("no event has such an ifa: it is letters, digits, dots, dashes and _ alone")
	case k == Partner && strings.ContainsFunc(value, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "", errors.New("no event has such a partner_id: it is printable ASCII without spaces")
	}
	return k.Fold(value), nil
}

func notOfToken(r rune) bool {
	return (r|0x20 < 'a' || r|0x20 > 'z') && (r < '0' || r > '9') && r != '.' && r != '_' && r != '-'
}

func isSHA256(s string) bool {
	sum, err := hex.DecodeString(s)
	return err == nil && len(sum) == sha256.Size
}
