package gpp

import (
	"iter"
	mathbits "math/bits"
	"strconv"
	"strings"
)

// Section ids that can be decoded, apart from the states, which are 8 to 27 in the order of the names below.
const (
	TCFEUv2 = 2 // the European TC string
	TCFCAv1 = 5 // the Canadian TC string
	USPv1   = 6 // the us_privacy string
	USNat   = 7 // the US national section

	USCA = 8
	USVA = 9
	USCO = 10
	USUT = 11
	USCT = 12
	USFL = 13
	USMT = 14
	USOR = 15
	USTX = 16
	USDE = 17
	USIA = 18
	USNE = 19
	USNH = 20
	USNJ = 21
	USTN = 22
	USMN = 23
	USMD = 24
	USIN = 25
	USKY = 26
	USRI = 27
)

const (
	// MaxLength is the longest string that is read, in characters. A TC string with a thousand vendors has two
	// thousand; the rest is a reserve.
	MaxLength = 16384

	// maxID is the highest section id: the newer section header has six bits for it.
	maxID = 63
)

// String is a valid GPP string. It keeps the text it was parsed from. Goroutines may share it as long as none calls
// Parse. It must not be copied. The zero value is ready for Parse.
type String struct {
	text     string
	ids      uint64 // bit i: section i is there
	sections []Section
	inline   [1]Section // where the section is when it is one, as is usual: saves an allocation
	tcf      [2]*TCF    // Europe and Canada, kept for the next Parse
}

// Parse reads a GPP string. The string is valid only if everything in it is: the error is an *Error that says which
// part is not. Sections nobody has published a layout for, and sections newer than what is read, are kept without being
// read.
func Parse(s string) (*String, error) {
	g := new(String)
	if err := g.Parse(s); err != nil {
		return nil, err
	}
	return g, nil
}

// Parse reads s in the place of what g held, with g's memory: whoever parses many strings one after the other
// allocates next to nothing. Sections that were taken from g before are void. After an error g has no sections.
func (g *String) Parse(s string) error {
	if g.parseUsual(s) {
		return nil
	}
	if err := g.parseAny(s); err != nil {
		g.text, g.ids, g.sections = "", 0, g.sections[:0]
		return err
	}
	return nil
}

// Forget lets go of the string that was parsed and keeps the memory for the next one, unless it is more than strings
// usually need.
func (g *String) Forget() {
	const usual = 4 // sections
	if cap(g.sections) > usual {
		g.sections = nil
	}
	clear(g.sections[:cap(g.sections)])
	g.text, g.ids, g.sections, g.inline = "", 0, g.sections[:0], [1]Section{}
	for _, t := range g.tcf {
		if t != nil {
			*t = TCF{}
		}
	}
}

func (g *String) parseAny(s string) *Error {
	if s == "" {
		return &Error{Where: "string", Reason: "it is empty"}
	}
	if len(s) > MaxLength {
		return &Error{Where: "string", Reason: "it is longer than " + strconv.Itoa(MaxLength) + " characters"}
	}
	switch s[0] {
	case 'D': // type 3, a GPP string
	case 'C':
		return headerError("it begins as a TC string does, which is no GPP string by itself")
	default:
		return headerError("it does not begin as a GPP string does")
	}
	at, sections, empty, err := scan(s)
	if err != nil {
		return err
	}
	header, rest := s, ""
	if sections > 0 {
		header, rest = s[:at], s[at+1:]
	}
	ids, err := parseHeader(header)
	if err != nil {
		return err
	}
	if listed := mathbits.OnesCount64(ids); listed != sections {
		return headerError("it lists " + plural(listed, "section") + ", the string has " + strconv.Itoa(sections))
	}

	g.text, g.ids = s, ids
	g.grow(sections)
	for i := range g.sections {
		sec := &g.sections[i]
		*sec = Section{id: uint8(mathbits.TrailingZeros64(ids))}
		ids &= ids - 1
		if sec.text = rest; sections > 1 {
			sec.text, rest = cut(rest, '~')
		}
		if empty && strings.Contains("."+sec.text+".", "..") {
			return sec.fault("", "it is empty or has an empty segment")
		}
		if err := g.parseSection(sec); err != nil {
			return err
		}
	}
	return nil
}

// grow makes memory for n sections.
func (g *String) grow(n int) {
	switch {
	case n <= cap(g.sections):
		g.sections = g.sections[:n]
	case n <= len(g.inline):
		g.sections = g.inline[:n]
	default:
		g.sections = make([]Section, n)
	}
}

// parseSection reads a section's text, which has no empty segment and no character outside the alphabet.
func (g *String) parseSection(s *Section) *Error {
	switch {
	case layoutOf[s.id] != nil:
		return s.parseUS()
	case (s.id == TCFEUv2 || s.id == TCFCAv1) && isNewer(sextet[s.text[0]], newestTCF):
		s.keepNewer(sextet[s.text[0]])
		return nil
	case s.id == TCFEUv2:
		return s.parseTCFEU(g.tc(0))
	case s.id == TCFCAv1:
		return s.parseTCFCA(g.tc(1))
	case s.id == USPv1:
		if _, err := ParseUSPrivacy(s.text); err != nil {
			return s.fault("", uspShape)
		}
		s.version = 1
		return nil
	}
	s.opaque = true
	return nil
}

