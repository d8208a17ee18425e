package gpp

// AppendReasons adds to b why the section's outcome is what it is, in the order of the rules: section and field,
// "usnat.SaleOptOut". An unrestricted section adds nothing. The strings are made once, for all calls.
func (s *Section) AppendReasons(b []string) []string {
	switch {
	case s.layout != nil:
		n := len(b)
		if b = s.appendUS(b); len(b) == n && s.UnknownMspa() {
			b = append(b, mspaReasons[s.id])
		}
		return b
	case s.undisclosed():
		return append(b, "tcfeuv2.VendorsDisclosed")
	case s.tcf != nil:
		return s.tcf.appendReasons(b, s.id)
	case s.id == USPv1:
		p, _ := s.USPrivacy()
		return p.appendReasons(b, "uspv1.OptOutSale", "uspv1.Notice")
	default:
		return append(b, opaqueReasons[s.id])
	}
}

// gpcReasons, mspaReasons and opaqueReasons are the reasons that are no field of a layout, by section id.
var gpcReasons, mspaReasons, opaqueReasons = func() (g, m, o [maxID + 1]string) {
	for id, name := range names {
		g[id], m[id], o[id] = name+".Gpc", name+".MspaVersion", name+".unreadable"
	}
	return g, m, o
}()

func (s *Section) appendUS(b []string) []string {
	l, m := s.layout, &s.layout.relevant
	zero, one, two := equal(s.values)
	if suppressing := one&m.child | (one|two)&m.young; suppressing != 0 {
		return l.appendFields(b, suppressing)
	}
	b = l.appendFields(b, one&m.optOut)
	if s.gpc == gpcTrue {
		b = append(b, gpcReasons[s.id])
	}
	b = l.appendFields(b, one&m.provider|two&m.mode)
	b = l.appendFields(b, two&m.notice)
	for _, p := range m.pairs {
		if p.unasked(zero, two) {
			b = append(b, p.notice.reason)
		}
	}
	b = l.appendFields(b, zero&m.covered)
	return l.appendFields(b, one&m.further)
}

// appendFields adds the reasons of the fields that have a value in the mask.
func (l *layout) appendFields(b []string, mask uint64) []string {
	if mask == 0 {
		return b
	}
	for i := range l.fields {
		if f := &l.fields[i]; mask&f.mask() != 0 {
			b = append(b, f.reason)
		}
	}
	return b
}

// tcfReasons are those of a TC string, Europe and Canada.
type tcfReasons struct{ scope, purpose1, purpose3, purpose4, purpose7 string }

var europeReasons = tcfReasons{
	"tcfeuv2.IsServiceSpecific",
	"tcfeuv2.PurposeConsents.1", "tcfeuv2.PurposeConsents.3", "tcfeuv2.PurposeConsents.4", "tcfeuv2.PurposeConsents.7",
}

var canadaReasons = tcfReasons{
	"",
	"", "tcfcav1.PurposesExpressConsent.3", "tcfcav1.PurposesExpressConsent.4", "tcfcav1.PurposesExpressConsent.7",
}

func (t *TCF) appendReasons(b []string, id uint8) []string {
	r, europe := &canadaReasons, id == TCFEUv2
	if europe {
		r = &europeReasons
	}
	switch {
	case europe && !t.IsServiceSpecific:
		return append(b, r.scope)
	case europe && !t.PurposeConsents.Has(1) && !t.PurposeOneTreatment:
		return append(b, r.purpose1)
	case !(t.PurposeConsents | t.PurposeLegitimateInterest).Has(7):
		return append(b, r.purpose7)
	}
	if !t.PurposeConsents.Has(3) {
		b = append(b, r.purpose3)
	}
	if !t.PurposeConsents.Has(4) {
		b = append(b, r.purpose4)
	}
	return b
}

func (p USPrivacy) appendReasons(b []string, optOut, notice string) []string {
	switch _, field := p.Outcome(); field {
	case "OptOutSale":
		return append(b, optOut)
	case "Notice":
		return append(b, notice)
	}
	return b
}
