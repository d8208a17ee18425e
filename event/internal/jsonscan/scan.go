package jsonscan

import (
	"math/bits"
	"strings"
	"unicode/utf8"
)

// MaxLevels is how deep arrays and objects may nest inside one event. The event itself is the first level. The array
// around a batch is not counted: an event that is valid alone is valid in a batch.
const MaxLevels = 8

// Scanner reads JSON text in one pass. Its methods return false at the first fault and set Fault and FaultAt; after
// that, only Start may be called.
type Scanner struct {
	Input   string
	Pos     int    // offset of the next byte
	Fault   string // why the text is not JSON, "" while no fault was found
	FaultAt int    // byte offset of the fault

	// Arena holds unescaped text. It only grows, so the strings that were cut from it stay valid.
	Arena strings.Builder
}

// Start begins a new text. Strings that were returned before stay valid.
func (d *Scanner) Start(s string) {
	d.Input, d.Pos, d.Fault, d.FaultAt = s, 0, "", 0
	d.Arena.Reset()
}

// Fail sets the fault and returns false. A fault at the end of the text always reports that the text is incomplete.
func (d *Scanner) Fail(at int, why string) bool {
	if at >= len(d.Input) {
		at, why = len(d.Input), "the text ends too early"
	}
	d.FaultAt, d.Fault = at, why
	return false
}

// Peek returns the next byte, or 0 at the end. JSON allows a zero byte nowhere, so callers need not tell the two apart.
func (d *Scanner) Peek() byte {
	if d.Pos < len(d.Input) {
		return d.Input[d.Pos]
	}
	return 0
}

// Space skips white space and returns the byte after it, as Peek does.
func (d *Scanner) Space() byte {
	for d.Pos < len(d.Input) {
		c := d.Input[d.Pos]
		if c > ' ' || c != ' ' && c != '\n' && c != '\r' && c != '\t' {
			return c
		}
		d.Pos++
	}
	return 0
}

// Step says what a move to the next member or element found.
type Step uint8

// The results of a step.
const (
	Broken Step = iota // a fault
	End                // the closing brace or bracket
	Next               // another one
)

// Member moves to the next member of an object and returns its unescaped name. Pos is then at the value.
func (d *Scanner) Member(first bool) (name string, _ Step) {
	c := d.Space()
	if c == '}' {
		d.Pos++
		return "", End
	}
	if !first {
		if c != ',' {
			d.Fail(d.Pos, "a comma or a closing brace is expected")
			return "", Broken
		}
		d.Pos++
		c = d.Space()
	}
	if c != '"' {
		d.Fail(d.Pos, "a member name in double quotes is expected")
		return "", Broken
	}
	name, ok := d.Text()
	if !ok {
		return "", Broken
	}
	if d.Space() != ':' {
		d.Fail(d.Pos, "a colon is expected")
		return "", Broken
	}
	d.Pos++
	d.Space()
	return name, Next
}

// Element moves to the next element of an array. Pos is then at the element.
func (d *Scanner) Element(first bool) Step {
	c := d.Space()
	if c == ']' {
		d.Pos++
		return End
	}
	if first {
		return Next
	}
	if c != ',' {
		d.Fail(d.Pos, "a comma or a closing bracket is expected")
		return Broken
	}
	d.Pos++
	d.Space()
	return Next
}

// Literal reads true, false or null; word says which of them is expected at Pos.
func (d *Scanner) Literal(word string) bool {
	for n := 0; n < len(word); n++ {
		if d.Pos+n >= len(d.Input) || d.Input[d.Pos+n] != word[n] {
			return d.Fail(d.Pos+n, "a word that is neither true, false nor null")
		}
	}
	d.Pos += len(word)
	return true
}

