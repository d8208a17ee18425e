package pii

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// class says which signs are in a text and how many of some, so that one comparison rules out most detectors.
type class struct {
	flags  uint16
	counts uint64 // four counts of 16 bits each, which maxSearched cannot overflow
}

// The signs that have a flag.
const (
	hasAt         = 1 << iota // @
	hasPlus                   // +
	hasParen                  // (
	hasBracket                // [
	hasBrace                  // { <
	hasUnderscore             // _
	hasEscape                 // % & \
	hasSigil                  // $ # * | ~
	hasEquals                 // =
	hasSpace                  // white space and control characters
	hasForeign                // beyond ASCII

	hasEncoding = hasEscape | hasForeign | hasBracket | hasParen                            // what decodeText may change
	hasMacro    = hasEscape | hasForeign | hasBracket | hasBrace | hasSigil | hasUnderscore // what macros consist of
	// what can delimit the word "at"
	hasLimits = hasUnderscore | hasParen | hasBracket | hasBrace | hasSigil | hasSpace
)

// The bit offsets of the counts.
const (
	shiftDigits  = 0
	shiftDots    = 16
	shiftColons  = 32
	shiftHyphens = 48
)

func (c class) has(flags uint16) bool { return c.flags&flags != 0 }
func (c class) digits() int           { return int(c.counts >> shiftDigits & 0xffff) }
func (c class) dots() int             { return int(c.counts >> shiftDots & 0xffff) }
func (c class) colons() int           { return int(c.counts >> shiftColons & 0xffff) }
func (c class) hyphens() int          { return int(c.counts >> shiftHyphens) }

var signs = func() (t [256]class) {
	for i := range t {
		if i <= ' ' || i == 0x7f {
			t[i].flags = hasSpace
		}
		if i >= 0x80 {
			t[i].flags = hasForeign
		}
		if i >= '0' && i <= '9' {
			t[i].counts = 1 << shiftDigits
		}
	}
	for flag, signs := range map[uint16]string{
		hasAt: "@", hasPlus: "+", hasParen: "(", hasBracket: "[", hasBrace: "{<", hasUnderscore: "_", hasEscape: "%&\\",
		hasSigil: "$#*|~", hasEquals: "=",
	} {
		for _, c := range []byte(signs) {
			t[c].flags = flag
		}
	}
	t['.'].counts, t[':'].counts, t['-'].counts = 1<<shiftDots, 1<<shiftColons, 1<<shiftHyphens
	return t
}()

func classify(s string) (c class) {
	for i := 0; i < len(s); i++ {
		sign := &signs[s[i]]
		c.flags |= sign.flags
		c.counts += sign.counts
	}
	return c
}

// maxSearched bounds the bytes of one identifier that all detectors search. It is twice what any identifier may hold: a
// longer value is rejected for its shape or its length, whatever it holds. The rest is searched for e-mail addresses.
const maxSearched = 4096

// Inspect returns what is wrong with an identifier that has no allowed hash or UUID shape: personal data in the value
// or in a decoded view of it, an unexpanded macro, or a placeholder. loose accepts weaker evidence. It is for values
// that are rejected in any case: it only makes the answer more exact. opaque is for values that may be accepted as an
// opaque id: these are decoded as base32 too.
func Inspect(value string, loose, opaque bool) Finding {
	if len(value) > maxSearched {
		if HoldsEmail(value) {
			return Email
		}
		value = value[:maxSearched]
	}
	c := classify(value)
	if f := findPlaintext(value, c, maxDepth, loose); f != Nothing {
		return f
	}
	if loose && c.digits() == len(value) {
		if f := bareNumber(value); f != Nothing {
			return f
		}
	}
	if c.has(hasEquals) && quotedAt(value) {
		return Email
	}
	if c.has(hasUnderscore) && joinedName(value) {
		return Name
	}
	if opaque && len(value) >= minBase32 {
		if f := scanBase32(value, loose); f != Nothing {
			return f
		}
	}
	if c.has(hasMacro) && holdsMacro(value) {
		return Macro
	}
	if c.has(hasAt) {
		return Email
	}
	if c.has(hasEscape | hasForeign) {
		decoded := decodeText(value)
		if holdsMacro(decoded) {
			return Macro
		}
		if strings.IndexByte(decoded, '@') >= 0 {
			return Email
		}
	}
	if placeholder(value, c) {
		return Placeholder
	}
	return Nothing
}

