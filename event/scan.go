package event

import (
	"math/bits"
	"strings"
	"unicode/utf8"
)

// maxLevels is how deep arrays and objects may nest inside one event, the event itself being the first level. The
// array around a batch is not counted: an event that is legal alone is legal in a batch.
const maxLevels = 8

// scanner reads JSON text in one pass, strictly as RFC 8259 has it: valid UTF-8, no lone surrogates, nothing after the
// end. Its methods return false at the first fault, which is kept; nothing may be read after that.
type scanner struct {
	s     string
	i     int    // the next byte
	fault string // why the text is no JSON, "" while it may be
	at    int    // byte offset of the fault

	// arena holds what escapes stand for. It only grows, so the strings cut from it stay as they are.
	arena strings.Builder
}

func (d *scanner) start(s string) {
	d.s, d.i, d.fault, d.at = s, 0, "", 0
	d.arena.Reset()
}

// fail keeps the fault and returns false.
func (d *scanner) fail(at int, why string) bool {
	if at >= len(d.s) {
		at, why = len(d.s), "the text ends too early"
	}
	d.at, d.fault = at, why
	return false
}

// peek is the next byte, or 0 at the end; a zero byte is allowed nowhere, so the two need no telling apart.
func (d *scanner) peek() byte {
	if d.i < len(d.s) {
		return d.s[d.i]
	}
	return 0
}

// space moves over white space and returns the byte after it, as peek does.
func (d *scanner) space() byte {
	for d.i < len(d.s) {
		c := d.s[d.i]
		if c > ' ' || c != ' ' && c != '\n' && c != '\r' && c != '\t' {
			return c
		}
		d.i++
	}
	return 0
}

// step says what a move to the next member or element found.
type step uint8

const (
	broken step = iota // a fault
	end                // the closing brace or bracket
	next               // another one
)

// member moves to the next member of an object and returns its name. The scanner then stands at the value.
func (d *scanner) member(first bool) (name string, _ step) {
	c := d.space()
	if c == '}' {
		d.i++
		return "", end
	}
	if !first {
		if c != ',' {
			d.fail(d.i, "a comma or a closing brace is expected")
			return "", broken
		}
		d.i++
		c = d.space()
	}
	if c != '"' {
		d.fail(d.i, "a member name in double quotes is expected")
		return "", broken
	}
	name, escaped, ok := d.str()
	if !ok {
		return "", broken
	}
	if escaped {
		name = d.unescape(name)
	}
	if d.space() != ':' {
		d.fail(d.i, "a colon is expected")
		return "", broken
	}
	d.i++
	d.space()
	return name, next
}

// element moves to the next element of an array.
func (d *scanner) element(first bool) step {
	c := d.space()
	if c == ']' {
		d.i++
		return end
	}
	if first {
		return next
	}
	if c != ',' {
		d.fail(d.i, "a comma or a closing bracket is expected")
		return broken
	}
	d.i++
	d.space()
	return next
}

// literal reads the word that the scanner stands before.
func (d *scanner) literal(word string) bool {
	if strings.HasPrefix(d.s[d.i:], word) {
		d.i += len(word)
		return true
	}
	for n := 0; n < len(word); n++ {
		if d.i+n >= len(d.s) || d.s[d.i+n] != word[n] {
			return d.fail(d.i+n, "a word that is neither true, false nor null")
		}
	}
	return true
}

// number reads a number and says whether its literal is an integer: neither a fraction nor an exponent.
func (d *scanner) number() (raw string, integer, ok bool) {
	s, start, i := d.s, d.i, d.i
	if i < len(s) && s[i] == '-' {
		i++
	}
	switch {
	case i < len(s) && s[i] == '0':
		i++
	case i < len(s) && s[i] >= '1' && s[i] <= '9':
		i = digits(s, i)
	case i == start:
		return "", false, d.fail(i, "a value is expected")
	default:
		return "", false, d.fail(i, "a digit is expected")
	}
	integer = true
	if i < len(s) && s[i] == '.' {
		integer = false
		from := i + 1
		if i = digits(s, from); i == from {
			return "", false, d.fail(i, "a digit is expected after the decimal point")
		}
	}
	if i < len(s) && s[i]|0x20 == 'e' {
		integer = false
		i++
		if i < len(s) && (s[i] == '+' || s[i] == '-') {
			i++
		}
		from := i
		if i = digits(s, from); i == from {
			return "", false, d.fail(i, "a digit is expected in the exponent")
		}
	}
	d.i = i
	return s[start:i], integer, true
}

func digits(s string, i int) int {
	for i < len(s) && s[i]-'0' <= 9 {
		i++
	}
	return i
}

const (
	each  = 0x0101010101010101 // one in each byte
	highs = 0x80 * each
)

// load is the eight bytes from i on, the first of them lowest. It compiles to one instruction.
func load(s string, i int) uint64 {
	b := s[i : i+8]
	return uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
		uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
}

