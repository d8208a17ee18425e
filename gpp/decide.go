package gpp

import mathbits "math/bits"

// The values of gpp_sid that name no section.
const (
	NoSection      = -1 // no section is in force
	UnknownSection = 0  // it is not determined yet which one is
)

// Signals is everything that is said about consent beside one event. The zero value says nothing.
type Signals struct {
	GPP             *String   // nil: no GPP string
	SIDs            []int32   // gpp_sid: the sections in force; without a meaning where there is no GPP string
	USPrivacy       USPrivacy // us_privacy_string
	NotUnderstood   bool      // there is a signal that could not be read: it is not a permission
	MeasurementOnly bool      // mmt_only: the sender asks for it, which is no choice of the person
	SuppressOptOut  bool      // policy: a restriction by consent signals is as good as none at all
}

// Verdict is the outcome of signals, without the reasons.
type Verdict struct {
	Outcome     Outcome
	Mismatch    bool // gpp_sid names a section that the string does not have
	Many        bool // gpp_sid names more than two sections: a consent platform says one, at most two
	Ignored     bool // gpp_sid names -1, 0, 3 or 4 beside others, or something without a GPP string
	Newer       bool // the string has a section that is newer than what is read, in force or not
	UnknownMspa bool // the string has a section with an MspaVersion that nobody has defined, in force or not
	// Undisclosed: a European TC string in force lacks the segment DisclosedVendors, which TCF 2.3 demands.
	Undisclosed bool
	// OnlyNotUnderstood: the consent signals that could be read restrict nothing; one that could not does.
	OnlyNotUnderstood bool

	signal  Outcome // of consent signals alone, before policy
	inForce uint64  // the sections that were looked at
}

// Decision is the outcome of signals, with the reasons.
type Decision struct {
	Verdict
	signals Signals
}

// Decide is the outcome of the string where the sections sids are in force. It allocates nothing.
func (g *String) Decide(sids []int32) Decision { return Signals{GPP: g, SIDs: sids}.Decide() }

// Decide is the most restrictive of all signals. It allocates nothing.
func (s Signals) Decide() Decision { return Decision{Verdict: s.Verdict(), signals: s} }

// Verdict is the most restrictive of all signals, without the reasons. It takes half the time of Decide.
func (s *Signals) Verdict() (v Verdict) {
	if s.GPP == nil {
		v.Ignored = len(s.SIDs) > 0
	} else {
		v.selectSections(s.GPP.ids, s.SIDs)
		for i := range s.GPP.sections {
			sec := &s.GPP.sections[i]
			v.Newer = v.Newer || sec.newer
			v.UnknownMspa = v.UnknownMspa || sec.UnknownMspa()
			if v.inForce>>sec.id&1 == 1 {
				v.signal = max(v.signal, sec.Outcome())
				v.Undisclosed = v.Undisclosed || sec.undisclosed()
			}
		}
		if v.Mismatch {
			v.signal = max(v.signal, MeasurementOnly)
		}
	}
	o, _ := s.USPrivacy.Outcome()
	v.signal = max(v.signal, o)
	if s.NotUnderstood && v.signal == Unrestricted {
		v.signal, v.OnlyNotUnderstood = MeasurementOnly, true
	}

	v.Outcome = v.signal
	if v.signal == MeasurementOnly && s.SuppressOptOut {
		v.Outcome = Suppressed
	}
	if s.MeasurementOnly {
		v.Outcome = max(v.Outcome, MeasurementOnly)
	}
	return v
}

// selectSections decides which sections of a string with the sections ids are in force.
func (v *Verdict) selectSections(ids uint64, sids []int32) {
	const (
		header    = 1 << 3
		integrity = 1 << 4
	)
	var named uint64
	var none, unknown bool
	for _, id := range sids {
		switch {
		case id == NoSection:
			none = true
		case id > 0 && id <= maxID:
			named |= 1 << id
		default:
			unknown = true
		}
	}
	// 3 and 4 are no jurisdictions and need not be listed. But a section 4 that is both there and listed is something
	// gpp_sid names and that we cannot apply.
	real := named &^ (header | integrity&^ids)
	v.Ignored = real != named || real != 0 && (none || unknown)
	v.Many = mathbits.OnesCount64(real) > 2

	switch {
	case real == 0 && named == 0 && none && !unknown:
		v.inForce = 0
	case real == 0:
		v.inForce = ids &^ integrity
	case real&ids == 0:
		v.inForce, v.Mismatch = ids&^integrity, true
	default:
		v.inForce, v.Mismatch = real&ids, real&^ids != 0
	}
}

// Reasons that are no field of a section.
const (
	ReasonMismatch        = "gpp_sid.mismatch"
	ReasonNotUnderstood   = "privacy.not_understood"
	ReasonMeasurementOnly = "mmt_only"
	ReasonPolicy          = "opt_out=suppress"
)

// Reasons are why the outcome is what it is, the most restrictive signals first; nil if there is nothing to say.
func (d Decision) Reasons() (reasons []string) {
	s := &d.signals
	for _, o := range [...]Outcome{Suppressed, MeasurementOnly} {
		if s.GPP != nil {
			for sec := range s.GPP.Sections() {
				if d.inForce>>sec.id&1 == 1 && sec.Outcome() == o {
					reasons = append(reasons, sec.Reasons()...)
				}
			}
		}
	}
	if d.Mismatch {
		reasons = append(reasons, ReasonMismatch)
	}
	if _, field := s.USPrivacy.Outcome(); field != "" {
		reasons = append(reasons, "us_privacy_string."+field)
	}
	if s.NotUnderstood {
		reasons = append(reasons, ReasonNotUnderstood)
	}
	if s.SuppressOptOut && d.signal == MeasurementOnly {
		reasons = append(reasons, ReasonPolicy)
	}
	if s.MeasurementOnly {
		reasons = append(reasons, ReasonMeasurementOnly)
	}
	return reasons
}
