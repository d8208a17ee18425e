package event

import (
	"hash/maphash"
	"slices"
	"strconv"
	"strings"

	"sluice/event/internal/jsonscan"
	"sluice/gpp"
)

// Bounds of gpp_sid: -1 says that no section applies, 0 that it is not known which, the others are section ids.
const (
	minSID   = -1
	maxSID   = 63
	maxSIDs  = 63
	sidChunk = 256 // the most that memory is taken for at once: a single event has one or two
)

// usualConsent reads privacy where it is written as nearly all senders write it: gpp_string, then gpp_sid with one or
// two ids, no escape, no white space but a space after a colon or a comma. Anything else it leaves as it is, to be read
// in the general way.
func (d *Decoder) usualConsent() bool {
	s := after(d.scan.Input[d.scan.Pos:], `{"gpp_string":`)
	if s == "" || s[0] != '"' {
		return false
	}
	end := jsonscan.PlainEnd(s, 1)
	text := s[1:end]
	if s = after(after(s[end:], `",`), `"gpp_sid":`); s == "" || s[0] != '[' || isBlank(text) {
		return false
	}
	var ids [2]int32
	count := 0
	for s = s[1:]; ; s = after(s, ",") {
		id, length := sectionID(s)
		if length == 0 || count == len(ids) {
			return false
		}
		ids[count] = id
		count++
		if s = s[length:]; s[0] != ',' {
			break
		}
	}
	if !strings.HasPrefix(s, "]}") {
		return false
	}
	d.scan.Pos = len(d.scan.Input) - len(s) + len("]}")
	t := &d.draft
	t.text[fieldGPPString] = text
	t.has |= 1<<fieldPrivacy | 1<<fieldGPPString | 1<<fieldGPPSID
	t.seen |= 1<<fieldGPPString | 1<<fieldGPPSID
	from := len(d.sids)
	for _, id := range ids[:count] {
		from = d.keepSID(from, id)
	}
	t.sids = d.sids[from:len(d.sids):len(d.sids)]
	return true
}

// after is what follows a word, and one space if there is one; "" if s does not begin with the word.
func after(s, word string) string {
	if !strings.HasPrefix(s, word) {
		return ""
	}
	return strings.TrimPrefix(s[len(word):], " ")
}

// sectionID reads an id of one or two digits with something after it. The length is 0 if there is none.
func sectionID(s string) (id int32, length int) {
	switch {
	case len(s) < 3 || !isDigit(s[0]):
		return 0, 0
	case !isDigit(s[1]):
		return int32(s[0] - '0'), 1
	case s[0] > '0' && s[0] < '0'+maxSID/10 && !isDigit(s[2]):
		return int32(s[0]-'0')*10 + int32(s[1]-'0'), 2
	}
	return 0, 0
}

// readSIDs reads gpp_sid. What its elements are is judged later: without a gpp_string they do not matter.
func (d *Decoder) readSIDs() bool {
	const f = fieldGPPSID
	if d.scan.Peek() != '[' {
		return d.wrong(f, 2)
	}
	t := &d.draft
	d.scan.Pos++
	from := len(d.sids)
	for n := 0; ; n++ {
		switch d.scan.Element(n == 0) {
		case jsonscan.Broken:
			return false
		case jsonscan.End:
			if n > 0 {
				t.has |= 1 << f
			}
			t.sids = d.sids[from:len(d.sids):len(d.sids)]
			return true
		}
		d.path[2] = segment{index: n, array: true}
		if n == maxSIDs {
			t.sidsRejected = "gpp_sid holds more than 63 ids."
		}
		if !isNumber(d.scan.Peek()) {
			t.sidsRejected = "gpp_sid holds a value that is not an integer."
			if !d.walk(3) {
				return false
			}
			continue
		}
		raw, integer, ok := d.scan.Number()
		if !ok {
			return false
		}
		id, small := parseInteger(raw)
		switch {
		case !integer:
			t.sidsRejected = "gpp_sid holds a value that is not an integer."
		case !small || id < minSID || id > maxSID:
			t.sidsRejected = "gpp_sid holds a number outside of -1 to 63."
		case n < maxSIDs:
			from = d.keepSID(from, int32(id))
		}
	}
}

// keepSID adds an id to those of the event, which begin at from, unless it is one of them, and returns where they begin
// now.
func (d *Decoder) keepSID(from int, id int32) int {
	if slices.Contains(d.sids[from:], id) {
		return from
	}
	if len(d.sids) == cap(d.sids) {
		own := d.sids[from:]
		d.sids = append(make([]int32, 0, max(len(own)+4, min(4*cap(d.sids), sidChunk))), own...)
		from = 0
	}
	d.sids = append(d.sids, id)
	return from
}