// findPlaintext searches a text and every decoded view of it for personal data. depth is how deep base64 and hex are
// looked into; a text that came out of them has less than maxDepth.
func findPlaintext(s string, c class, depth int, loose bool) Finding {
	outer := depth == maxDepth
	for range maxRounds {
		if f := scanSigns(s, c, loose); f != Nothing {
			return f
		}
		if c.has(hasSpace) && (outer && personalName(s) || !outer && decodedName(s)) {
			return Name
		}
		if f := scanTokens(s, depth, loose); f != Nothing {
			return f
		}
		if !outer && c.has(hasBrace) && holdsClaim(s) {
			return Name
		}
		if !c.has(hasEncoding) {
			return Nothing
		}
		decoded := decodeText(s)
		if decoded == s {
			return Nothing
		}
		s, c = decoded, classify(decoded)
	}
	return Nothing
}

// scanSigns runs the detectors that depend on signs and digits.
func scanSigns(s string, c class, loose bool) Finding {
	if c.has(hasAt) && findEmail(s) || (c.has(hasLimits) || c.hyphens() > 1) && findSpelledAt(s) {
		return Email
	}
	if c.dots() >= 3 && c.digits() >= 4 && (findIPv4(s, loose) || findNumericIPv4(s)) || c.hyphens() >= 3 &&
		c.digits() >= 4 && findDashedIPv4(s, loose) {
		return IPv4
	}
	if (c.colons() >= 5 || c.hyphens() >= 5 || c.dots() >= 2) && len(s) >= 14 && findMAC(s) {
		return MAC
	}
	if c.colons() >= 2 && findIPv6(s, loose) {
		return IPv6
	}
	if c.colons() > 0 && c.digits() >= 7 && findDialled(s) {
		return Phone
	}
	if c.digits() >= 7 && (c.has(hasPlus|hasParen|hasSpace) || c.hyphens() > 0 || c.dots() > 0) {
		if f := findNumber(s, loose); f != Nothing {
			return f
		}
	}
	return Nothing
}

// personalName says whether s is two to five words of letters, each with a capital: the look of a name. Initials
// count, but two words have to be longer.
func personalName(s string) bool {
	words, long := 0, 0
	for word := range strings.FieldsSeq(s) {
		word = strings.Trim(word, ",.;\"'()")
		r, n := utf8.DecodeRuneInString(word)
		if !unicode.IsUpper(r) {
			return false
		}
		letters := 1
		for _, r := range word[n:] {
			switch {
			case unicode.IsLetter(r):
				letters++
			case !unicode.IsMark(r) && r != '-' && r != '\'' && r != '.' && r != '’':
				return false
			}
		}
		if words++; letters > 1 {
			long++
		}
	}
	return words <= 5 && long >= 2 && !placeholder(s, classify(s))
}

// decodedName is personalName for decoded bytes, in which two capitals and a space can be chance: every word needs
// two small letters after its capital, all of them ASCII.
func decodedName(s string) bool {
	for word := range strings.FieldsSeq(s) {
		if len(word) < 3 || !isLower(word[1]) || !isLower(word[2]) {
			return false
		}
	}
	return len(s) >= 8 && isLetter(s[0]) && printable(s) && personalName(s)
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
func isDigit(c byte) bool  { return c >= '0' && c <= '9' }
func isLower(c byte) bool  { return c >= 'a' && c <= 'z' }
func isWord(c byte) bool   { return words[c] }

// words are the letters and digits. In random ids a table is much faster than comparisons.
var words = func() (t [256]bool) {
	for i := range t {
		t[i] = isLetter(byte(i)) || isDigit(byte(i))
	}
	return t
}()

func allDigits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// set is a set of words. Where has is asked, they are in lower case and of eight letters at most.
type set map[string]bool

func setOf(words string) set {
	s := set{}
	for word := range strings.FieldsSeq(words) {
		s[word] = true
	}
	return s
}

// has says whether a word, in any case, is in the set.
func (s set) has(word string) bool {
	var buf [8]byte // no word is longer
	return len(word) <= len(buf) && s[string(lowerASCII(buf[:0], word))]
}

// lowerASCII appends s to b with its ASCII letters in lower case.
func lowerASCII(b []byte, s string) []byte {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		b = append(b, c)
	}
	return b
}
