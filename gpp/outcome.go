package gpp

// Outcome is what a consent signal allows. Larger is more restrictive.
type Outcome uint8

// The outcomes, in order of restriction.
const (
	Unrestricted    Outcome = iota // no limit
	MeasurementOnly                // count and report; no optimization, no audiences
	Suppressed                     // nothing that could point at the person may be kept
)

var outcomeNames = [...]string{"unrestricted", "measurement_only", "suppressed"}

// String is the outcome's wire spelling.
func (o Outcome) String() string {
	if int(o) < len(outcomeNames) {
		return outcomeNames[o]
	}
	return "unknown"
}

// masks select, by the low bits of two-bit values, what the outcome rules of a layout look at.
type masks struct {
	child    uint64 // known child: 1 suppresses
	young    uint64 // known child under 13: anything but 0 suppresses
	optOut   uint64 // 1: opted out
	provider uint64 // 1: the sender is in service provider mode
	mode     uint64 // 2: likewise, in the newer sections
	notice   uint64 // 2: no notice was given
	covered  uint64 // 0: not even said whether the agreement covers it
	further  uint64 // 1: no consent to further purposes
	pairs    [3]pair
}

// pair is an opt-out and its notice: "did not opt out" means nothing where no notice was due.
type pair struct {
	optOut, notice *field // nil: no such pair
}

// masks finds the fields of the rules by their official names.
func (l *layout) masks(young string) masks {
	m := masks{
		child:    l.mask("KnownChildSensitiveDataConsents"),
		optOut:   l.mask("SaleOptOut", "SharingOptOut", "TargetedAdvertisingOptOut"),
		provider: l.mask("MspaServiceProviderMode"),
		mode:     l.mask("MspaMode"),
		notice: l.mask("SharingNotice", "ProcessingNotice", "SaleOptOutNotice", "SharingOptOutNotice",
			"TargetedAdvertisingOptOutNotice"),
		covered: l.mask("MspaCoveredTransaction"),
		further: l.mask("PersonalDataConsents", "AdditionalDataProcessingConsent"),
	}
	if f := l.field("KnownChildSensitiveDataConsents"); f != nil {
		for _, slot := range young {
			m.young |= 1 << (f.shift + 2*(f.slots-int(slot-'0')))
		}
	}
	for i, name := range []string{"SaleOptOut", "SharingOptOut", "TargetedAdvertisingOptOut"} {
		if f := l.field(name); f != nil {
			m.pairs[i] = pair{f, l.field(name + "Notice")}
		}
	}
	return m
}

func (l *layout) mask(names ...string) (m uint64) {
	for _, name := range names {
		if f := l.field(name); f != nil {
			m |= f.mask()
		}
	}
	return m
}

// Outcome is what the section allows where it is in force.
func (s *Section) Outcome() Outcome {
	switch {
	case s.layout != nil:
		if o := s.usOutcome(); o != Unrestricted || !s.UnknownMspa() {
			return o
		}
		return MeasurementOnly
	case s.undisclosed():
		return Suppressed
	case s.tcf != nil:
		o, _ := s.tcf.outcome(s.id == TCFEUv2)
		return o
	case s.id == USPv1:
		p, _ := s.USPrivacy()
		o, _ := p.Outcome()
		return o
	default:
		return Suppressed // what cannot be read cannot be honoured
	}
}

// equal splits the values into those that are 0, 1 and 2. Value 3 was rejected before.
func equal(v uint64) (zero, one, two uint64) {
	low, high := v&lowBits, v>>1&lowBits
	return lowBits &^ (low | high), low &^ high, high &^ low
}

func (s *Section) usOutcome() Outcome {
	m := &s.layout.relevant
	zero, one, two := equal(s.values)
	switch {
	case one&m.child|(one|two)&m.young != 0:
		return Suppressed
	case one&(m.optOut|m.provider|m.further)|two&(m.mode|m.notice)|zero&m.covered != 0, s.gpc == gpcTrue:
		return MeasurementOnly
	case two&m.optOut == 0 || zero&m.notice == 0: // nothing that the pairs could find
		return Unrestricted
	}
	for _, p := range m.pairs {
		if p.unasked(zero, two) {
			return MeasurementOnly
		}
	}
	return Unrestricted
}

// unasked reports whether the person did not opt out of something no notice was about.
func (p pair) unasked(zero, two uint64) bool {
	return p.optOut != nil && two>>p.optOut.shift&1 == 1 && zero>>p.notice.shift&1 == 1
}

// outcome applies the purposes. lacking are those that would allow more; none where the scope of the string decides.
func (t *TCF) outcome(europe bool) (o Outcome, lacking Set) {
	const (
		storage     Set = 1 << 0      // purpose 1: on the device
		personal    Set = 1<<2 | 1<<3 // 3 and 4: profiles, personalised advertising
		measurement Set = 1 << 6      // 7
	)
	switch {
	case europe && !t.IsServiceSpecific:
		return Suppressed, 0
	case europe && t.PurposeConsents&storage == 0 && !t.PurposeOneTreatment:
		return Suppressed, storage
	case (t.PurposeConsents|t.PurposeLegitimateInterest)&measurement == 0:
		return Suppressed, measurement
	}
	if lacking = personal &^ t.PurposeConsents; lacking != 0 {
		return MeasurementOnly, lacking
	}
	return Unrestricted, 0
}