// checkPrivacy are the rules of the consent signals. It notes in s what they say.
func (d *Decoder) checkPrivacy(t *draft, s *gpp.Signals) {
	s.SuppressOptOut = d.policy.SuppressOptOut
	s.NotUnderstood = t.consentUnread
	if t.is(fieldGPPString) {
		s.GPP, s.SIDs = d.checkGPP(t)
	} else if t.is(fieldGPPSID) && t.faulty&(1<<fieldGPPString) == 0 {
		d.warn(GPPSIDIgnored, fieldGPPSID.pointer(), "gpp_sid was dropped, because there is no gpp_string.")
	}
	if t.is(fieldUSPrivacy) {
		usp, err := gpp.ParseUSPrivacy(t.text[fieldUSPrivacy])
		if err != nil {
			d.problem(InvalidUSPrivacyString, fieldUSPrivacy.pointer(),
				"us_privacy_string is not the digit 1 and three of Y, N and -.", "")
		}
		s.USPrivacy = usp
	}
}

// consent is a valid GPP string and what it says. The people of a batch share few different ones, so a handful of
// them (their number is arbitrary) saves reading most strings again. They are forgotten with the body.
type consent struct {
	text   string
	parsed *gpp.String
}

const consentSlots = 64

var consentSeed = maphash.MakeSeed()

