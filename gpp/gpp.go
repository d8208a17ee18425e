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
	// thousand; the rest is room.
	MaxLength = 16384

	// maxID is the highest section id: the newer section header has six bits for it.
	maxID = 63
)

// String is a valid GPP string. It keeps the text it was parsed from. It is read-only, so goroutines may share it.
type String struct {
	text     string
	ids      uint64 // bit i: section i is there
	sections []Section
	inline   [2]Section // where the sections are when there are few, as is usual: saves an allocation
}

// Parse reads a GPP string. The string is valid only if everything in it is: the error is an *Error that says which
// part is not. Sections nobody has published a layout for are kept without being read.
func Parse(s string) (*String, error) {
	g, err := parse(s)
	if err != nil {
		return nil, err
	}
	return g, nil
}

func parse(s string) (*String, *Error) {
	if s == "" {
		return nil, &Error{Where: "string", Reason: "it is empty"}
	}
	if len(s) > MaxLength {
		return nil, &Error{Where: "string", Reason: "it is longer than " + strconv.Itoa(MaxLength) + " characters"}
	}
	sections := 0
	for i := range len(s) {
		if c := sextet[s[i]]; c >= delimiter {
			if c == foreign {
				return nil, &Error{Where: "string", Reason: "character " + strconv.Itoa(i+1) + " is none of A-Z a-z 0-9 - _ . ~"}
			}
			if s[i] == '~' {
				sections++
			}
		}
	}
	header, rest, _ := strings.Cut(s, "~")
	ids, err := parseHeader(header)
	if err != nil {
		return nil, err
	}
	if listed := mathbits.OnesCount64(ids); listed != sections {
		return nil, headerError("it lists " + plural(listed, "section") + ", the string has " + strconv.Itoa(sections))
	}

	g := &String{text: s, ids: ids}
	if sections <= len(g.inline) {
		g.sections = g.inline[:sections]
	} else {
		g.sections = make([]Section, sections)
	}
	for i := range g.sections {
		sec := &g.sections[i]
		id := mathbits.TrailingZeros64(ids)
		ids &= ids - 1
		var text string
		text, rest, _ = strings.Cut(rest, "~")
		if err := sec.parse(id, text); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// parseHeader reads type, version and the ids, as a set.
func parseHeader(s string) (uint64, *Error) {
	if strings.IndexByte(s, '.') >= 0 {
		return 0, headerError("it has a segment delimiter")
	}
	b := bits{s: s}
	if kind := b.read(6); b.short || kind != 3 {
		return 0, headerError("it does not begin as a GPP string does")
	}
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
