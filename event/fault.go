package event

import (
	"slices"
	"strings"

	"sluice/event/internal/pii"
)

// fault is why an identifier is rejected. All faults are constants: none can hold a value.
type fault struct {
	code          Code
	message, hint string
}

var findingMessages = [pii.Findings]string{
	pii.Email: "A plaintext e-mail address was found.",
	pii.IPv4:  "A plaintext IPv4 address was found.",
	pii.IPv6:  "A plaintext IPv6 address was found.",
	pii.MAC:   "A plaintext MAC address was found.",
	pii.Phone: "A plaintext phone number was found.",
	pii.SSN:   "A plaintext social security number was found.",
	pii.Card:  "A plaintext card number was found.",
	pii.Name:  "A plaintext personal name was found.",
}

var kindHints = [...]string{
	kindEmail:   "Send the lowercase hex SHA-256 of the trimmed, lowercased address.",
	kindIFA:     "Send the advertising id as the device gives it, or leave the field out.",
	kindIP:      "Send the lowercase hex SHA-256 of the IPv4 address in dotted decimal form.",
	kindPartner: "Send an opaque or hashed id that holds no personal data, or leave the field out.",
}

// findingFaults are the faults that detectors find, by identifier and finding.
var findingFaults = func() (t [len(kindHints)][pii.Findings]*fault) {
	for k := range t {
		for f, message := range findingMessages {
			t[k][f] = &fault{PlaintextPII, message, kindHints[k]}
		}
		t[k][pii.Nothing] = nil
		t[k][pii.Macro] = &faultMacro
		t[k][pii.Placeholder] = &faultPlaceholder
	}
	t[kindIP][pii.IPv6] = &fault{
		PlaintextPII, findingMessages[pii.IPv6],
		"Only IPv4 addresses are taken, as their SHA-256: leave ip out for IPv6, hashed or not, and send email_sha256 " +
			"or ifa.",
	}
	return t
}()

// inspect searches an identifier for personal data, macros and placeholders. It returns nil if it finds none.
func inspect(kind identifierKind, value string, loose bool) *fault {
	return findingFaults[kind][pii.Inspect(value, loose, kind == kindIFA || kind == kindPartner)]
}

const (
	hintHash = "Send exactly 64 lowercase hex digits, the SHA-256 of the normalised value, and nothing else."
	hintOmit = "Leave the field out when there is no value."
	hintUUID = "Send the UUID alone, 8-4-4-4-12 hex digits, or leave the field out."
)

// The faults of what is no identifier of its kind.
var (
	faultZeroHash = invalid("The hash is all zeros. No value has this digest.", hintOmit)
	faultMacro    = invalid("The value is a template macro that was never expanded.",
		"Have the macro expanded before sending, and leave the field out when it has no value.")
	faultPlaceholder = invalid("The value is a placeholder, not an identifier.", hintOmit)
	faultHash        = invalid("The value is not a SHA-256 hash.", hintHash)
	faultMD5         = invalid("The value looks like an MD5 hash (32 hex digits), not SHA-256.", hintHash)
	faultSHA1        = invalid("The value looks like a SHA-1 hash (40 hex digits), not SHA-256.", hintHash)
	faultSHA224      = invalid("The value looks like a SHA-224 hash (56 hex digits), not SHA-256.", hintHash)
	faultSHA384      = invalid("The value looks like a SHA-384 hash (96 hex digits), not SHA-256.", hintHash)
	faultSHA512      = invalid("The value looks like a SHA-512 hash (128 hex digits), not SHA-256.", hintHash)
	faultShortHash   = invalid("The value has fewer than 64 hex digits: a truncated hash.", hintHash)
	faultLongHash    = invalid("The value has more than 64 hex digits.", hintHash)
	faultHashLetter  = invalid("The value has the length of a SHA-256 hash but holds characters that are not hex digits.",
		hintHash)
	faultHashPrefix = invalid("The hash carries a prefix such as sha256: or 0x.", hintHash)
	faultHashQuote  = invalid("The hash is wrapped in quotes or brackets.", hintHash)
	faultHashSpace  = invalid("The hash has white space or other text around it.", hintHash)
	faultHashHidden = invalid("The hash holds characters that are invisible or not ASCII.", hintHash)
	faultHashList   = invalid("The value holds more than one hash.", hintHash)
	faultHashPairs  = invalid("The hash has colons or hyphens between its digits.", hintHash)
	faultBase64     = invalid("The value looks like a digest in base64, not in hex.", hintHash)
	faultHashUUID   = invalid("The value is a UUID, not a SHA-256 hash.", hintHash)
	faultPassword   = invalid("The value looks like a password hash (bcrypt, argon2, scrypt or the like), which differs "+
		"at every run.", hintHash)
	faultHashSpaces = invalid("The value holds white space: it is not a SHA-256 hash.", hintHash)
	faultIFA        = invalid("The value is neither a UUID, nor a hash of 32, 40 or 64 hex digits, nor an opaque token "+
		"of 8 to 128 letters, digits, dots, hyphens and underscores with a letter and a digit among them.",
		kindHints[kindIFA])
	faultIFADamaged = invalid("The value looks like a damaged UUID.", hintUUID)
	faultIFAWrapped = invalid("The UUID has a prefix, brackets or other text around it.", hintUUID)
	faultIFAPairs   = invalid("The value is a hash with colons between its digits.",
		"Send the hexadecimal digits alone, or leave the field out.")
	faultIFASpace    = invalid("The value holds white space or characters that are not ASCII.", kindHints[kindIFA])
	faultPartnerByte = invalid("The value holds white space, control characters or characters that are not ASCII.",
		"Send printable ASCII without spaces, or leave the field out.")
)