// checkGPP reads the GPP string and the list of sections in force.
func (d *Decoder) checkGPP(t *draft) (*gpp.String, []int32) {
	if t.sidsRejected != "" {
		d.problem(InvalidGPPSID, fieldGPPSID.pointer(), t.sidsRejected, "")
	}
	text := t.text[fieldGPPString]
	slot := d.consent(text)
	if slot.text != text {
		if slot.parsed == nil {
			slot.parsed = new(gpp.String)
		}
		slot.text = ""
		if err := slot.parsed.Parse(text); err != nil {
			// An error of gpp speaks of places and versions, never of a value that could point at a person.
			d.problem(InvalidGPPString, fieldGPPString.pointer(), "The GPP string is not valid: "+err.Error()+".", "")
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
	h := maphash.String(consentSeed, text)
	for _, place := range [...]uint64{h, h + 1} {
		if slot := &d.consents[place%consentSlots]; slot.text == text || slot.text == "" {
			return slot
		}
	}
	return &d.consents[h%consentSlots]
}

// forgetConsents lets go of a body's strings.
func (d *Decoder) forgetConsents() {
	if d.consented {
		d.lone.forget()
	}
	if d.crowded {
		for i := range d.consents {
			d.consents[i].forget()
		}
	}
	d.consented, d.crowded = false, false
}

// forget lets go of the string and keeps the memory for the next one.
func (c *consent) forget() {
	c.text = ""
	if c.parsed != nil {
		c.parsed.Forget()
	}
}

// applyPrivacy decides the outcome, the most restrictive of all signals, and takes out of the row what the outcome
// forbids to keep.
func (d *Decoder) applyPrivacy(t *draft, r *Row, s *gpp.Signals) {
	verdict := s.Verdict()
	d.warnPrivacy(t, s, &verdict)

	r.Privacy = verdict.Outcome
	if t.measurementOnly || t.mmtUnread {
		r.Privacy = max(r.Privacy, MeasurementOnly)
	}
	r.USPrivacyString = t.text[fieldUSPrivacy]
	if s.GPP != nil {
		r.GPPString, r.GPPSID = t.text[fieldGPPString], s.SIDs
	}
	listed := d.policy.Suppression != nil && d.policy.Suppression.Lists(d.sought)
	if listed && r.Privacy != Suppressed {
		r.Privacy = Suppressed
		d.warn(PrivacySuppressed, "/identifiers", listedMessage)
	}
	if r.Privacy == Suppressed {
		suppress(r)
	}
	if d.Explain {
		s.MeasurementOnly = t.measurementOnly
		reasons := s.Decide().Reasons()
		if t.mmtUnread && !t.consentUnread {
			reasons = append(reasons, gpp.ReasonNotUnderstood)
		}
		if listed {
			reasons = append(reasons, ReasonSuppressionList)
		}
		d.result.Details = append(d.result.Details, Detail{Reasons: reasons, GPP: s.GPP})
	}
}

// warnPrivacy reports what the signals did. mmt_only is the sender's own choice: it needs no warning.
func (d *Decoder) warnPrivacy(t *draft, s *gpp.Signals, verdict *gpp.Verdict) {
	if verdict.Mismatch {
		d.warn(GPPSIDMismatch, fieldGPPSID.pointer(), "gpp_sid names sections that the GPP string does not hold.")
	} else if verdict.Many {
		d.warn(GPPSIDMismatch, fieldGPPSID.pointer(), "gpp_sid names more than two sections. All of them count.")
	}
	if verdict.Ignored {
		d.warn(GPPSIDIgnored, fieldGPPSID.pointer(), "gpp_sid holds ids that name no section. They were ignored.")
	}
	if verdict.Newer || verdict.UnknownMspa {
		d.warn(GPPVersionUnknown, fieldGPPString.pointer(), versionMessage(s.GPP))
	}
	if verdict.Undisclosed {
		d.warn(TCFWithoutDisclosedVendors, fieldGPPString.pointer(),
			"The TC string was created after 2026-02-28 and has no segment DisclosedVendors. TCF 2.3 demands it, so the string "+
				"is no consent.")
	}
	if verdict.Outcome == gpp.Unrestricted {
		return
	}
	if verdict.OnlyNotUnderstood {
		// PRIVACY_NOT_UNDERSTOOD was given for each of them. Only the dataset's policy adds to it.
		if verdict.Outcome == gpp.Suppressed {
			d.warn(PrivacySuppressed, t.unreadAt, suppressedMessage)
		}
		return
	}
	pointer := fieldGPPString.pointer()
	if usp, _ := s.USPrivacy.Outcome(); s.GPP == nil || usp != gpp.Unrestricted && s.GPP.Decide(s.SIDs).Outcome < usp {
		pointer = fieldUSPrivacy.pointer()
	}
	switch verdict.Outcome {
	case gpp.Suppressed:
		d.warn(PrivacySuppressed, pointer, suppressedMessage)
	case gpp.MeasurementOnly:
		d.warn(PrivacyRestricted, pointer, "The consent signals allow measurement only.")
	}
}

// versionMessage names the sections with a version that is not known. Versions are numbers up to 63: no value of a
// person.
func versionMessage(g *gpp.String) string {
	var newer, mspa []string
	for s := range g.Sections() {
		switch name := s.Name() + " version " + strconv.Itoa(s.Version()); {
		case s.Newer():
			newer = append(newer, name)
		case s.UnknownMspa():
			mspa = append(mspa, name)
		}
	}
	var says []string
	if newer != nil {
		says = append(says, "The GPP string has sections that are newer than what is read: "+strings.Join(newer, ", ")+
			". Where one is in force, the event is suppressed.")
	}
	if mspa != nil {
		says = append(says, "The GPP string has sections with an MspaVersion that is not known: "+strings.Join(mspa, ", ")+
			". Where one is in force, the event is restricted to measurement.")
	}
	return strings.Join(says, " ")
}

// ReasonSuppressionList is the reason of an outcome that the operator's list decides.
const ReasonSuppressionList = "operator.suppression_list"

// listedMessage does not say which identifier is on the list.
const listedMessage = "The operator's suppression list forbids use. Every identifier and every other text was removed."

const suppressedMessage = "The consent signals forbid use. Every identifier and every other text was removed."

// unnameMembers puts one warning in the place of all that name members which are not in the table of fields. It says
// how many there are. Such a name can be an identifier, and the warnings of an accepted event may be stored with its
// receipt.
func (d *Decoder) unnameMembers() {
	kept := d.warnings[:0]
	for _, w := range d.warnings {
		switch w.Code {
		case UnknownField:
			w.Field, w.Message = "", counted(d.unknown, "member is unknown and was dropped",
				"members are unknown and were dropped")
		case PrivacyNotUnderstood:
			w.Field, w.Message = "", counted(d.unread, "consent signal was not understood",
				"consent signals were not understood")
		default:
			w.Field = knownPointer(w.Field)
		}
		if !slices.Contains(kept, w) {
			kept = append(kept, w)
		}
	}
	d.warnings = kept
}

func counted(n int, one, many string) string {
	if n == 1 {
		many = one
	}
	return strconv.Itoa(n) + " " + many +
		". Send the event to /v1/events/validate to see which: the answer about a suppressed event names none."
}

// suppress keeps of a row what can be counted: dataset, event type, times, value and currency, and the facts that we
// decided ourselves. cp_id stays only where it is the dataset's own id. Every other member can carry an identifier,
// also one that the sender copied into it, such as a hash in source or in the ids of gpp_sid; so none of them stays.
func suppress(r *Row) {
	kept := Row{
		EventID: r.EventID, SubmissionID: r.SubmissionID, SubmissionIndex: r.SubmissionIndex, ReceivedAt: r.ReceivedAt,
		DatasetID: r.DatasetID, EventTime: r.EventTime, EventType: r.EventType,
		Value: r.Value, HasValue: r.HasValue, CurrencyCode: r.CurrencyCode,
		Privacy: r.Privacy, Late: r.Late, MeasurementOnly: r.MeasurementOnly, OptimizationEligible: r.OptimizationEligible,
		SchemaVersion: r.SchemaVersion,
	}
	if r.CampaignID == r.DatasetID {
		kept.CampaignID = r.DatasetID
	}
	*r = kept
}
