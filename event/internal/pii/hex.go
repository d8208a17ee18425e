package pii

// Digits describes a string of hexadecimal digits: the OR of what is known about each of its bytes.
type Digits uint8

const (
	hexDigit = 0x0f // OR of all digit values: zero if every digit is 0
	hexUpper = 0x10 // a letter in upper case
	hexBad   = 0x80 // a byte that is not a hexadecimal digit
)

// Valid reports whether there was nothing but hexadecimal digits.
func (d Digits) Valid() bool { return d&hexBad == 0 }

// Upper reports whether a letter is in upper case.
func (d Digits) Upper() bool { return d&hexUpper != 0 }

// Zero reports whether every digit is 0.
func (d Digits) Zero() bool { return d&hexDigit == 0 }

// hexValue maps a byte to its value as a hexadecimal digit and the bits above.
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

// Hex describes s as hexadecimal digits.
func Hex(s string) Digits {
	var bits uint8
	for ; len(s) >= 8; s = s[8:] {
		bits |= hexValue[s[0]] | hexValue[s[1]] | hexValue[s[2]] | hexValue[s[3]] |
			hexValue[s[4]] | hexValue[s[5]] | hexValue[s[6]] | hexValue[s[7]]
	}
	for i := 0; i < len(s); i++ {
		bits |= hexValue[s[i]]
	}
	return Digits(bits)
}

// UUID describes the digits of a UUID. Text that is not in the form 8-4-4-4-12 is not valid.
func UUID(s string) Digits {
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return hexBad
	}
	return Hex(s[:8]) | Hex(s[9:13]) | Hex(s[14:18]) | Hex(s[19:23]) | Hex(s[24:])
}

// IsHex reports whether c is a hexadecimal digit.
func IsHex(c byte) bool { return hexValue[c]&hexBad == 0 }

// maxSpelled is the longest hexadecimal text that SpellsEmail reads: a SHA-256 digest.
const maxSpelled = 64

// SpellsEmail reports whether a string of up to 64 hexadecimal digits is an e-mail address written in hexadecimal. A
// real digest is none: every byte would have to be printable. The first digits rule out most hashes.
func SpellsEmail(hex string) bool {
	if len(hex) > maxSpelled || len(hex)%2 != 0 {
		return false
	}
	for i := 0; i < len(hex); i += 2 {
		if hex[i] < '2' || hex[i] > '7' {
			return false
		}
	}
	var text [maxSpelled / 2]byte
	for i := 0; i < len(hex); i += 2 {
		text[i/2] = hexValue[hex[i]]<<4 | hexValue[hex[i+1]]&hexDigit
	}
	return findEmail(string(text[:len(hex)/2]))
}
