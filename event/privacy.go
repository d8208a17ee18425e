package event

import (
	"errors"
	"hash/maphash"

	"sluice/gpp"
)

// Bounds of gpp_sid: -1 says that no section applies, 0 that it is not known which, the others are section ids.
const (
	minSID   = -1
	maxSID   = 63
	maxSIDs  = 63
	sidChunk = 256 // the most that memory is taken for at once: a single event has one or two
)

// readSIDs reads gpp_sid. What its elements are is judged later: without a gpp_string they do not matter.
func (d *Decoder) readSIDs() bool {
	const f = fieldGPPSID
	switch d.peek() {
	case 'n':
		return d.literal("null")
	case '[':
	default:
		d.wrong(f, "")
		return d.walk(2)
	}
	t := &d.draft
	d.i++
	from := len(d.sids)
	for n := 0; ; n++ {
		switch d.element(n == 0) {
		case broken:
			return false
		case end:
			if n > 0 {
				t.has |= 1 << f
			}
			t.sids = d.sids[from:len(d.sids):len(d.sids)]
			return true
		}
		d.path[2] = segment{index: n, array: true}
		if n == maxSIDs {
			t.sidsRefused = "gpp_sid holds more than 63 ids."
		}
		if id, ok := d.smallInteger(); ok {
			if n < maxSIDs {
				from = d.keepSID(from, id)
			}
			continue
		}
		if c := d.peek(); c != '-' && (c < '0' || c > '9') {
			t.sidsRefused = "gpp_sid holds something that is no integer."
			if !d.walk(3) {
				return false
			}
			continue
		}
		raw, integer, ok := d.number()
		if !ok {
			return false
		}
		id, small := parseInteger(raw)
		switch {
		case !integer:
			t.sidsRefused = "gpp_sid holds something that is no integer."
		case !small || id < minSID || id > maxSID:
			t.sidsRefused = "gpp_sid holds a number outside of -1 to 63."
		case n < maxSIDs:
			from = d.keepSID(from, int32(id))
		}
	}
}

// smallInteger reads an integer of one or two digits below maxSID, as nearly all section ids are. Whatever else stands
// there is left to the general way.
func (d *Decoder) smallInteger() (id int32, ok bool) {
	if d.i+2 >= len(d.s) {
		return 0, false
	}
	a, b, c := d.s[d.i]-'0', d.s[d.i+1], d.s[d.i+2]
	switch {
	case a > 9:
	case b == ',' || b == ']':
		d.i++
		return int32(a), true
	case a > 0 && a < maxSID/10 && b-'0' <= 9 && (c == ',' || c == ']'):
		d.i += 2
		return int32(a)*10 + int32(b-'0'), true
	}
	return 0, false
}

// keepSID adds an id to those of the event, which begin at from, and returns where they begin now.
func (d *Decoder) keepSID(from int, id int32) int {
	if len(d.sids) == cap(d.sids) {
		own := d.sids[from:]
		d.sids = append(make([]int32, 0, max(len(own)+4, min(4*cap(d.sids), sidChunk))), own...)
		from = 0
	}
	d.sids = append(d.sids, id)
	return from
}

// checkPrivacy are the rules of the consent signals. It returns what they say.
func (d *Decoder) checkPrivacy(t *draft) (s gpp.Signals) {
	s.SuppressOptOut = d.policy.SuppressOptOut
	if t.is(fieldGPPString) {
		s.GPP, s.SIDs = d.checkGPP(t)
	} else if t.is(fieldGPPSID) && t.faulty&(1<<fieldGPPString) == 0 {
		d.warn(GPPSIDIgnored, Fields[fieldGPPSID].Pointer, "gpp_sid was dropped, because there is no gpp_string.")
	}
	if t.is(fieldUSPrivacy) {
		usp, err := gpp.ParseUSPrivacy(t.text[fieldUSPrivacy])
		if err != nil {
			d.problem(InvalidUSPrivacyString, Fields[fieldUSPrivacy].Pointer, "us_privacy_string is not the digit 1 and three of Y, N and -.", "")
		}
		s.USPrivacy = usp
	}
	return s
}

// consent is a valid GPP string and what it says. The people of a batch share few different ones, so a handful of
// them (their number is arbitrary) saves reading most strings again. They are forgotten with the body.
type consent struct {
	text   string
	parsed *gpp.String
}

const consentSlots = 64

