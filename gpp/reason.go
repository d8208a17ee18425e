package gpp

import "strconv"

// Reasons are why the section's outcome is what it is, in the order of the rules: section and field,
// "usnat.SaleOptOut". An unrestricted section has none.
func (s *Section) Reasons() (reasons []string) {
	for _, field := range s.because() {
		reasons = append(reasons, s.Name()+"."+field)
	}
	return reasons
}

// because names the fields that the outcome rests on.
func (s *Section) because() (fields []string) {
	switch {
	case s.layout != nil:
		if fields = s.usFields(); fields == nil && s.UnknownMspa() {
			return []string{"MspaVersion"}
		}
	case s.undisclosed():
		return []string{"VendorsDisclosed"}
	case s.tcf != nil:
		outcome, lacking := s.tcf.outcome(s.id == TCFEUv2)
		if outcome == Suppressed && lacking == 0 {
			return []string{"IsServiceSpecific"}
		}
		for purpose := range 8 {
			if lacking.Has(purpose) {
				fields = append(fields, official("PurposeConsents", s.id == TCFEUv2)+"."+strconv.Itoa(purpose))
			}
		}
	case s.id == USPv1:
		p, _ := s.USPrivacy()
		if _, field := p.Outcome(); field != "" {
			return []string{field}
		}
	default:
		return []string{"unreadable"}
	}
	return fields
}

func (s *Section) usFields() []string {
	l, m := s.layout, &s.layout.relevant
	zero, one, two := equal(s.values)
	if suppressing := one&m.child | (one|two)&m.young; suppressing != 0 {
		return l.fieldsIn(suppressing)
	}
	fields := l.fieldsIn(one & m.optOut)
	if s.gpc == gpcTrue {
		fields = append(fields, "Gpc")
	}
	fields = append(fields, l.fieldsIn(one&m.provider|two&m.mode)...)
	fields = append(fields, l.fieldsIn(two&m.notice)...)
	for _, p := range m.pairs {
		if p.unasked(zero, two) {
			fields = append(fields, p.notice.name)
		}
	}
	fields = append(fields, l.fieldsIn(zero&m.covered)...)
	return append(fields, l.fieldsIn(one&m.further)...)
}

// fieldsIn names the fields with a value in the mask.
func (l *layout) fieldsIn(mask uint64) (names []string) {
	for i := range l.fields {
		if f := &l.fields[i]; mask&f.mask() != 0 {
			names = append(names, f.name)
		}
	}
	return names
}
