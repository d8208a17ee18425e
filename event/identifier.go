package event

import (
	"strings"

	"sluice/event/internal/pii"
)

// identifierKind says which member of identifiers a value came in.
type identifierKind uint8

const (
	kindEmail   identifierKind = iota // email_sha256
	kindIFA                           // ifa
	kindIP                            // ip
	kindPartner                       // partner_id
)

// partnerIDWarnLength is the longest partner_id the specification recommends, in characters.
const partnerIDWarnLength = 512

// checkIdentifier judges one identifier; value is the unescaped string. An empty code accepts it: out is what
// to store, "" if the value counts as absent, and warn a warning code or "". Otherwise code, message and hint
// reject it; they are constants and never hold a part of the value.
//
// The order is the contract's: allowed shapes first, so that no detector reads personal data into the digits
// of a hash or a UUID; then junk; then plaintext in the value or a decoded view of it; then the shape again.
//
// Hashes in email_sha256 and ip leave in lower case, and so does an ifa that is a UUID or a hash: operating systems
// spell the id of one device in capitals or not, and none of that is a mistake of the sender.
func checkIdentifier(kind identifierKind, value string) (out string, warn, code Code, message, hint string) {
	opaque := kind == kindIFA || kind == kindPartner
	var r *fault
	if bits := digitsOf(value); bits.Valid() && (opaque || len(value) == 64) {
		out, warn, r = acceptDigits(kind, value, bits)
	} else if isBlank(value) {
		return "", "", "", "", ""
	} else if opaque {
		out, warn, r = checkOpaque(kind, value)
	} else if hexPairs(value) {
		r = &faultHashPairs
	} else if r = inspect(kind, value, true); r == nil {
		r = describeHash(value)
	}
	if r != nil {
		return "", "", r.code, r.message, r.hint
	}
	return out, warn, "", "", ""
}

// acceptDigits judges a UUID or a hash: it is accepted unless it is worthless, or spells an address.
func acceptDigits(kind identifierKind, value string, bits pii.Digits) (string, Code, *fault) {
	folded := value
	if kind != kindPartner {
		folded = lowered(value, bits)
	}
	switch {
	case kind == kindIFA && (bits.Zero() || folded == onesUUID || folded == onesHex):
		return "", IFAZeroed, nil
	case kind == kindPartner && bits.Zero():
		return "", JunkHash, nil
	case bits.Zero():
		return "", "", &faultZeroHash
	case len(value) == uuidLength:
	case pii.SpellsEmail(value):
		return "", "", findingFaults[kind][pii.Email]
	case pii.Junk(lowered(folded, bits)):
		return "", JunkHash, nil
	}
	if bits.Upper() && (kind == kindEmail || kind == kindIP) {
		return folded, HashCaseNormalized, nil
	}
	return folded, "", nil
}

// checkOpaque judges an ifa or a partner_id that is neither a UUID nor a hash: a token of an unknown platform.
func checkOpaque(kind identifierKind, value string) (string, Code, *fault) {
	if kind == kindIFA && hexPairs(value) && value[2] == ':' {
		return "", "", &faultIFAPairs
	}
	visible := visibleASCII(value)
	if r := inspect(kind, value, kind == kindIFA || !visible); r != nil {
		return "", "", r
	}
	switch {
	case kind == kindIFA:
		return value, IFANonstandard, describeIFA(value)
	case !visible:
		return "", "", &faultPartnerByte
	case len(value) > partnerIDWarnLength:
		return value, PartnerIDLong, nil
	}
	return value, "", nil
}

// uuidLength is the length of a UUID, with its hyphens.
const uuidLength = 36

// The id of all ones, which some systems have for a person who switched it off, as zeros are elsewhere.
const (
	onesUUID = "ffffffff-ffff-ffff-ffff-ffffffffffff"
	onesHex  = "ffffffffffffffffffffffffffffffff"
)

// digitsOf describes the digits of a UUID, or of a hash of 32, 40 or 64 digits. Any other text is not valid.
func digitsOf(value string) pii.Digits {
	switch len(value) {
	case 32, 40, 64:
		return pii.Hex(value)
	}
	return pii.UUID(value)
}

// lowered is a value of hexadecimal digits in lower case.
func lowered(value string, bits pii.Digits) string {
	if bits.Upper() {
		return strings.ToLower(value)
	}
	return value
}

// FoldIFA is the one spelling of an advertising id under which two are compared: UUIDs and hashes in lower case, any
// other token as it is. Rows that earlier builds stored have the case that was sent.
func FoldIFA(ifa string) string {
	if bits := digitsOf(ifa); bits.Valid() {
		return lowered(ifa, bits)
	}
	return ifa
}

func visibleASCII(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] <= ' ' || s[i] >= 0x7f {
			return false
		}
	}
	return true
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
func isDigit(c byte) bool  { return c >= '0' && c <= '9' }

// hexPairs says whether value is a digest written in pairs of hexadecimal digits with colons or hyphens between them.
// It needs as many pairs as MD5 has bytes: fewer can be a MAC address.
func hexPairs(value string) bool {
	const least = 16 * 3
	if len(value) < least-1 || len(value)%3 != 2 || value[2] != ':' && value[2] != '-' {
		return false
	}
	for i := 0; i < len(value); i++ {
		if i%3 == 2 && value[i] != value[2] || i%3 != 2 && !pii.IsHex(value[i]) {
			return false
		}
	}
	return true
}
