package gpp

import (
	mathbits "math/bits"
	"strings"
)

// The header of a string with one section is four characters that are always the same, two that say which section it
// is, and up to two of padding. loneID has the id for each value of the two, 0 where they do not say one.
const loneHeader = "DBAB"

var loneID = func() (t [1 << 12]uint8) {
	for i := range t {
		ids, _ := parseHeader(loneHeader + alphabet[i>>6:i>>6+1] + alphabet[i&63:i&63+1])
		if mathbits.OnesCount64(ids) == 1 {
			t[i] = uint8(mathbits.TrailingZeros64(ids))
		}
	}
	return t
}()

// parseUsual reads what most strings are: one US section with a version of its own, alone or with GPC. It takes less
// than half of the general way's time. It rejects nothing: of a string that is not so, or not valid, it leaves g as it
// is.
func (g *String) parseUsual(s string) bool {
	const which = len(loneHeader)
	if len(s) < which+6 || s[:which] != loneHeader {
		return false
	}
	at := which + 2 // of the core, soon
	for at < which+4 && s[at] == 'A' {
		at++
	}
	x, y := sextet[s[which]], sextet[s[which+1]]
	if s[at] != '~' || (x|y)&^63 != 0 {
		return false
	}
	at++
	sec := Section{id: loneID[int(x)<<6|int(y)], text: s[at:], version: sextet[s[at]]}
	l := layoutOf[sec.id]
	if l == nil || l.version == 0 { // those without a version may have a section header
		return false
	}
	if l.id == USNat && sec.version == 2 {
		l = usnatV2
	}
	if sec.version != uint8(l.version) || len(sec.text) < l.length {
		return false
	}
	sec.layout = l

	rest := 2 * uint(l.slots) % 6 // bits in the last character, if not all
	whole := l.length
	if rest > 0 {
		whole--
	}
	var strange uint8
	for _, c := range []byte(sec.text[1:whole]) {
		v := sextet[c]
		strange |= v &^ 63
		sec.values = sec.values<<6 | uint64(v)
	}
	if rest > 0 {
		v := sextet[sec.text[whole]]
		strange |= v&^63 | v<<rest&63
		sec.values = sec.values<<rest | uint64(v>>(6-rest))
	}
	if strange != 0 || sec.values&(sec.values>>1)&lowBits != 0 {
		return false
	}
	end := l.length
	for end < min(len(sec.text), l.length+maxPadding/6-1) && sec.text[end] == 'A' {
		end++
	}
	if l.id == USNat && l.version == 1 && end >= mislabelled {
		return false
	}
	if sub := sec.text[end:]; sub != "" && !sec.usualGPC(sub) {
		return false
	}
	g.text, g.ids = s, 1<<sec.id
	g.grow(1)
	g.sections[0] = sec
	return true
}

// usualGPC reads a GPC subsection with the delimiter before it.
func (s *Section) usualGPC(sub string) bool {
	switch {
	case s.layout.extra != gpcSubsection:
		return false
	case strings.HasPrefix(sub, ".Q"):
		s.gpc = gpcFalse
	case strings.HasPrefix(sub, ".Y"):
		s.gpc = gpcTrue
	default:
		return false
	}
	s.subbed = true
	sub = sub[2:]
	return sub == "" || sub == "A" || sub == "AA" // padded to a byte, or to three
}
