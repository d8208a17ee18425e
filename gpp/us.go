package gpp

import (
	"strconv"
	"strings"
)

// parseUS reads one of the sections 7 to 27.
func (s *Section) parseUS() *Error {
	s.layout = layoutOf[s.id]
	core, rest := cut(s.text, '.')
	if s.layout.version != 0 && sextet[core[0]] == s.id {
		s.keepHeaded(core)
		return nil
	}
	if s.layout.version == 0 && headID(core) {
		s.headed = true
		listed, err := s.parseHead(core)
		if err != nil || s.newer {
			return err
		}
		if rest == "" {
			return s.fault("", "the core is missing")
		}
		core, rest = cut(rest, '.')
		if listed != (rest != "") {
			return s.fault("", "its header and its segments disagree about subsections")
		}
	}
	if err := s.parseCore(core); err != nil || s.newer || rest == "" {
		return err
	}
	s.subbed = true
	switch {
	case strings.IndexByte(rest, '.') >= 0:
		return s.fault("", "more than one subsection")
	case s.layout.extra == gpcSubsection:
		return s.parseGPC(rest)
	case s.layout.extra == sensitiveSubsection:
		return s.parseSensitive(rest)
	default:
		return s.fault("", "a subsection, where none is defined")
	}
}

// headID reports whether a text begins with an id from 24 to 27, as a section header does. A core begins with an
// MspaVersion, which is far from there.
func headID(text string) bool {
	v := sextet[text[0]]
	return v >= USMD && v <= USRI
}

// parseHead reads a section header: id, version, subsections. The core is never listed; listed reports whether
// subsection 1 is.
func (s *Section) parseHead(head string) (listed bool, err *Error) {
	b := bits{s: head}
	if id := b.read(6); id != uint64(s.id) {
		return false, s.fault("SectionID", "it is the id of another section")
	}
	if version := uint8(b.read(6)); !b.short && version != 1 {
		if isNewer(version, 1) {
			s.keepNewer(version)
			return false, nil
		}
		return false, s.fault("Version", unknownVersion(int(version), "1"))
	}
	count := b.read(12)
	if count > 1 {
		return false, s.fault("SubSections", "more than one is listed")
	}
	if count == 1 {
		if _, _, reason := b.fibonacciItem(0, 1); reason != "" {
			return false, s.fault("SubSections", reason)
		}
	}
	if b.short {
		return false, s.fault("SubSections", truncated)
	}
	if reason := b.padding(true); reason != "" {
		return false, s.fault("SubSections", reason)
	}
	return count == 1, nil
}

// keepHeaded keeps a section of 7 to 23 that begins with a section header, a form that none of them has yet. A header
// is shorter than any core; a longer text is a core whose version happens to be the section's id.
func (s *Section) keepHeaded(head string) {
	version := s.id
	if short := len(head) < s.layout.length; short || !isNewer(version, s.layout.newest()) {
		if version = 0; len(head) > 1 {
			version = sextet[head[1]]
		}
	}
	s.keepNewer(version)
}

func unknownVersion(version int, known string) string {
	return "version " + strconv.Itoa(version) + " is not known; read: " + known
}

// parseCore reads the version and the two-bit values.
func (s *Section) parseCore(core string) *Error {
	s.version = sextet[core[0]]
	if isNewer(s.version, s.layout.newest()) {
		s.keepNewer(s.version)
		return nil
	}
	if err := s.chooseLayout(len(core)); err != nil {
		return err
	}
	l := s.layout
	b := bits{s: core, next: 1}
	if s.values = b.wide(2 * uint(l.slots)); b.short {
		return s.fault(l.firstMissing(len(core)), truncated)
	}
	if bad := s.values & (s.values >> 1) & lowBits; bad != 0 {
		return s.fault(l.fieldsIn(bad)[0], undefined)
	}
	if reason := b.padding(true); reason != "" {
		return s.fault("", reason)
	}
	return nil
}

