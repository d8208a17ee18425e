package gpp

import "strconv"

// The values of gpp_sid that name no section.
const (
	NoSection      = -1 // no section is in force
	UnknownSection = 0  // it is not determined yet which one is
)

// maxSIDs is how many ids a gpp_sid may list: as many as there can be sections.
const maxSIDs = maxID

var (
	errSIDEmpty = &Error{Where: "gpp_sid", Reason: "it is empty"}
	errSIDRange = &Error{Where: "gpp_sid", Reason: "an id is not from -1 to " + strconv.Itoa(maxID)}
	errSIDCount = &Error{Where: "gpp_sid", Reason: "it lists more than " + strconv.Itoa(maxSIDs) + " ids"}
)

// CheckSIDs returns an *Error if the list cannot be a gpp_sid.
func CheckSIDs(sids []int32) error {
	if len(sids) == 0 {
		return errSIDEmpty
	}
	if len(sids) > maxSIDs {
		return errSIDCount
	}
	for _, id := range sids {
		if id < NoSection || id > maxID {
			return errSIDRange
		}
	}
	return nil
}

// Signals is everything that is said about consent beside one event. The zero value says nothing.
type Signals struct {
	GPP             *String   // nil: no GPP string
	SIDs            []int32   // gpp_sid: the sections in force; without a meaning where there is no GPP string
	USPrivacy       USPrivacy // us_privacy_string
	MeasurementOnly bool      // mmt_only: the sender asks for it, which is no choice of the person
	SuppressOptOut  bool      // policy: a restriction by consent signals is as good as none at all
}

// Decision is the outcome of signals.
type Decision struct {
	Outcome  Outcome
	Mismatch bool // gpp_sid names a section that the string does not have
	Ignored  bool // gpp_sid names -1, 0, 3 or 4 beside others, or something without a GPP string

	signals Signals
	inForce uint64  // the sections that were looked at
	signal  Outcome // of consent signals alone, before policy
}

// Decide is the outcome of the string where the sections sids are in force. It allocates nothing.
func (g *String) Decide(sids []int32) Decision { return Signals{GPP: g, SIDs: sids}.Decide() }

// Decide is the most restrictive of all signals. It allocates nothing.
func (s Signals) Decide() Decision {
	d := Decision{signals: s}
	if s.GPP == nil {
		d.Ignored = len(s.SIDs) > 0
	} else {
		d.selectSections()
		for i := range s.GPP.sections {
			if sec := &s.GPP.sections[i]; d.inForce>>sec.id&1 == 1 {
				d.signal = max(d.signal, sec.Outcome())
			}
		}
		if d.Mismatch {
			d.signal = max(d.signal, MeasurementOnly)
		}
	}
	o, _ := s.USPrivacy.Outcome()
	d.signal = max(d.signal, o)

	d.Outcome = d.signal
	if d.signal == MeasurementOnly && s.SuppressOptOut {
		d.Outcome = Suppressed
	}
	if s.MeasurementOnly {
		d.Outcome = max(d.Outcome, MeasurementOnly)
	}
	return d
}

// selectSections decides which sections are in force.
func (d *Decision) selectSections() {
	const (
		header    = 1 << 3
		integrity = 1 << 4
	)
	g := d.signals.GPP
	var named uint64
	var none, unknown bool
	for _, id := range d.signals.SIDs {
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
	// we were told to apply and cannot.
	real := named &^ (header | integrity&^g.ids)
	d.Ignored = real != named || real != 0 && (none || unknown)

	switch {
	case real == 0 && named == 0 && none && !unknown:
		d.inForce = 0
	case real == 0:
		d.inForce = g.ids &^ integrity
	case real&g.ids == 0:
		d.inForce, d.Mismatch = g.ids&^integrity, true
	default:
		d.inForce, d.Mismatch = real&g.ids, real&^g.ids != 0
	}
}

// Reasons that are no field of a section.
const (
	ReasonMismatch        = "gpp_sid.mismatch"
	ReasonMeasurementOnly = "mmt_only"
	ReasonPolicy          = "opt_out=suppress"
)

// AppendReasons adds to b why the outcome is what it is: the most restrictive signals first. The strings are made
// once, for all calls.
func (d Decision) AppendReasons(b []string) []string {
	s := &d.signals
	for _, o := range [...]Outcome{Suppressed, MeasurementOnly} {
		if s.GPP != nil {
			for i := range s.GPP.sections {
				if sec := &s.GPP.sections[i]; d.inForce>>sec.id&1 == 1 && sec.Outcome() == o {
					b = sec.AppendReasons(b)
				}
			}
		}
	}
	if d.Mismatch {
		b = append(b, ReasonMismatch)
	}
	b = s.USPrivacy.appendReasons(b, "us_privacy_string.OptOutSale", "us_privacy_string.Notice")
	if s.SuppressOptOut && d.signal == MeasurementOnly {
		b = append(b, ReasonPolicy)
	}
	if s.MeasurementOnly {
		b = append(b, ReasonMeasurementOnly)
	}
	return b
}

// Reasons is a list of its own of what AppendReasons adds, nil if there is nothing to say.
func (d Decision) Reasons() []string { return d.AppendReasons(nil) }
