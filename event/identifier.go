package event

import "strings"

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

// maxScanned bounds the bytes of one identifier that are searched for personal data. It is twice what any
// identifier may hold: what is longer is refused for its shape or its length, whatever else it is.
const maxScanned = 4096

// checkIdentifier judges one identifier; value is the unescaped string. An empty code accepts it: out is what
// to store, "" if the value counts as absent, and warn a warning code or "". Otherwise code, message and hint
// refuse it; they are constants and never hold a part of the value.
//
// The order is the contract's: allowed shapes first, so that no detector reads personal data into the digits
// of a hash or a UUID; then junk; then plaintext in the value or a decoded view of it; then the shape again.
//
// Hashes in email_sha256 and ip leave in lower case. An ifa leaves as it came, in any case: a device has one
// spelling of its id, and who compares two has to fold them.
func checkIdentifier(kind identifierKind, value string) (out string, warn, code Code, message, hint string) {
	var r *refusal
	switch kind {
	case kindIFA:
		out, warn, r = checkIFA(value)
	case kindPartner:
		out, warn, r = checkPartnerID(value)
	default:
		out, warn, r = checkHash(kind, value)
	}
	if r != nil {
		return "", "", r.code, r.message, r.hint
	}
	return out, warn, "", "", ""
}

// checkHash judges email_sha256 and ip.
func checkHash(kind identifierKind, value string) (string, Code, *refusal) {
	if len(value) == 64 {
		if bits := hexBits(value); bits&hexBad == 0 {
			return acceptHash(kind, value, bits)
		}
	}
	if isBlank(value) {
		return "", "", nil
	}
	searched := scanned(value)
	if r := refusePlaintext(kind, searched, classify(searched), true); r != nil {
		return "", "", r
	}
	return "", "", describeHash(kind, value)
}

func acceptHash(kind identifierKind, value string, bits uint8) (string, Code, *refusal) {
	if bits&hexDigit == 0 {
		return "", "", &refuseZeroHash
	}
	if spellsEmail(value) {
		return "", "", plaintextRefusal(kind, foundEmail)
	}
	var warn Code
	if bits&hexUpper != 0 {
		value, warn = strings.ToLower(value), HashCaseNormalized
	}
	if junkDigest(value) {
		return "", JunkHash, nil
	}
	return value, warn, nil
}

// checkIFA judges ifa: a UUID, a hash of one, or a token of a platform we do not know.
func checkIFA(value string) (string, Code, *refusal) {
	switch len(value) {
	case 36:
		if bits := uuidBits(value); bits&hexBad == 0 {
			if bits&hexDigit == 0 || allOnes(value) {
				return "", IFAZeroed, nil
			}
			return value, "", nil
		}
	case 32, 40, 64:
		if bits := hexBits(value); bits&hexBad == 0 {
			return acceptIFAHash(value, bits)
		}
	}
	if isBlank(value) {
		return "", "", nil
	}
	searched := scanned(value)
	if r := refusePlaintext(kindIFA, searched, classify(searched), true); r != nil {
		return "", "", r
	}
	if r := describeIFA(value); r != nil {
		return "", "", r
	}
	return value, IFANonstandard, nil
}

func acceptIFAHash(value string, bits uint8) (string, Code, *refusal) {
	if bits&hexDigit == 0 || len(value) == 32 && allOnes(value) {
		return "", IFAZeroed, nil
	}
	if spellsEmail(value) {
		return "", "", plaintextRefusal(kindIFA, foundEmail)
	}
	lower := value
	if bits&hexUpper != 0 {
		lower = strings.ToLower(value)
	}
	if junkDigest(lower) {
		return "", JunkHash, nil
	}
	return value, "", nil
}

// checkPartnerID judges partner_id, which may be anything opaque.
func checkPartnerID(value string) (string, Code, *refusal) {
	var bits uint8 = hexBad
	switch len(value) {
	case 36:
		bits = uuidBits(value)
	case 32, 40, 64:
		bits = hexBits(value)
	}
	if bits&hexBad == 0 {
		return acceptPartnerHash(value, bits)
	}
	if isBlank(value) {
		return "", "", nil
	}
	searched := scanned(value)
	c := classify(searched)
	if r := refusePlaintext(kindPartner, searched, c, !c.visible()); r != nil {
		return "", "", r
	}
	if !c.visible() || len(value) > len(searched) && !visibleASCII(value) {
		return "", "", &refusePartnerByte
	}
	if len(value) > partnerIDWarnLength {
		return value, PartnerIDLong, nil
	}
	return value, "", nil
}