// mislabelled is from how many characters on a usnat core of version 1 has the layout of version 2. Two official
// libraries wrote that for a year; true ones are never as long.
const mislabelled = 12

// chooseLayout checks the version.
func (s *Section) chooseLayout(length int) *Error {
	l := s.layout
	switch {
	case l.version == 0: // 0 is read like 1; so is one far above, which is no permission: see UnknownMspa
		if s.version >= USMD && s.version <= USRI {
			return s.fault("MspaVersion", "it cannot be "+strconv.Itoa(int(s.version)))
		}
	case l.id == USNat:
		if s.version != 1 && s.version != 2 {
			return s.fault("Version", unknownVersion(int(s.version), "1 and 2"))
		}
		if s.version == 2 || length >= mislabelled {
			s.layout = usnatV2
		}
	case s.version != uint8(l.version):
		return s.fault("Version", unknownVersion(int(s.version), strconv.Itoa(l.version)))
	}
	return nil
}

// firstMissing names the field that a core of so many characters cannot hold.
func (l *layout) firstMissing(length int) string {
	have := max(0, length*6-6) / 2
	for i := range l.fields {
		if have -= l.fields[i].slots; have < 0 {
			return l.fields[i].name
		}
	}
	return ""
}

func (s *Section) parseGPC(text string) *Error {
	v := sextet[text[0]] // two bits of type, one of GPC, the rest padding
	if kind := v >> 4; kind != 1 {
		return s.fault("GpcSegmentType", "type "+strconv.Itoa(int(kind))+", which is not that of GPC, 1")
	}
	s.gpc = gpcFalse
	if v>>3&1 == 1 {
		s.gpc = gpcTrue
	}
	b := bits{s: text, next: 1, acc: uint64(v), n: 3}
	if reason := b.padding(true); reason != "" {
		return s.fault("Gpc", reason)
	}
	return nil
}

// parseSensitive reads a sensitive-data subsection. The specification has no type in front of the values, one
// encoder writes it all the same. It shows only where bits are set that would otherwise be padding.
func (s *Section) parseSensitive(text string) *Error {
	const name = sensitiveName
	b := bits{s: text}
	v := b.read(2 * sensitiveSlots)
	reason := b.padding(true)
	if !b.short && reason == nonZeroPadding && v>>(2*sensitiveSlots-2) == 1 {
		b = bits{s: text}
		b.read(2)
		v = b.read(2 * sensitiveSlots)
		reason = b.padding(true)
	}
	switch {
	case b.short:
		return s.fault(name, truncated)
	case v&(v>>1)&lowBits != 0:
		return s.fault(name, undefined)
	case reason != "":
		return s.fault(name, reason)
	}
	s.sensitive = uint16(v)
	return nil
}

// Values are the values of a field of a US section by its official name, one for a plain field. It is nil if the
// section has no such field, or not in this string.
func (s *Section) Values(name string) []int {
	if s.layout == nil {
		return nil
	}
	switch {
	case name == s.layout.versionName():
		return []int{int(s.version)}
	case name == sensitiveName && s.layout.extra == sensitiveSubsection && s.subbed:
		return unpack(uint64(s.sensitive), sensitiveSlots)
	}
	f := s.layout.field(name)
	if f == nil {
		return nil
	}
	return unpack(s.values>>f.shift, f.slots)
}

// Value is the value of a plain field of a US section, the first of a field with several; ok is false if the section
// has no such field.
func (s *Section) Value(name string) (v int, ok bool) {
	values := s.Values(name)
	if values == nil {
		return 0, false
	}
	return values[0], true
}

// GPC is the Global Privacy Control signal; ok is false if the section does not carry it, which is not the same as
// its being off.
func (s *Section) GPC() (on, ok bool) { return s.gpc == gpcTrue, s.gpc != gpcAbsent }

func unpack(v uint64, slots int) []int {
	out := make([]int, slots)
	for i := range out {
		out[slots-1-i] = int(v >> (2 * i) & 3)
	}
	return out
}
