package pii

import (
	"bytes"
	"html"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// maxRounds is how often text is decoded. Each round undoes every kind of escape once, percent signs at any depth;
// four is arbitrary, and one more than anything seen.
const maxRounds = 4

// HoldsEmail reports whether a complete e-mail address is anywhere in s, as it is or behind percent signs, HTML
// entities, \u escapes, compatibility characters or invisible ones. Every spelling of an address needs one of a few
// bytes: an @, a byte beyond ASCII, a percent sign, a backslash, or a semicolon or number sign of an HTML entity.
// HoldsEmail tests for them eight bytes at a time, so text without an address costs little. An address in base64 needs
// a capital letter.
func HoldsEmail(s string) bool {
	if len(s) < 8 {
		for i := 0; i < len(s); i++ {
			if c := s[i]; c == '@' || c == '%' || c == '\\' || c == ';' || c == '#' || c >= 0x80 {
				return searchEmail(s)
			}
		}
		return false
	}
	capital := false
	for i := 0; ; i += 8 {
		// The last eight may overlap the ones before: only whether matters here, not where.
		i = min(i, len(s)-8)
		w := load(s, i)
		if (w|((w^'@'*each)-each)|((w^'%'*each)-each)|((w^'\\'*each)-each)|
			((w^';'*each)-each)|((w^'#'*each)-each))&highs != 0 {
			return searchEmail(s) || base64Email(s)
		}
		capital = capital || upper(w)
		if i == len(s)-8 {
			return capital && base64Email(s)
		}
	}
}

const (
	each  = 0x0101010101010101 // one in each byte
	highs = 0x80 * each
)

// load returns the eight bytes from i on, the first as the lowest. It compiles to one instruction.
func load(s string, i int) uint64 {
	b := s[i : i+8]
	return uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
		uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
}

// searchEmail is HoldsEmail without the quick test. Text that cannot hold an address costs a few scans for single bytes
// and no allocation.
func searchEmail(s string) bool {
	if !suspect(s) {
		return false
	}
	for len(s) > emailWindow {
		if decodesToEmail(s[:emailWindow]) {
			return true
		}
		s = s[emailWindow-emailOverlap:]
	}
	return decodesToEmail(s)
}

// A long text is read in windows, so that a decoded view, which may have many times the bytes, stays small. The
// overlap holds the longest address, 254 characters, with sixteen bytes to each.
const (
	emailWindow  = 32 << 10
	emailOverlap = 4 << 10
)

func decodesToEmail(s string) bool {
	for range maxRounds {
		if findEmail(s) {
			return true
		}
		decoded := decodeText(s)
		if decoded == s {
			return false
		}
		s = decoded
	}
	return false
}

// suspect says whether s holds an @, or an escape that could become one. It may say so wrongly, but must not miss one.
func suspect(s string) bool {
	// NFKC makes an @ of two characters.
	if strings.IndexByte(s, '@') >= 0 ||
		strings.IndexByte(s, 0xEF) >= 0 && (strings.Contains(s, "\uff20") || strings.Contains(s, "\ufe6b")) {
		return true
	}
	percent, ampersand, backslash := strings.IndexByte(s, '%'), strings.IndexByte(s, '&'), strings.IndexByte(s, '\\')
	if percent < 0 && ampersand < 0 && backslash < 0 {
		return false
	}
	// Characters that fold drops could be inside an escape and hide it.
	return percent >= 0 && (backslash >= 0 || suspectPercent(s[percent:])) ||
		ampersand >= 0 && suspectEntity(s[ampersand:]) ||
		backslash >= 0 && suspectBackslash(s[backslash:]) ||
		!printable(s)
}

// suspectPercent looks for the escapes of @, of the characters that begin another escape, and of letters and
// digits, which programs do not escape; and for percent signs that begin no escape. Most URLs have escapes, and hardly
// any has these.
func suspectPercent(s string) bool {
	for {
		n := strings.IndexByte(s, '%')
		if n < 0 {
			return false
		}
		if s = s[n+1:]; len(s) < 2 {
			return false
		}
		hi, lo := hexValue[s[0]], hexValue[s[1]]
		if (hi|lo)&hexBad != 0 {
			return true
		}
		switch c := hi<<4 | lo&hexDigit; {
		case c == '@' || c == '%' || c == '&' || c == '#' || c == '\\' || c == 0xEF || isWord(c):
			return true
		}
	}
}

// suspectEntity looks for an entity. What follows an ampersand in a query is a name and an equals sign.
func suspectEntity(s string) bool {
	for {
		n := strings.IndexByte(s, '&')
		if n < 0 {
			return false
		}
		s = s[n+1:]
		i := 0
		for i < len(s) && isWord(s[i]) {
			i++
		}
		if i < len(s) && (s[i] == ';' || i == 0 && (s[0] == '#' || s[0] == '%')) || strings.HasPrefix(s, "amp") ||
			strings.HasPrefix(s, "shy") {
			return true
		}
	}
}

// suspectBackslash looks for an escape in a text that begins with a backslash.
func suspectBackslash(s string) bool {
	for part := range strings.SplitSeq(s, `\`) {
		if part != "" && strings.IndexByte("uUx&", part[0]) >= 0 {
			return true
		}
	}
	return false
}

// printable says whether s is printable ASCII, eight bytes at a time.
func printable(s string) bool {
	for ; len(s) >= 8; s = s[8:] {
		x := load(s, 0)
		deleted := x ^ each*0x7f
		if (x|(x-each*' ')|(deleted-each)&^deleted)&highs != 0 {
			return false
		}
	}
	for i := 0; i < len(s); i++ {
		if s[i] < ' ' || s[i] >= 0x7f {
			return false
		}
	}
	return true
}

// decodeText undoes one round of every escape that text may carry: percent signs, backslash escapes, HTML
// entities, brackets around dots, compatibility characters and invisible ones. It returns s if there is none.
func decodeText(s string) string {
	if strings.IndexByte(s, '%') >= 0 {
		s = decodePercent(s)
	}
	if strings.IndexByte(s, '\\') >= 0 {
		s = decodeBackslash(s)
	}
	if strings.IndexByte(s, '&') >= 0 {
		s = html.UnescapeString(s)
	}
	if strings.IndexByte(s, '[') >= 0 || strings.IndexByte(s, '(') >= 0 {
		s = armedDots.Replace(s)
	}
	if !printable(s) {
		return fold(s)
	}
	return s
}

// armedDots undoes what people do to addresses so that programs do not recognise them.
var armedDots = strings.NewReplacer("[.]", ".", "(.)", ".", "[dot]", ".", "(dot)", ".", "[:]", ":", "[@]", "@", "(@)",
	"@")

// decodePercent undoes percent escapes to the last: one that appears when another is undone is undone as
// well. %u0040, which some browsers wrote, counts.
func decodePercent(s string) string {
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+5 < len(s) && s[i+1]|0x20 == 'u' {
			if r, ok := hexRune(s[i+2 : i+6]); ok {
				b = utf8.AppendRune(b, r)
				i += 5
				continue
			}
		}
		b = append(b, s[i])
		for n := len(b); n >= 3 && b[n-3] == '%' && (hexValue[b[n-2]]|hexValue[b[n-1]])&hexBad == 0; n = len(b) {
			b[n-3] = hexValue[b[n-2]]<<4 | hexValue[b[n-1]]&hexDigit
			b = b[:n-2]
		}
	}
	return string(b)
}

// decodeBackslash undoes \u0040, \u{40}, \U00000040 and \x40.
func decodeBackslash(s string) string {
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if r, n := backslashRune(s[i+1:]); n > 0 {
				b = utf8.AppendRune(b, r)
				i += n
				continue
			}
		}
		b = append(b, s[i])
	}
	return string(b)
}

func backslashRune(s string) (r rune, n int) {
	digits := 0
	switch s[0] {
	case 'x':
		digits = 2
	case 'u':
		if end := strings.IndexByte(s[:min(len(s), 9)], '}'); s[1] == '{' && end > 2 {
			if r, ok := hexRune(s[2:end]); ok {
				return r, end + 1
			}
			return 0, 0
		}
		digits = 4
	case 'U':
		digits = 8
	}
	if digits == 0 || len(s) <= digits {
		return 0, 0
	}
	if r, ok := hexRune(s[1 : 1+digits]); ok {
		return r, digits + 1
	}
	return 0, 0
}

func hexRune(s string) (r rune, ok bool) {
	n, err := strconv.ParseUint(s, 16, 32)
	return rune(n), err == nil
}

// fold writes text as a reader sees it: compatibility characters as NFKC has them, digits of every script and the
// full stops of East Asia as ASCII, nothing that cannot be seen. Letters with accents stay as they are, and so do
// the few characters that stand for whole phrases: no address hides in them, and they would multiply the text.
func fold(s string) string {
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); {
		if c := s[i]; c < utf8.RuneSelf {
			if c >= ' ' && c != 0x7f || c == '\t' || c == '\n' || c == '\r' {
				b = append(b, c)
			}
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		if d := compatibility(s[i : i+n]); d != nil {
			for _, r := range string(d) {
				b = appendFolded(b, r)
			}
		} else {
			b = appendFolded(b, r)
		}
		i += n
	}
	return string(b)
}

// compatibility is what NFKC makes of a character that it takes for a variant of others, else nil.
func compatibility(char string) []byte {
	const longest = 12 // bytes: four characters of three
	d := norm.NFKC.PropertiesString(char).Decomposition()
	if d == nil || len(d) > longest || bytes.Equal(d, norm.NFC.PropertiesString(char).Decomposition()) {
		return nil
	}
	return d
}

func appendFolded(b []byte, r rune) []byte {
	switch {
	case r < utf8.RuneSelf:
	case r == '。' || r == '․' || r == '٫':
		r = '.'
	case r == '‐' || r == '‑' || r == '‒' || r == '–' || r == '—' || r == '−':
		r = '-'
	case Invisible(r):
		return b
	case unicode.Is(unicode.Nd, r):
		r = decimal(r)
	}
	return utf8.AppendRune(b, r)
}

// Invisible says whether a character cannot be seen: joiners, marks of direction, variation
// selectors, fillers.
func Invisible(r rune) bool {
	switch {
	case unicode.Is(unicode.Cf, r), r >= 0x80 && r < 0xa0, unicode.Is(unicode.Variation_Selector, r):
		return true
	case r == 0x034f || r == 0x115f || r == 0x1160 || r == 0x17b4 || r == 0x17b5 || r == 0x3164 || r == 0xffa0 ||
		r == utf8.RuneError:
		return true
	}
	return false
}

// decimal is the ASCII digit of a decimal digit of any script. Unicode keeps each script's ten together, zero
// first.
func decimal(r rune) rune {
	for _, t := range unicode.Nd.R16 {
		if r <= rune(t.Hi) {
			return '0' + (r-rune(t.Lo))%10
		}
	}
	for _, t := range unicode.Nd.R32 {
		if r <= rune(t.Hi) {
			return '0' + (r-rune(t.Lo))%10
		}
	}
	return r
}
