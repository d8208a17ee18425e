package event

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// class counts what the detectors look for, so that most values pass most of them by one comparison.
type class struct {
	digits, dots, colons, hyphens                      int
	at, plus, paren, bracket, brace, space, underscore bool
	escape                                             bool // % & or \
	foreign                                            bool // beyond ASCII
}

func classify(s string) (c class) {
	for i := 0; i < len(s); i++ {
		switch b := s[i]; {
		case b >= '0' && b <= '9':
			c.digits++
		case b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z':
		case b == '-':
			c.hyphens++
		case b == '.':
			c.dots++
		case b == '_':
			c.underscore = true
		case b == ':':
			c.colons++
		case b == '@':
			c.at = true
		case b == '%' || b == '&' || b == '\\':
			c.escape = true
		case b == '+':
			c.plus = true
		case b == '(':
			c.paren = true
		case b == '[':
			c.bracket = true
		case b == '{' || b == '<':
			c.brace = true
		case b <= ' ':
			c.space = true
		case b >= 0x80:
			c.foreign = true
		}
	}
	return c
}

// encoded says whether decodeText could make anything else of the text.
func (c *class) encoded() bool { return c.escape || c.foreign || c.bracket || c.paren }

// findPlaintext looks for personal data in an identifier and in every decoded view of it. loose accepts
// weaker evidence; it is for values that are refused whatever is found.
func findPlaintext(value string, c class, loose bool) finding {
	for range maxRounds {
		if f := scanText(value, &c, loose); f != foundNothing {
			return f
		}
		if f := scanTokens(value, maxDepth, loose); f != foundNothing {
			return f
		}
		if !c.encoded() {
			return foundNothing
		}
		decoded := decodeText(value)
		if decoded == value {
			return foundNothing
		}
		value, c = decoded, classify(decoded)
	}
	return foundNothing
}

// scanText runs the detectors over one view.
func scanText(s string, c *class, loose bool) finding {
	if c.at && findEmail(s) || (c.underscore || c.hyphens > 1 || c.paren || c.bracket || c.brace || c.space) && findSpelledAt(s) {
		return foundEmail
	}
	if c.dots >= 3 && c.digits >= 4 && findIPv4(s, loose) {
		return foundIPv4
	}
	if (c.colons >= 5 || c.hyphens >= 5 || c.dots >= 2) && len(s) >= 14 && findMAC(s) {
		return foundMAC
	}
	if c.colons >= 2 && findIPv6(s, loose) {
		return foundIPv6
	}
	if c.digits >= 7 && (c.plus || c.paren || c.space || c.hyphens > 0 || c.dots > 0) {
		if f := findNumber(s, loose); f != foundNothing {
			return f
		}
	}
	if c.space && personalName(s) {
		return foundName
	}
	return foundNothing
}

// personalName says whether s is two to five words of letters, each with a capital: the look of a name.
func personalName(s string) bool {
	words := 0
	for word := range strings.FieldsSeq(s) {
		word = strings.Trim(word, ",.;\"'()")
		r, n := utf8.DecodeRuneInString(word)
		if !unicode.IsUpper(r) {
			return false
		}
		for _, r := range word[n:] {
			if !unicode.IsLetter(r) && !unicode.IsMark(r) && r != '-' && r != '\'' && r != '.' && r != '’' {
				return false
			}
		}
		words++
	}
	return words >= 2 && words <= 5 && !placeholder(s)
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
func isDigit(c byte) bool  { return c >= '0' && c <= '9' }
func isWord(c byte) bool   { return isLetter(c) || isDigit(c) }

func allDigits(s string) bool {
	for i := 0; i < len(s); i++ {
		if !isDigit(s[i]) {
			return false
		}
	}
	return s != ""
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
