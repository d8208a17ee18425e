package event

import (
	"cmp"
	"math"
	"strconv"
	"time"

	"sluice/event/internal/pii"
	"sluice/gpp"
)

const (
	lateSeconds   = int64(LateAge / time.Second)
	maxAgeSeconds = int64(MaxAge / time.Second)

	// skewSeconds is how far a sender's clock may run ahead.
	skewSeconds = 300

	// Timestamps from the first to below the second are milliseconds. No second of the 30 days that are accepted
	// falls into that range before the year 5138, so it is never a guess.
	millisecondsFrom = 1e11
	microsecondsFrom = 1e14
	nanosecondsFrom  = 1e17
)

// MaxPlausibleValue is the largest value, either way, that is added up: with larger ones a sum could become infinite.
const MaxPlausibleValue = 1e15

// schemaVersion is how every row spells its version.
const schemaVersion = "1.0"

// judge applies the rules to the event that was read, and makes its row if it breaks none.
func (d *Decoder) judge() {
	t := &d.draft
	d.result.Rows = append(d.result.Rows, Row{})
	r := &d.result.Rows[len(d.result.Rows)-1]
	d.checkMissing(t)
	d.checkType(t, r)
	d.checkTimestamp(t, r)
	d.checkIdentifiers(t, r)
	d.checkCurrency(t, r)
	d.checkValue(t, r)
	var signals gpp.Signals
	d.checkPrivacy(t, &signals)
	d.checkSchemaVersion(t)
	d.checkCustomData(t, r)
	d.checkReportIDs(t, r)
	d.checkLengths(t)
	d.checkPlaintext(t)
	if t.is(fieldExt) {
		d.warn(ExtIgnored, fieldExt.pointer(), "The content of ext was dropped. The member is reserved.")
	}
	if d.broken > 0 {
		*r = Row{}
		d.result.Rows = d.result.Rows[:len(d.result.Rows)-1]
		d.reject()
		return
	}
	d.finish(t, r, &signals)
}

// finish fills the row of an event that breaks no rule.
func (d *Decoder) finish(t *draft, r *Row, signals *gpp.Signals) {
	r.SubmissionIndex = int32(d.index)
	r.ReceivedAt = d.now
	r.DatasetID = t.text[fieldDataset]
	r.Source = t.text[fieldSource]
	r.CampaignID = t.text[fieldCampaignID]
	if r.CampaignID == "" {
		r.CampaignID = r.DatasetID
	}
	r.CampaignName = t.text[fieldCampaignName]
	r.Referer = t.text[fieldReferer]
	r.PageURL = t.text[fieldPageURL]
	r.MeasurementOnly = t.measurementOnly
	r.SchemaVersion = schemaVersion
	d.applyPrivacy(t, r, signals)
	r.OptimizationEligible = r.Privacy == Unrestricted && !r.Late
	if r.Privacy == Suppressed && !d.Explain {
		d.unnameMembers()
	}

	d.countWarned()
	n := min(maxWarnings-len(d.result.Warnings), len(d.warnings))
	d.result.Warnings = append(d.result.Warnings, d.warnings[:n]...)
	if n < len(d.warnings) {
		d.result.WarningsTruncated = true
	}
}

// lacks says whether a member is not there. A value of the wrong type was reported already.
func (t *draft) lacks(f field) bool { return (t.has|t.faulty)&(1<<f) == 0 }

func (d *Decoder) missing(f field, message, hint string) {
	d.problem(MissingField, f.pointer(), message, hint)
	d.problems[len(d.problems)-1].Seen = d.instead(f)
}

// checkMissing is the rule of required members, but for identifiers, which have a rule of their own.
func (d *Decoder) checkMissing(t *draft) {
	if t.lacks(fieldDataset) {
		d.missing(fieldDataset, "data_set_id is required.",
			cmp.Or(d.foreignHint(), "Send the id of the dataset that the API key was issued for."))
	}
	if t.lacks(fieldTimestamp) {
		d.missing(fieldTimestamp, "timestamp is required.",
			"Send the time of the event in whole Unix seconds, as a JSON integer.")
	}
	if t.lacks(fieldType) {
		d.missing(fieldType, "event_type is required.",
			cmp.Or(d.foreignHint(), "Send one of the event types, such as purchase, or custom with a custom_event_name."))
	}
	if t.text[fieldType] == Custom && t.lacks(fieldCustomName) {
		d.missing(fieldCustomName, "custom_event_name is required when event_type is custom.",
			"Send your own name for the event, such as quiz_finished.")
	}
	if !t.lacks(fieldValue) && t.lacks(fieldCurrency) {
		d.missing(fieldCurrency, "currency_code is required when value is present.",
			"Send the ISO 4217 code of the currency, such as USD, or omit value.")
	}
	if !t.lacks(fieldGPPString) && t.lacks(fieldGPPSID) {
		d.missing(fieldGPPSID, "gpp_sid is required when gpp_string is present.",
			"Send the ids of the sections that apply, such as [7], as the consent platform gave them.")
	}
}