// special is where, from i on, the first byte stands that is not plain inside a string: a quote, a backslash, a
// control character or the beginning of something beyond ASCII. It looks at eight bytes at a time: the lowest high
// bit that is set marks the first such byte, and only what comes after it may be marked wrongly.
func special(s string, i int) int {
	for ; i+8 <= len(s); i += 8 {
		w := load(s, i)
		m := (w | (w - 0x20*each) | ((w ^ '"'*each) - each) | ((w ^ '\\'*each) - each)) & highs
		if m != 0 {
			return i + bits.TrailingZeros64(m)/8
		}
	}
	for i < len(s) && s[i] >= 0x20 && s[i] < 0x80 && s[i] != '"' && s[i] != '\\' {
		i++
	}
	return i
}

// str reads a string, the scanner standing at its quote. raw is what is between the quotes, as it was written.
func (d *scanner) str() (raw string, escaped, ok bool) {
	s, start := d.s, d.i+1
	for i := start; ; {
		i = special(s, i)
		if i >= len(s) {
			return "", false, d.fail(i, "")
		}
		switch c := s[i]; {
		case c == '"':
			d.i = i + 1
			return s[start:i], escaped, true
		case c == '\\':
			escaped = true
			if i = d.escape(i); i < 0 {
				return "", false, false
			}
		case c < 0x20:
			return "", false, d.fail(i, "a control character inside a string must be escaped")
		default:
			for i < len(s) && s[i] >= utf8.RuneSelf {
				r, size := utf8.DecodeRuneInString(s[i:])
				if r == utf8.RuneError && size == 1 {
					return "", false, d.fail(i, "a byte that is not valid UTF-8")
				}
				i += size
			}
		}
	}
}

// escape checks the escape that begins at i and returns where it ends, or -1. A surrogate must have its other half.
func (d *scanner) escape(i int) int {
	s := d.s
	if i+1 >= len(s) {
		d.fail(len(s), "")
		return -1
	}
	switch s[i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 2
	case 'u':
		r, ok := hex4(s, i+2)
		if !ok {
			return d.badHex(i + 2)
		}
		if r < 0xd800 || r > 0xdfff {
			return i + 6
		}
		if r > 0xdbff {
			d.fail(i, "half of a surrogate pair")
			return -1
		}
		if i+7 >= len(s) {
			d.fail(len(s), "")
			return -1
		}
		if s[i+6] != '\\' || s[i+7] != 'u' {
			d.fail(i, "half of a surrogate pair")
			return -1
		}
		low, ok := hex4(s, i+8)
		if !ok {
			return d.badHex(i + 8)
		}
		if low < 0xdc00 || low > 0xdfff {
			d.fail(i, "half of a surrogate pair")
			return -1
		}
		return i + 12
	}
	d.fail(i+1, "a backslash before a character that needs none")
	return -1
}

func (d *scanner) badHex(i int) int {
	for n := 0; n < 4 && i < len(d.s) && unhex(d.s[i]) >= 0; n++ {
		i++
	}
	d.fail(i, "four hexadecimal digits are expected")
	return -1
}

// unescape is what the escapes of a string that str has read stand for.
func (d *scanner) unescape(raw string) string {
	from := d.arena.Len()
	d.arena.Grow(len(raw))
	for {
		i := strings.IndexByte(raw, '\\')
		if i < 0 {
			d.arena.WriteString(raw)
			return d.arena.String()[from:]
		}
		d.arena.WriteString(raw[:i])
		c := raw[i+1]
		raw = raw[i+2:]
		switch c {
		case 'b':
			d.arena.WriteByte('\b')
		case 'f':
			d.arena.WriteByte('\f')
		case 'n':
			d.arena.WriteByte('\n')
		case 'r':
			d.arena.WriteByte('\r')
		case 't':
			d.arena.WriteByte('\t')
		case 'u':
			r, _ := hex4(raw, 0)
			raw = raw[4:]
			if r >= 0xd800 && r <= 0xdbff {
				low, _ := hex4(raw, 2)
				raw = raw[6:]
				r = (r-0xd800)<<10 | (low - 0xdc00) + 0x10000
			}
			d.arena.WriteRune(r)
		default:
			d.arena.WriteByte(c)
		}
	}
}

// hex4 reads four hexadecimal digits.
func hex4(s string, i int) (r rune, ok bool) {
	if i+4 > len(s) {
		return 0, false
	}
	for _, c := range []byte(s[i : i+4]) {
		v := unhex(c)
		if v < 0 {
			return 0, false
		}
		r = r<<4 | v
	}
	return r, true
}

func unhex(c byte) rune {
	switch {
	case c >= '0' && c <= '9':
		return rune(c - '0')
	case c|0x20 >= 'a' && c|0x20 <= 'f':
		return rune(c|0x20-'a') + 10
	}
	return -1
}
