package gpp

import "strconv"

// Notes are the oddities of a section that is valid all the same: what a sender may want to know, and what the outcome
// has read carefully. Each begins with the section's name.
func (s *Section) Notes() []string {
	var notes []string
	note := func(text string) { notes = append(notes, s.Name()+": "+text) }
	switch {
	case s.newer:
		note("version " + strconv.Itoa(int(s.version)) + " is newer than what is read, so it cannot be honoured")
	case s.opaque:
		note("its content cannot be read, so it cannot be honoured")
	case s.layout != nil:
		s.noteUS(note)
	case s.id == USPv1:
		if p, _ := s.USPrivacy(); p.OptOutSale == '-' && (p.Notice != '-' || p.LspaCovered != '-') {
			note("OptOutSale is missing though the law applies")
		}
	case s.undisclosed():
		note("it was created after 2026-02-28 and has no segment DisclosedVendors, which TCF 2.3 demands")
	case s.legacy:
		note("vendor ranges as encoders wrote them before 2026")
	}
	return notes
}

func (s *Section) noteUS(note func(string)) {
	l := s.layout
	if s.headed {
		note("a section header, which the specification has and the official library does not read")
	}
	if l.version != 0 && int(s.version) != l.version {
		note("version 1 in the layout of version 2")
	}
	if zero, _, _ := equal(s.values); zero&l.relevant.covered != 0 {
		note("MspaCoveredTransaction is 0, which is not defined")
	}
	for _, p := range l.relevant.pairs {
		if p.optOut == nil {
			continue
		}
		notice, optOut := s.values>>p.notice.shift&3, s.values>>p.optOut.shift&3
		if !agree[notice][optOut] {
			note(p.notice.name + " and " + p.optOut.name + " disagree")
		}
	}
	option, provider := l.field("MspaOptOutOptionMode"), l.field("MspaServiceProviderMode")
	if option != nil && s.values>>option.shift&3 == 1 && s.values>>provider.shift&3 == 1 {
		note("both MSPA modes are on")
	}
}

// agree holds, by the value of a notice, which values of its opt-out go with it: not applicable with not applicable,
// either choice with a notice that was given, the careful one with a notice that was not.
var agree = [3][3]bool{0: {0: true}, 1: {1: true, 2: true}, 2: {1: true}}
