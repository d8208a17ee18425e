package event

import "sluice/event/internal/jsonscan"

// draft is what has been read of one event, before any rule is applied.
type draft struct {
	seen   uint32 // bit per field: named, whatever its value
	has    uint32 // … has a value of its type, neither null nor blank
	faulty uint32 // … has a value of another type

	text [draftFields]string // the values of string members, and the literals of numbers

	timestampInteger bool // the literal is an integer
	measurementOnly  bool
	consentUnread    bool   // a consent signal was not understood
	mmtUnread        bool   // … and it is a misspelled mmt_only, which is the sender's choice and not a person's
	unreadAt         string // pointer of the first that is no misspelled mmt_only
	sids             []int32
	sidsRejected     string // why gpp_sid is no list of section ids

	walked walked
	custom walked // of custom_data
}

// walked is what was seen of values that no rule looks into.
type walked struct {
	members    int  // of the object that was closed last
	nulls      bool // a null was read
	arrayNulls bool // … as an element of an array
	deepest    int  // level of the deepest container
}

func (t *draft) is(f field) bool { return t.has&(1<<f) != 0 }

// readMembers reads the members of an event, or of its objects identifiers and privacy. The scanner must be at the
// opening brace; level is how many containers are open around the members.
func (d *Decoder) readMembers(object field, level int) bool {
	d.scan.Pos++
	d.names.Open()
	for n := 0; ; n++ {
		name, st := d.scan.Member(n == 0)
		if st != jsonscan.Next {
			d.names.Close()
			return st == jsonscan.End
		}
		d.path[level-1] = segment{name: name}
		var ok bool
		switch f := memberField(object, name); {
		case f == fieldUnknown:
			ok = d.readOther(object, name, level)
		case d.draft.seen&(1<<f) == 0:
			d.draft.seen |= 1 << f
			ok = d.readMember(f, level)
		default:
			d.duplicate(level)
			ok = d.readAgain(f, level)
		}
		if !ok {
			return false
		}
	}
}

// readAgain reads the value of a member that was named before. The value is ignored, but a data_set_id is still
// compared with the dataset of the key.
func (d *Decoder) readAgain(f field, level int) bool {
	if f != fieldDataset || d.scan.Peek() != '"' {
		return d.walk(level)
	}
	raw, ok := d.scan.Text()
	d.checkDataset(raw)
	d.search(raw, level)
	return ok
}

func (d *Decoder) checkDataset(id string) {
	if d.policy.DatasetID != "" && id != d.policy.DatasetID && !isBlank(id) && !d.result.Foreign {
		d.result.Foreign, d.result.ForeignIndex = true, d.index
	}
}

// readMember reads the value of a known member. Null is absence.
func (d *Decoder) readMember(f field, level int) bool {
	if d.scan.Peek() == 'n' {
		return d.scan.Literal("null")
	}
	switch f {
	case fieldTimestamp:
		return d.readTimestamp()
	case fieldValue:
		if !isNumber(d.scan.Peek()) {
			return d.wrong(f, level)
		}
		_, ok := d.readNumber(f)
		return ok
	case fieldIdentifiers:
		return d.readObject(f)
	case fieldPrivacy:
		return d.usualConsent() || d.readObject(f)
	case fieldGPPSID:
		return d.readSIDs()
	case fieldCustomData:
		return d.readCustomData()
	case fieldMeasurementOnly:
		return d.readBoolean(f)
	case fieldExt:
		return d.readExt()
	case fieldEventID, fieldID:
		return d.readReportID(f, level)
	case fieldDataset:
		ok := d.readText(f, level)
		d.checkDataset(d.draft.text[f])
		return ok
	}
	return d.readText(f, level)
}

// readText reads a member that must be a string. Blank is absence.
func (d *Decoder) readText(f field, level int) bool {
	if d.scan.Peek() != '"' {
		return d.wrong(f, level)
	}
	raw, ok := d.scan.Text()
	if !isBlank(raw) {
		d.draft.text[f] = raw
		d.draft.has |= 1 << f
	}
	return ok
}