func invalid(message, hint string) fault { return fault{InvalidIdentifier, message, hint} }

// describeHash says what a value that is no SHA-256 in hex looks like instead.
func describeHash(value string) *fault {
	if r := describeDigits(value); r != nil {
		return r
	}
	trimmed := strings.TrimSpace(value)
	switch {
	case trimmed != value && isHash(trimmed):
		return &faultHashSpace
	case countHashes(value) > 1:
		return &faultHashList
	case len(value) == 36 && pii.UUID(value).Valid():
		return &faultHashUUID
	case passwordHash(value):
		return &faultPassword
	case !printableASCII(value):
		return &faultHashHidden
	case len(value) > 2 && isHash(value[1:len(value)-1]):
		return &faultHashQuote
	case hasHashPrefix(value):
		return &faultHashPrefix
	case base64Digest(value):
		return &faultBase64
	case strings.ContainsAny(value, " \t\r\n"):
		if countHashes(value) == 1 {
			return &faultHashSpace
		}
		return &faultHashSpaces
	case len(value) == 64:
		return &faultHashLetter
	}
	return &faultHash
}

// describeDigits names the algorithm by the number of hex digits, nil if there is anything else in the value.
func describeDigits(value string) *fault {
	if !pii.Hex(value).Valid() {
		return nil
	}
	switch n := len(value); {
	case digestFaults[n] != nil:
		return digestFaults[n]
	case n > 64:
		return &faultLongHash
	case n > 40:
		return &faultShortHash
	}
	return &faultHash
}

// digestFaults are those of other algorithms, by the number of hex digits.
var digestFaults = map[int]*fault{
	32: &faultMD5, 40: &faultSHA1, 56: &faultSHA224, 96: &faultSHA384, 128: &faultSHA512,
}

// describeIFA is nil for an opaque token that may stand for an advertising id.
func describeIFA(value string) *fault {
	if !visibleASCII(value) {
		return &faultIFASpace
	}
	if containsUUID(value) {
		return &faultIFAWrapped
	}
	if damagedUUID(value) {
		return &faultIFADamaged
	}
	if len(value) < 8 || len(value) > 128 {
		return &faultIFA
	}
	var letter, digit bool
	for i := 0; i < len(value); i++ {
		switch c := value[i]; {
		case isLetter(c):
			letter = true
		case isDigit(c):
			digit = true
		case c != '.' && c != '_' && c != '-':
			return &faultIFA
		}
	}
	if !letter || !digit {
		return &faultIFA
	}
	return nil
}

// damagedUUID says whether value was a UUID before something happened to it: a digit lost, added or
// mistyped, a group lost, a hyphen lost, moved or written otherwise.
func damagedUUID(value string) bool {
	if len(value) < 20 || len(value) > 44 {
		return false
	}
	var digits, foreign, groups, length int
	var lengths [6]int
	for i := 0; i <= len(value); i++ {
		if i == len(value) || value[i] == '-' || value[i] == '_' || value[i] == '.' {
			if groups == len(lengths) {
				return false
			}
			lengths[groups] = length
			groups, length = groups+1, 0
			continue
		}
		length++
		if pii.IsHex(value[i]) {
			digits++
		} else {
			foreign++
		}
	}
	if groups < 2 || foreign > 2 {
		return false
	}
	if digits+foreign == 32 {
		return true
	}
	// Otherwise the groups have to be those of a UUID, each within a digit or two; the last may be cut off.
	near := func(i, want int) bool { return lengths[i] >= want-1 && lengths[i] <= want+1 }
	if !near(0, 8) || !near(1, 4) || groups < 4 || groups > 5 || !near(2, 4) {
		return false
	}
	return groups == 4 || near(3, 4) && lengths[4] <= 14
}

// containsUUID says whether a UUID is anywhere in value.
func containsUUID(value string) bool {
	for i := 0; i+36 <= len(value); i++ {
		if value[i+8] == '-' && pii.UUID(value[i:i+36]).Valid() {
			return true
		}
	}
	return false
}

func isHash(s string) bool { return len(s) == 64 && pii.Hex(s).Valid() }

// countHashes counts the runs of exactly 64 hex digits.
func countHashes(s string) (n int) {
	foreign := func(r rune) bool { return r > '~' || !pii.IsHex(byte(r)) }
	for run := range strings.FieldsFuncSeq(s, foreign) {
		if len(run) == 64 {
			n++
		}
	}
	return n
}

// hasHashPrefix says whether value ends in a hash with a short label before it, such as sha256:, sha256= or 0x.
func hasHashPrefix(value string) bool {
	n := len(value) - 64
	return n > 0 && n <= 16 && isHash(value[n:])
}

// passwordPrefixes are what hashes of passwords begin with.
var passwordPrefixes = strings.Fields("$2a$ $2b$ $2y$ $2x$ $argon2 $scrypt $pbkdf2 pbkdf2 $1$ $5$ $6$ $y$")

func passwordHash(value string) bool {
	return slices.ContainsFunc(passwordPrefixes, func(p string) bool { return strings.HasPrefix(value, p) })
}

// base64Digest says whether value has the length and letters of a 16, 20, 32 or 64-byte digest in base64.
func base64Digest(value string) bool {
	s := strings.TrimRight(value, "=")
	if len(value)-len(s) > 2 {
		return false
	}
	switch len(s) {
	case 22, 27, 43, 86:
		return !strings.ContainsFunc(s, func(r rune) bool { return r > '~' || !pii.IsBase64(byte(r)) })
	}
	return false
}

func printableASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' && !strings.ContainsRune("\n\r\t", r) || r > '~' })
}