// checkType is the rule of event types.
func (d *Decoder) checkType(t *draft, r *Row) {
	if !t.is(fieldType) {
		return
	}
	i, known := typeIndex[t.text[fieldType]]
	if !known {
		d.problem(InvalidEventType, fieldType.pointer(), "event_type is not one of the event types.",
			didYouMean(nearestType(t.text[fieldType])))
		return
	}
	r.EventType = typeTable[i].Name
	if r.EventType == Custom {
		r.CustomEventName = t.text[fieldCustomName]
	} else if t.is(fieldCustomName) {
		d.warn(CustomEventNameIgnored, fieldCustomName.pointer(),
			"custom_event_name was dropped, because event_type is not custom.")
	}
}

// checkTimestamp are the rules of time: literal, unit, age.
func (d *Decoder) checkTimestamp(t *draft, r *Row) {
	const f = fieldTimestamp
	if !t.is(f) {
		return
	}
	pointer := f.pointer()
	if !t.timestampInteger {
		d.problem(InvalidTimestamp, pointer, "The timestamp has a fraction or an exponent.", "")
		return
	}
	at, ok := parseInteger(t.text[f])
	switch {
	case !ok:
		d.problem(InvalidTimestamp, pointer, "The timestamp is too large for any unit of time.", "")
		return
	case at >= nanosecondsFrom:
		d.problem(InvalidTimestamp, pointer, "The timestamp is in nanoseconds.",
			"Send whole Unix seconds: divide by 1,000,000,000.")
		return
	case at >= microsecondsFrom:
		d.problem(InvalidTimestamp, pointer, "The timestamp is in microseconds.",
			"Send whole Unix seconds: divide by 1,000,000.")
		return
	case at >= millisecondsFrom:
		at /= 1000
		d.warn(TimestampMilliseconds, pointer, "The timestamp was read as milliseconds.")
	}
	r.EventTime = at
	// A timestamp that is far below zero would overflow the subtraction; it is too old in any case.
	age := d.now - max(at, -nanosecondsFrom)
	switch {
	case at == 0:
		d.problem(TimestampTooOld, pointer, "The timestamp is 0, which is the year 1970.",
			"The time was probably not set: send the time of the event in whole Unix seconds.")
	case age > maxAgeSeconds:
		d.problem(TimestampTooOld, pointer, "The event is more than 30 days old.", "")
	case age < -skewSeconds:
		d.problem(TimestampInFuture, pointer, "The event is more than 5 minutes ahead of the time of receipt.", "")
	case age < 0:
		d.warn(ClockSkew, pointer, "The event is ahead of the time of receipt, by no more than 5 minutes.")
	case age >= lateSeconds:
		r.Late = true
		d.warn(LateEvent, pointer, "The event is at least 7 days old. It is stored, and is not eligible for optimization.")
	}
}

// parseInteger reads an integer literal. One of megabytes is not looked at: the error would hold a copy of it.
func parseInteger(literal string) (int64, bool) {
	const longest = len("-9223372036854775808")
	if len(literal) > longest {
		return 0, false
	}
	n, err := strconv.ParseInt(literal, 10, 64)
	return n, err == nil
}

// checkIdentifiers are the rules of identifiers. One that is rejected still counts as sent: the sender learns what is
// wrong with it, not that it is missing.
func (d *Decoder) checkIdentifiers(t *draft, r *Row) {
	const three = 1<<fieldEmail | 1<<fieldIFA | 1<<fieldIP
	sent := t.faulty & (three | 1<<fieldIdentifiers)
	sent |= d.identifier(t, fieldEmail, kindEmail, &r.EmailSHA256)
	sent |= d.identifier(t, fieldIFA, kindIFA, &r.IFA)
	sent |= d.identifier(t, fieldIP, kindIP, &r.IPSHA256)
	d.identifier(t, fieldPartner, kindPartner, &r.PartnerID)
	if d.policy.Suppression != nil {
		d.sought = d.policy.Suppression.Seek(r, d.sought[:0])
	}
	if sent == 0 {
		d.problem(MissingIdentifier, fieldIdentifiers.pointer(), missingIdentifier(t), "")
		p := &d.problems[len(d.problems)-1]
		if p.Seen = d.unknownIdentifiers(); !t.is(fieldIdentifiers) {
			p.Seen = d.instead(fieldIdentifiers)
		}
	}
}

// missingIdentifier says why an event has no identifier. Warnings of a rejected event are not reported, so the message
// names the identifiers that came with a worthless value.
func missingIdentifier(t *draft) string {
	message := "At least one hashed identifier is required: email_sha256, ifa or ip."
	for _, f := range [...]field{fieldEmail, fieldIFA, fieldIP} {
		if !t.is(f) {
			continue
		}
		// It has a value and no fault, and was not stored: so it is a digest of no value, or a zeroed id.
		why := " is the hash of no value (JUNK_HASH)."
		if _, warn, _, _, _ := checkIdentifier(kindIFA, t.text[f]); f == fieldIFA && warn == IFAZeroed {
			why = " is zeroed (IFA_ZEROED)."
		}
		message += " " + fieldTable[f].Name() + why
	}
	return message
}