// isNumber says whether a value that begins with c is a number.
func isNumber(c byte) bool { return c == '-' || isDigit(c) }

// readNumber keeps the literal of a number.
func (d *Decoder) readNumber(f field) (integer, ok bool) {
	d.draft.text[f], integer, ok = d.scan.Number()
	d.draft.has |= 1 << f
	return integer, ok
}

// readTimestamp keeps the literal of a number. Any other value but a blank string breaks the timestamp's own
// rule, not that of types.
func (d *Decoder) readTimestamp() (ok bool) {
	const f = fieldTimestamp
	message, hint := "The timestamp is not a number.", ""
	switch c := d.scan.Peek(); {
	case isNumber(c):
		d.draft.timestampInteger, ok = d.readNumber(f)
		return ok
	case c == '"':
		from := d.scan.Pos
		raw, ok := d.scan.Text()
		if !ok || isBlank(raw) {
			return ok
		}
		d.scan.Pos = from // walk reads it again, and searches it
		message = "The timestamp is a string."
		hint = "Send whole Unix seconds as a JSON integer, without quotes."
	}
	d.draft.faulty |= 1 << f
	d.problem(InvalidTimestamp, f.pointer(), message, hint)
	return d.walk(1)
}

func (d *Decoder) readBoolean(f field) bool {
	switch d.scan.Peek() {
	case 't':
		d.draft.measurementOnly = true
		return d.scan.Literal("true")
	case 'f':
		return d.scan.Literal("false")
	}
	return d.wrong(f, 1)
}

// readObject reads identifiers or privacy.
func (d *Decoder) readObject(f field) bool {
	if d.scan.Peek() != '{' {
		return d.wrong(f, 1)
	}
	d.draft.has |= 1 << f
	return d.readMembers(f, 2)
}

// readOther reads a member that is not known. Every such member of privacy is taken for a consent signal.
func (d *Decoder) readOther(object field, name string, level int) bool {
	d.checkName(name, level)
	if place, consent := consentPlace(name); consent || object == fieldPrivacy {
		return d.walkConsent(place, level)
	}
	return d.readUnknown(name, level)
}

// readUnknown drops a member that is not known, and says so; its value is searched first.
func (d *Decoder) readUnknown(name string, level int) bool {
	d.unknown++
	switch {
	case d.unknown <= maxUnknownNamed:
		d.warn(UnknownField, d.pointer(level), unknownMessage(name, knownPointer(d.pointer(level-1))))
	case d.unknown == maxUnknownNamed+1:
		d.warn(UnknownField, "", "More members are unknown. They were dropped too.")
	}
	return d.walk(level)
}

func unknownMessage(name, parent string) string {
	if near := likelyField(name, parent); near != "" {
		return "The member is unknown and was dropped. " + didYouMean(near)
	}
	if parent == fieldIdentifiers.pointer() {
		return "The member is unknown and was dropped. Identifiers are email_sha256, ifa, ip and partner_id."
	}
	return "The member is unknown and was dropped."
}

func (d *Decoder) readExt() bool {
	const f = fieldExt
	if d.scan.Peek() != '{' {
		return d.wrong(f, 1)
	}
	ok := d.walk(1)
	if d.draft.walked.members > 0 {
		d.draft.has |= 1 << f
	}
	return ok
}

// readCustomData keeps the object as it came and notes what its rule asks about.
func (d *Decoder) readCustomData() bool {
	const f = fieldCustomData
	if d.scan.Peek() != '{' {
		d.draft.faulty |= 1 << f
		d.problem(InvalidCustomData, f.pointer(), "custom_data is not an object.", "")
		return d.walk(1)
	}
	t := &d.draft
	from := d.scan.Pos
	t.walked = walked{}
	d.nameless, d.inCustom = true, true // custom_data is stored as it came
	ok := d.walk(1)
	d.nameless, d.inCustom = false, false
	t.custom = t.walked
	t.text[f] = d.scan.Input[from:d.scan.Pos]
	t.has |= 1 << f
	return ok
}
