package pii

import (
	"bytes"
	"encoding/hex"
	"strings"
	"unicode/utf8"
)

// maxDepth is how deep base64 or hex inside base64 or hex is looked into.
const maxDepth = 2

// base64Bad marks a byte that is in neither base64 alphabet.
const base64Bad = 0xff

// base64Value maps a byte to its value in the standard or the URL alphabet; no text mixes them.
var base64Value = func() (t [256]uint8) {
	for i := range t {
		t[i] = base64Bad
	}
	for i, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/") {
		t[c] = uint8(i)
	}
	t['-'], t['_'] = 62, 63
	return t
}()

// IsBase64 reports whether c belongs to the standard or the URL alphabet of base64.
func IsBase64(c byte) bool { return base64Value[c] != base64Bad }

// minToken is the shortest run that is decoded: base64 of seven bytes, the shortest IPv4 address. The few addresses of
// six bytes (a@b.co) are left out, because short ids would raise false alarms.
const minToken = 10

// minHex is the same for hex. The longest group of a UUID has twelve digits.
const minHex = 14

// scanTokens decodes every run of letters and digits in s as hex and as base64 and looks for personal data in
// what comes out, if that is text. The parts of a JWT are such runs.
func scanTokens(s string, depth int, loose bool) Finding {
	for i := 0; i < len(s); i++ {
		if base64Value[s[i]] == base64Bad {
			continue
		}
		start := i
		plain := true // no - _ + /, at which a prefix may end
		for i < len(s) && base64Value[s[i]] != base64Bad {
			plain = plain && isWord(s[i])
			i++
		}
		if f := scanToken(s[start:i], depth, loose); f != Nothing {
			return f
		}
		if !plain {
			if f := scanWords(s[start:i], depth, loose); f != Nothing {
				return f
			}
		}
	}
	return Nothing
}

// scanWords is scanTokens for the words of a token that has separators in it.
func scanWords(token string, depth int, loose bool) Finding {
	tails := 0
	for i := 0; i < len(token); i++ {
		start := i
		for i < len(token) && isWord(token[i]) {
			i++
		}
		if i == start {
			continue
		}
		if f := scanToken(token[start:i], depth, loose); f != Nothing {
			return f
		}
		// The rest may be base64 with separators of its own after a prefix. Few are tried: the cost must not
		// grow with the square of the length.
		if tails++; start > 0 && i < len(token) && tails <= 4 {
			if f := scanToken(token[start:], depth, loose); f != Nothing {
				return f
			}
		}
	}
	return Nothing
}

func scanToken(token string, depth int, loose bool) Finding {
	if len(token) < minToken || depth == 0 {
		return Nothing
	}
	digits := token
	if token[0] == '0' && token[1]|0x20 == 'x' {
		digits = token[2:]
	}
	if len(digits) >= minHex && hexText(digits) {
		b, _ := hex.DecodeString(digits)
		if f := scanDecoded(b, depth, loose); f != Nothing {
			return f
		}
	}
	if b, ok := base64Text(token); ok {
		return scanDecoded(b, depth, loose)
	}
	return Nothing
}

// hexText says whether s is the hex of a text. The first digits rule out most ids.
func hexText(s string) bool {
	if len(s)%2 != 0 {
		return false
	}
	text := textReader{}
	for i := 0; i < len(s); i += 2 {
		hi, lo := hexValue[s[i]], hexValue[s[i+1]]
		if (hi|lo)&hexBad != 0 || !text.next(hi<<4|lo&hexDigit) {
			return false
		}
	}
	return true
}

// base64Text decodes a run of base64, if the result is text.
func base64Text(run string) ([]byte, bool) {
	if len(run)%4 == 1 {
		return nil, false
	}
	return decodedText(run, &base64Value, 6)
}

// decodedText decodes a run of characters of so many bits each, if the result is text. Most ids are none: their first
// characters say so, and cost no memory.
func decodedText(run string, values *[256]uint8, width uint) (b []byte, ok bool) {
	for _, isText := range [...]bool{false, true} {
		if isText {
			b = make([]byte, 0, len(run)*int(width)/8)
		}
		var v uint32
		var bits uint
		text := textReader{}
		for i := 0; i < len(run); i++ {
			v = v<<(width&7) | uint32(values[run[i]])
			if bits += width; bits < 8 {
				continue
			}
			bits -= 8
			if c := byte(v >> (bits & 7)); isText {
				b = append(b, c)
			} else if !text.next(c) {
				return nil, false
			}
		}
	}
	return b, true
}

// textReader reads bytes one by one as long as they can be text: UTF-8 without control characters, or UTF-16 of
// Latin letters, in which every second byte is 0.
type textReader struct{ more uint8 } // bytes to come of the character

func (t *textReader) next(c byte) bool {
	switch {
	case t.more > 0:
		t.more--
		return c&0xc0 == 0x80
	case c < 0x80:
		return c >= ' ' && c != 0x7f || c == 0 || c == '\n' || c == '\r' || c == '\t'
	case c < 0xc2 || c > 0xf4:
		return false
	case c < 0xe0:
		t.more = 1
	case c < 0xf0:
		t.more = 2
	default:
		t.more = 3
	}
	return true
}

// scanDecoded looks for personal data in decoded bytes. Bytes that are not text are random: they hold no personal data.
func scanDecoded(b []byte, depth int, loose bool) Finding {
	if n := len(b); n >= 6 && n%2 == 0 && b[1] == 0 {
		for i := 0; i < n; i += 2 {
			b[i/2] = b[i]
		}
		b = b[:n/2]
	}
	if !utf8.Valid(b) || bytes.IndexByte(b, 0) >= 0 {
		return Nothing
	}
	s := string(b)
	return findPlaintext(s, classify(s), depth-1, loose)
}

// holdsClaim looks for the members under which tokens and profiles carry a person's name.
func holdsClaim(s string) bool {
	for _, claim := range [...]string{
		"given_name", "family_name", "first_name", "last_name", "firstName", "lastName", "birthdate",
	} {
		if claimValue(s, claim) != "" {
			return true
		}
	}
	return personalName(claimValue(s, "name"))
}

// claimValue is the string under a member name of a JSON text, "" if there is none. It searches and does not parse.
func claimValue(s, claim string) string {
	_, rest, ok := strings.Cut(s, `"`+claim+`"`)
	if !ok {
		return ""
	}
	rest, ok = strings.CutPrefix(strings.TrimLeft(rest, " :"), `"`)
	if !ok {
		return ""
	}
	value, _, _ := strings.Cut(rest, `"`)
	return value
}