// checkGPP reads the GPP string and the list of sections in force.
func (d *Decoder) checkGPP(t *draft) (*gpp.String, []int32) {
	if t.sidsRefused != "" {
		d.problem(InvalidGPPSID, Fields[fieldGPPSID].Pointer, t.sidsRefused, "")
	}
	text := t.text[fieldGPPString]
	slot := d.consent(text)
	if slot.text != text {
		if slot.parsed == nil {
			slot.parsed = new(gpp.String)
		}
		slot.text = ""
		if err := slot.parsed.Parse(text); err != nil {
			d.problem(InvalidGPPString, Fields[fieldGPPString].Pointer, gppMessage(err), "")
			return nil, nil
		}
		slot.text = text
	}
	return slot.parsed, t.sids
}

// consent is where a string is kept, or has its place. The first of a body has one of its own, for most bodies have no
// other; the rest go by hash, to the second place of it when another string has the first.
func (d *Decoder) consent(text string) *consent {
	switch {
	case d.Explain: // what is explained stays until the next body: it needs memory of its own
		return new(consent)
	case d.lone.text == text:
		return &d.lone
	case !d.consented:
		d.consented = true
		return &d.lone
	}
	d.crowded = true
	h := maphash.String(nameSeed, text)
	slot := &d.consents[h%consentSlots]
	if slot.text != text && slot.text != "" {
		if second := &d.consents[(h+1)%consentSlots]; second.text == text || second.text == "" {
			return second
		}
	}
	return slot
}

// gppMessage says where a GPP string cannot be read. The decoder's own words speak of places and versions, never of a
// value that could point at a person; of an error from elsewhere that is not known.
func gppMessage(err error) string {
	fault, ok := errors.AsType[*gpp.Error](err)
	if !ok {
		return "The GPP string cannot be read."
	}
	return "The GPP string is not valid: " + fault.Error() + "."
}

// applyPrivacy decides the outcome, the most restrictive of all signals, and takes out of the row what the outcome
// forbids to keep.
func (d *Decoder) applyPrivacy(t *draft, r *Row, s gpp.Signals) {
	decision := s.Decide()
	signal := Outcome(decision.Outcome)
	d.warnPrivacy(s, decision)

	r.Privacy = signal
	if t.measurementOnly {
		r.Privacy = max(signal, MeasurementOnly)
	}
	r.USPrivacyString = t.text[fieldUSPrivacy]
	if s.GPP != nil {
		r.GPPString, r.GPPSID = t.text[fieldGPPString], s.SIDs
	}
	if r.Privacy == Suppressed {
		suppress(r)
	}
	if d.Explain {
		s.MeasurementOnly = t.measurementOnly
		decision = s.Decide()
		d.result.Details = append(d.result.Details, Detail{Reasons: decision.Reasons(), GPP: s.GPP})
	}
}

// warnPrivacy tells what the signals did. mmt_only is the sender's own wish and needs no telling.
func (d *Decoder) warnPrivacy(s gpp.Signals, decision gpp.Decision) {
	if decision.Mismatch {
		d.warn(GPPSIDMismatch, Fields[fieldGPPSID].Pointer, "gpp_sid names sections that the GPP string does not hold.")
	}
	if decision.Ignored {
		d.warn(GPPSIDIgnored, Fields[fieldGPPSID].Pointer, "Ids in gpp_sid that name no section to apply were passed over.")
	}
	pointer := Fields[fieldGPPString].Pointer
	if usp, _ := s.USPrivacy.Outcome(); s.GPP == nil || usp != gpp.Unrestricted && s.GPP.Decide(s.SIDs).Outcome < usp {
		pointer = Fields[fieldUSPrivacy].Pointer
	}
	switch decision.Outcome {
	case gpp.Suppressed:
		d.warn(PrivacySuppressed, pointer, "The consent signals forbid use: every identifier was removed.")
	case gpp.MeasurementOnly:
		d.warn(PrivacyRestricted, pointer, "The consent signals allow measurement only.")
	}
}

// suppress takes out of a row all that could point at a person: the identifiers; the consent string, which is
// distinctive enough to follow a person by; custom_data and the two addresses, which hold order numbers, user ids and
// search words. What is left can be counted and cannot be matched.
func suppress(r *Row) {
	r.EmailSHA256, r.IFA, r.IPSHA256, r.PartnerID = "", "", "", ""
	r.GPPString = ""
	r.CustomData = ""
	r.Referer, r.PageURL = "", ""
}