// identifier judges one identifier and returns its bit if it counts as sent.
func (d *Decoder) identifier(t *draft, f field, kind identifierKind, out *string) uint32 {
	if !t.is(f) {
		return 0
	}
	value, warn, code, message, hint := checkIdentifier(kind, t.text[f])
	pointer := f.pointer()
	if code != "" {
		d.problem(code, pointer, message, hint)
		return 1 << f
	}
	if warn != "" {
		d.warn(warn, pointer, codeTable[rank(warn)].Meaning)
	}
	*out = value
	if value == "" {
		return 0
	}
	return 1 << f
}

// searched are the string members that may hold anything, and so an e-mail address. What the narrow ones may hold is
// no address; they are searched only if the event has another problem.
var (
	searched = [...]field{
		fieldCustomName, fieldSource, fieldCampaignID, fieldCampaignName, fieldReferer, fieldPageURL,
		fieldEventID, fieldID,
	}
	narrow = [...]field{fieldType, fieldCurrency, fieldGPPString, fieldUSPrivacy, fieldSchemaVersion}
)

// checkPlaintext looks for e-mail addresses outside of the identifiers. What is dropped or kept as it came was searched
// when it was read.
func (d *Decoder) checkPlaintext(t *draft) {
	d.searchFields(t, searched[:])
	if d.policy.DatasetID == "" {
		d.searchFields(t, []field{fieldDataset})
	}
	if d.broken > 0 {
		d.searchFields(t, narrow[:])
	}
}

func (d *Decoder) searchFields(t *draft, fields []field) {
	for _, f := range fields {
		if t.is(f) && pii.HoldsEmail(t.text[f]) {
			d.plaintextAt(f.pointer())
		}
	}
}

// checkCurrency is the rule of currencies.
func (d *Decoder) checkCurrency(t *draft, r *Row) {
	const f = fieldCurrency
	if !t.is(f) {
		return
	}
	code := t.text[f]
	if !activeCurrency(code) {
		raised := d.raise(code)
		if !activeCurrency(raised) {
			d.problem(InvalidCurrency, f.pointer(), "currency_code is not an active ISO 4217 code.",
				didYouMean(nearestCurrency(code)))
			return
		}
		d.warn(CurrencyCaseNormalized, f.pointer(), "currency_code was converted to upper case.")
		code = raised
	}
	r.CurrencyCode = code
}

// raise puts the letters of a code of three bytes into capitals, without an allocation. It makes a letter of nothing
// else.
func (d *Decoder) raise(code string) string {
	if len(code) != 3 {
		return ""
	}
	from := d.scan.Arena.Len()
	for _, c := range []byte(code) {
		d.scan.Arena.WriteByte(c &^ 0x20)
	}
	return d.scan.Arena.String()[from:]
}

// checkValue reads the value, which must be finite.
func (d *Decoder) checkValue(t *draft, r *Row) {
	const f = fieldValue
	if !t.is(f) {
		return
	}
	v, err := strconv.ParseFloat(t.text[f], 64)
	if err != nil || math.IsInf(v, 0) {
		d.problem(InvalidType, f.pointer(), "value is a number too large to be held.",
			"Send a finite number below 1.8e308.")
		return
	}
	r.Value, r.HasValue = v+0, true // + 0 makes a negative zero a plain one
	if v > MaxPlausibleValue || v < -MaxPlausibleValue {
		d.warn(ValueImplausible, f.pointer(), "value is beyond 1e15. It is stored, and left out of every sum.")
	}
	if v < 0 && r.EventType != refund {
		d.warn(NegativeValue, f.pointer(), "value is negative, and the event is not a refund.")
	}
}

// checkSchemaVersion is the rule of versions.
func (d *Decoder) checkSchemaVersion(t *draft) {
	const f = fieldSchemaVersion
	if !t.is(f) {
		return
	}
	if v := t.text[f]; v != schemaVersion && v != "v1" {
		d.problem(UnsupportedSchemaVersion, f.pointer(), "schema_version is not one of 1.0 and v1.", "")
	}
}

// limited are the fields with a longest value.
var limited = func() (fields []field) {
	for f := range fieldTable {
		if fieldTable[f].MaxBytes > 0 {
			fields = append(fields, field(f))
		}
	}
	return fields
}()

// checkLengths is the rule of lengths.
func (d *Decoder) checkLengths(t *draft) {
	for _, f := range limited {
		if limit := fieldTable[f].MaxBytes; len(t.text[f]) > limit {
			message := fieldTable[f].Name() + " is longer than " + strconv.Itoa(limit) + " bytes of UTF-8."
			d.problem(FieldTooLong, f.pointer(), message, "")
		}
	}
}
