package gpp

import "strconv"

// Section is one section of a string.
type Section struct {
	text      string
	layout    *layout // of a US section, else nil
	tcf       *TCF    // of a TC string, else nil
	values    uint64  // the two-bit values of a US core, the last one lowest
	sensitive uint16  // the values of a sensitive-data subsection, likewise
	id        uint8
	version   uint8
	gpc       gpc
	headed    bool // a section header precedes the core: the form the specification has for 24 to 27
	subbed    bool // a subsection follows the core
	opaque    bool
	newer     bool // opaque, because its version is newer than what is read
}

// gpc is what a section says about Global Privacy Control.
type gpc uint8

const (
	gpcAbsent gpc = iota
	gpcFalse
	gpcTrue
)

// names are those of all section ids, with the spelling that errors and reasons use for ids without a name.
var names = func() (t [maxID + 1]string) {
	for id := range t {
		t[id] = strconv.Itoa(id)
	}
	for i := range layouts {
		t[layouts[i].id] = layouts[i].name
	}
	t[TCFEUv2], t[TCFCAv1], t[USPv1] = "tcfeuv2", "tcfcav1", "uspv1"
	return t
}()

// ID is the section's id.
func (s *Section) ID() int { return int(s.id) }

// Name is the section's official name, or its id where it has none.
func (s *Section) Name() string { return names[s.id] }

// Version is the section's version as it says itself; for usmd, usin, usky and usri, which have none of their own,
// it is the MspaVersion. It is 0 if the section is opaque, unless it is newer than what is read.
func (s *Section) Version() int { return int(s.version) }

// Text is the section as written in the string.
func (s *Section) Text() string { return s.text }

// Opaque reports whether the section was kept without being read: an id without a published layout, a version that is
// newer than what is read, or a European TC string in the place of the Canadian one, as a published example has it.
// What it says cannot be honoured.
func (s *Section) Opaque() bool { return s.opaque }

// Newer reports whether the section is opaque because it is newer than what is read.
func (s *Section) Newer() bool { return s.newer }

// UnknownMspa reports whether a section of 24 to 27 has an MspaVersion that nobody has defined and that is too high for
// a newer one. Its values are read as with version 1, as the official libraries read them, but they are no permission:
// the outcome is at least MeasurementOnly.
func (s *Section) UnknownMspa() bool {
	return s.layout != nil && s.layout.version == 0 && s.version > 1
}

// newerVersions is how far above the newest version that is read a version is newer. What is farther above is no
// version but a damaged string. The standard has had two versions of one section in four years.
const newerVersions = 8

func isNewer(version, newest uint8) bool { return version > newest && version <= newest+newerVersions }

// keepNewer makes the section opaque.
func (s *Section) keepNewer(version uint8) {
	*s = Section{id: s.id, text: s.text, version: version, opaque: true, newer: true}
}

// TCF is the content of a TC string (tcfeuv2, tcfcav1), nil in other sections.
func (s *Section) TCF() *TCF { return s.tcf }

// USPrivacy is the content of a uspv1 section; ok is false in other sections.
func (s *Section) USPrivacy() (p USPrivacy, ok bool) {
	if s.id != USPv1 {
		return USPrivacy{}, false
	}
	return USPrivacy{s.text[1], s.text[2], s.text[3]}, true
}

func (s *Section) fault(field, reason string) *Error {
	return &Error{Where: names[s.id], Field: field, Reason: reason}
}