// Number reads a number. integer is true if the literal has neither a fraction nor an exponent.
func (d *Scanner) Number() (raw string, integer, ok bool) {
	s, start, i := d.Input, d.Pos, d.Pos
	if i < len(s) && s[i] == '-' {
		i++
	}
	switch {
	case i < len(s) && s[i] == '0':
		i++
	case i < len(s) && s[i] >= '1' && s[i] <= '9':
		i = digits(s, i)
	case i == start:
		return "", false, d.Fail(i, "a value is expected")
	default:
		return "", false, d.Fail(i, "a digit is expected")
	}
	integer = true
	if i < len(s) && s[i] == '.' {
		integer = false
		from := i + 1
		if i = digits(s, from); i == from {
			return "", false, d.Fail(i, "a digit is expected after the decimal point")
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
			return "", false, d.Fail(i, "a digit is expected in the exponent")
		}
	}
	d.Pos = i
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

// load returns the eight bytes from i on, the first as the lowest. It compiles to one instruction.
func load(s string, i int) uint64 {
	b := s[i : i+8]
	return uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
		uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
}

// PlainEnd returns the offset, from i on, of the first byte that is not plain inside a string: a quote, a backslash, a
// control character or a byte beyond ASCII. It tests eight bytes at a time: the lowest high bit that is set marks the
// first such byte, and only bytes after it may be marked wrongly.
func PlainEnd(s string, i int) int {
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

// Text reads a string and decodes its escapes; Pos must be at its opening quote.
func (d *Scanner) Text() (text string, ok bool) {
	s, start := d.Input, d.Pos+1
	escaped := false
	for i := start; ; {
		i = PlainEnd(s, i)
		if i >= len(s) {
			return "", d.Fail(i, "")
		}
		switch c := s[i]; {
		case c == '"':
			d.Pos = i + 1
			if escaped {
				return d.unescape(s[start:i]), true
			}
			return s[start:i], true
		case c == '\\':
			escaped = true
			if i, ok = d.escape(i); !ok {
				return "", false
			}
		case c < 0x20:
			return "", d.Fail(i, "a control character inside a string must be escaped")
		default:
			for i < len(s) && s[i] >= utf8.RuneSelf {
				r, size := utf8.DecodeRuneInString(s[i:])
				if r == utf8.RuneError && size == 1 {
					return "", d.Fail(i, "a byte that is not valid UTF-8")
				}
				i += size
			}
		}
	}
}

// escape checks the escape that begins at i and returns its end. A surrogate must have its other half.
func (d *Scanner) escape(i int) (end int, ok bool) {
	s := d.Input
	if i+1 >= len(s) {
		return 0, d.Fail(len(s), "")
	}
	switch s[i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 2, true
	case 'u':
		r, end := hex4(s, i+2)
		if end < i+6 {
			return 0, d.Fail(end, "four hexadecimal digits are expected")
		}
		if r < 0xd800 || r > 0xdfff {
			return end, true
		}
		if r <= 0xdbff && i+7 >= len(s) {
			return 0, d.Fail(len(s), "")
		}
		if r > 0xdbff || s[end:end+2] != `\u` {
			return 0, d.Fail(i, "half of a surrogate pair")
		}
		if r, end = hex4(s, i+8); end < i+12 {
			return 0, d.Fail(end, "four hexadecimal digits are expected")
		}
		if r < 0xdc00 || r > 0xdfff {
			return 0, d.Fail(i, "half of a surrogate pair")
		}
		return end, true
	}
	return 0, d.Fail(i+1, "a backslash before a character that needs none")
}

// unescape decodes a string whose escapes are valid. The result is part of Arena.
func (d *Scanner) unescape(raw string) string {
	from := d.Arena.Len()
	d.Arena.Grow(len(raw))
	for {
		i := strings.IndexByte(raw, '\\')
		if i < 0 {
			d.Arena.WriteString(raw)
			return d.Arena.String()[from:]
		}
		d.Arena.WriteString(raw[:i])
		c := raw[i+1]
		raw = raw[i+2:]
		switch c {
		case 'b':
			d.Arena.WriteByte('\b')
		case 'f':
			d.Arena.WriteByte('\f')
		case 'n':
			d.Arena.WriteByte('\n')
		case 'r':
			d.Arena.WriteByte('\r')
		case 't':
			d.Arena.WriteByte('\t')
		case 'u':
			r, _ := hex4(raw, 0)
			raw = raw[4:]
			if r >= 0xd800 && r <= 0xdbff {
				low, _ := hex4(raw, 2)
				raw = raw[6:]
				r = (r-0xd800)<<10 | (low - 0xdc00) + 0x10000
			}
			d.Arena.WriteRune(r)
		default:
			d.Arena.WriteByte(c)
		}
	}
}

// hex4 reads up to four hexadecimal digits from i on, and returns where they end.
func hex4(s string, i int) (r rune, end int) {
	for end = i; end < min(i+4, len(s)); end++ {
		switch c := s[end]; {
		case c >= '0' && c <= '9':
			r = r<<4 | rune(c-'0')
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			r = r<<4 | rune(c|0x20-'a'+10)
		default:
			return r, end
		}
	}
	return r, end
}