// tc is memory for the content of a TC string.
func (g *String) tc(i int) *TCF {
	if g.tcf[i] == nil {
		g.tcf[i] = new(TCF)
	}
	return g.tcf[i]
}

// scan rejects characters outside the alphabet, so that nothing after it has to look for them. It returns where the
// first "~" is, how many there are, and whether a section is empty or has an empty segment.
func scan(s string) (header, sections int, empty bool, err *Error) {
	edge := 0 // where the segment begins
	for i := plain(s, 0); i < len(s); i = plain(s, i+1) {
		switch {
		case s[i] != '.' && s[i] != '~':
			reason := "character " + strconv.Itoa(i+1) + " is none of A-Z a-z 0-9 - _ . ~"
			return 0, 0, false, &Error{Where: "string", Reason: reason}
		case s[i] == '~':
			if sections++; sections == 1 {
				header = i
			}
		case sections == 0:
			return 0, 0, false, headerError("it has a segment delimiter")
		}
		empty = empty || i == edge
		edge = i + 1
	}
	return header, sections, empty || edge == len(s), nil
}

// plain returns where, from i on, the first character is that carries no bits, or the length of s. It looks at eight at
// a time, a byte of the word each: this is what a long string costs most.
func plain(s string, i int) int {
	const (
		each  = 0x0101010101010101
		highs = 0x80 * each
	)
	for ; i+8 <= len(s); i += 8 {
		c := s[i : i+8]
		w := uint64(c[0]) | uint64(c[1])<<8 | uint64(c[2])<<16 | uint64(c[3])<<24 |
			uint64(c[4])<<32 | uint64(c[5])<<40 | uint64(c[6])<<48 | uint64(c[7])<<56
		if w&highs != 0 {
			break
		}
		// The high bit of a byte below 0x80 is set by adding what is missing from it to 0x80.
		letter := w | 0x20*each
		letter = (letter + (0x80-'a')*each) &^ (letter + (0x7f-'z')*each)
		digit := (w + (0x80-'0')*each) &^ (w + (0x7f-'9')*each)
		sign := (highs - (w ^ '-'*each)) | (highs - (w ^ '_'*each))
		if (letter|digit|sign)&highs != highs {
			break
		}
	}
	for ; i < len(s) && sextet[s[i]] < delimiter; i++ {
	}
	return i
}

// cut is strings.Cut for one byte, a tenth of the time that a small string takes.
func cut(s string, sep byte) (before, after string) {
	if i := strings.IndexByte(s, sep); i >= 0 {
		return s[:i], s[i+1:]
	}
	return s, ""
}

// parseHeader reads type, version and the ids, as a set.
func parseHeader(s string) (uint64, *Error) {
	b := bits{s: s}
	b.read(6) // the type, which parse has looked at
	if version := b.read(6); !b.short && version != 1 {
		return 0, headerError("version " + strconv.Itoa(int(version)) + " is not known; version 1 is read")
	}
	count := int(b.read(12))
	if count > maxID {
		return 0, headerError("it lists more than " + strconv.Itoa(maxID) + " ranges of sections")
	}
	var ids uint64
	last := 0
	for range count {
		start, end, reason := b.fibonacciItem(last, maxID)
		if reason != "" {
			return 0, &Error{Where: "header", Field: "Sections", Reason: reason}
		}
		ids |= (1<<(end-start+1) - 1) << start
		last = end
	}
	switch {
	case b.short:
		return 0, headerError(truncated)
	case ids&(1<<1) != 0:
		return 0, headerError("section 1 is withdrawn")
	case ids&(1<<3) != 0:
		return 0, headerError("section 3 is the header itself")
	}
	if reason := b.padding(true); reason != "" {
		return 0, headerError(reason)
	}
	return ids, nil
}

// fibonacciItem reads one item of a Fibonacci range: a single id or a group, counted from the last id before it.
// The reason is "" if it could be read and no id is over limit.
func (b *bits) fibonacciItem(last, limit int) (start, end int, reason string) {
	group := b.bool()
	if b.short {
		return 0, 0, truncated
	}
	step := b.fibonacci()
	start, end = last+step, last+step
	if group && step != 0 {
		step = b.fibonacci()
		end += step
	}
	switch {
	case step != 0 && end <= limit:
		return start, end, ""
	case b.short:
		return 0, 0, truncated
	default:
		return 0, 0, "an id is over " + strconv.Itoa(limit)
	}
}

// Text is the string as it was parsed.
func (g *String) Text() string { return g.text }

// IDs are the ids of the sections in the string, ascending.
func (g *String) IDs() []int {
	ids := make([]int, len(g.sections))
	for i := range g.sections {
		ids[i] = g.sections[i].ID()
	}
	return ids
}

// Sections are the sections in the order of their ids.
func (g *String) Sections() iter.Seq[*Section] {
	return func(yield func(*Section) bool) {
		for i := range g.sections {
			if !yield(&g.sections[i]) {
				return
			}
		}
	}
}

// Section is the section with the id, nil if the string has none.
func (g *String) Section(id int) *Section {
	if id < 0 || id > maxID || g.ids>>id&1 == 0 {
		return nil
	}
	return &g.sections[mathbits.OnesCount64(g.ids&(1<<id-1))]
}