func acceptPartnerHash(value string, bits uint8) (string, Code, *refusal) {
	if bits&hexDigit == 0 {
		return "", JunkHash, nil
	}
	if len(value) == 36 {
		return value, "", nil
	}
	if spellsEmail(value) {
		return "", "", plaintextRefusal(kindPartner, foundEmail)
	}
	lower := value
	if bits&hexUpper != 0 {
		lower = strings.ToLower(value)
	}
	if junkDigest(lower) {
		return "", JunkHash, nil
	}
	return value, "", nil
}

// refusePlaintext refuses a value, not of an allowed hash or UUID shape, that holds personal data, a macro or
// a placeholder. loose is for values that will be refused anyway: it only makes the answer more telling.
func refusePlaintext(kind identifierKind, value string, c class, loose bool) *refusal {
	if f := findPlaintext(value, c, loose); f != foundNothing {
		return plaintextRefusal(kind, f)
	}
	if c.has(hasMacro) && holdsMacro(value) {
		return &refuseMacro
	}
	if c.has(hasAt) {
		return plaintextRefusal(kind, foundEmail)
	}
	if c.has(hasEscape | hasForeign) {
		decoded := decodeText(value)
		if holdsMacro(decoded) {
			return &refuseMacro
		}
		if strings.IndexByte(decoded, '@') >= 0 {
			return plaintextRefusal(kind, foundEmail)
		}
	}
	if placeholder(value, c) {
		return &refusePlaceholder
	}
	return nil
}

// scanned is the part of a value that is searched.
func scanned(value string) string { return value[:min(len(value), maxScanned)] }

// The bits that hexBits and uuidBits gather over all digits.
const (
	hexDigit = 0x0f // or of all values: zero if every digit is 0
	hexUpper = 0x10 // a letter in upper case
	hexBad   = 0x80 // something that is no hex digit
)

// hexValue maps a byte to its value as a hex digit and the bits above.
var hexValue = func() (t [256]uint8) {
	for i := range t {
		t[i] = hexBad
	}
	for i := range 10 {
		t['0'+i] = uint8(i)
	}
	for i := range 6 {
		t['a'+i] = uint8(10 + i)
		t['A'+i] = uint8(10+i) | hexUpper
	}
	return t
}()

func hexBits(s string) (bits uint8) {
	for ; len(s) >= 8; s = s[8:] {
		bits |= hexValue[s[0]] | hexValue[s[1]] | hexValue[s[2]] | hexValue[s[3]] |
			hexValue[s[4]] | hexValue[s[5]] | hexValue[s[6]] | hexValue[s[7]]
	}
	for i := 0; i < len(s); i++ {
		bits |= hexValue[s[i]]
	}
	return bits
}

// uuidBits is hexBits of a string of 36 bytes in the form 8-4-4-4-12.
func uuidBits(s string) uint8 {
	if s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return hexBad
	}
	return hexBits(s[:8]) | hexBits(s[9:13]) | hexBits(s[14:18]) | hexBits(s[19:23]) | hexBits(s[24:])
}

func allOnes(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] != 'f' && s[i] != 'F' && s[i] != '-' {
			return false
		}
	}
	return true
}

// spellsEmail says whether a hash-shaped value is an e-mail address written as hex. No real digest is: every
// byte would have to be printable. Most hashes are cleared by their first digit or two.
func spellsEmail(hex string) bool {
	for i := 0; i < len(hex); i += 2 {
		if hex[i] < '2' || hex[i] > '7' {
			return false
		}
	}
	var text [32]byte
	for i := 0; i < len(hex); i += 2 {
		text[i/2] = hexValue[hex[i]]<<4 | hexValue[hex[i+1]]&hexDigit
	}
	return findEmail(string(text[:len(hex)/2]))
}

func visibleASCII(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] <= ' ' || s[i] >= 0x7f {
			return false
		}
	}
	return true
}
