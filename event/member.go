package event

import "sluice/event/internal/jsonscan"

// draft is what has been read of one event, before any rule is applied.
type draft struct {
	seen   uint32 // bit per field: named, whatever its value
	has    uint32 // … has a value of its type, neither null nor blank
	faulty uint32 // … has a value of another type

	text [fieldCount]string // the values of string members, and the literals of timestamp and value

	timestampInteger bool           // the literal is an integer
	foreign          foreignMembers // names of other platforms that the event has
	measurementOnly  bool
	consentUnread    bool   // a consent signal was not understood
	mmtUnread        bool   // … and it is a misspelled mmt_only, which is the sender's choice and not a person's
	unreadAt         string // pointer of the first that is no misspelled mmt_only
	sids             []int32
	sidsRejected     string // why gpp_sid is no list of section ids

	walked walked
	custom walked // of custom_data

	customEventID, orderID, transactionID reportID // of custom_data
}

// walked is what was seen of values that no rule looks into.
type walked struct {
	members    int  // of the object that was closed last
	nulls      bool // a null was read
	arrayNulls bool // … as an element of an array
	deepest    int  // level of the deepest container
}

func (t *draft) is(f field) bool { return t.has&(1<<f) != 0 }

// readEvent reads an event. The scanner must be at its opening brace.
func (d *Decoder) readEvent() bool {
	d.scan.Pos++
	d.names.Open()
	for n := 0; ; n++ {
		name, st := d.scan.Member(n == 0)
		if st != jsonscan.Next {
			d.names.Close()
			return st == jsonscan.End
		}
		d.path[0] = segment{name: name}
		f := eventField(name)
		var ok bool
		if f == fieldUnknown {
			if place, consent := consentPlace(name); consent {
				ok = d.readConsent(name, place, 1)
			} else {
				ok = d.readUnknown(name, 1)
			}
		} else if d.first(f, 1) {
			ok = d.readMember(f)
		} else {
			ok = d.readAgain(f)
		}
		if !ok {
			return false
		}
	}
}

// first notes that a known member is named, and says whether for the first time.
func (d *Decoder) first(f field, level int) bool {
	if d.draft.seen&(1<<f) != 0 {
		d.duplicate(level)
		return false
	}
	d.draft.seen |= 1 << f
	return true
}

// readAgain reads the value of a member that was named before. The value is ignored, but a data_set_id is still
// compared with the dataset of the key.
func (d *Decoder) readAgain(f field) bool {
	if f != fieldDataset || d.scan.Peek() != '"' {
		return d.walk(1)
	}
	raw, ok := d.scan.Text()
	if !ok {
		return false
	}
	d.checkDataset(raw)
	d.search(raw, 1)
	return true
}

func (d *Decoder) checkDataset(id string) {
	if d.policy.DatasetID != "" && id != d.policy.DatasetID && !isBlank(id) && !d.result.Foreign {
		d.result.Foreign, d.result.ForeignIndex = true, d.index
	}
}

// readMember reads the value of a known member. Null is absence.
func (d *Decoder) readMember(f field) bool {
	if d.scan.Peek() == 'n' {
		return d.scan.Literal("null")
	}
	switch f {
	case fieldTimestamp:
		return d.readTimestamp()
	case fieldValue:
		return d.readValue()
	case fieldIdentifiers:
		return d.readObject(f, identifierField)
	case fieldPrivacy:
		return d.usualConsent() || d.readObject(f, privacyField)
	case fieldCustomData:
		return d.readCustomData()
	case fieldMeasurementOnly:
		return d.readBoolean(f)
	case fieldExt:
		return d.readExt()
	case fieldEventID, fieldID:
		return d.readReportID(f)
	case fieldDataset:
		ok := d.readText(f, 1)
		d.checkDataset(d.draft.text[f])
		return ok
	}
	return d.readText(f, 1)
}

// readText reads a member that must be a string. Blank is absence.
func (d *Decoder) readText(f field, level int) bool {
	c := d.scan.Peek()
	if c == '"' {
		raw, ok := d.scan.Text()
		if !ok {
			return false
		}
		if !isBlank(raw) {
			d.draft.text[f] = raw
			d.draft.has |= 1 << f
		}
		return true
	}
	d.wrong(f)
	if c == '[' && level == 2 && (f == fieldEmail || f == fieldIFA || f == fieldIP || f == fieldPartner) {
		d.problems[len(d.problems)-1].Hint = "Send one " + fieldTable[f].Name() + " as a string, not a list of them."
	}
	return d.walk(level)
}

// readTimestamp keeps the literal of a number. Any other value but a blank string breaks the timestamp's own
// rule, not that of types.
func (d *Decoder) readTimestamp() bool {
	const f = fieldTimestamp
	switch c := d.scan.Peek(); {
	case c == '"':
		raw, ok := d.scan.Text()
		if !ok {
			return false
		}
		if !isBlank(raw) {
			d.draft.faulty |= 1 << f
			d.problem(InvalidTimestamp, fieldTable[f].Pointer, "The timestamp is a string.",
				"Send whole Unix seconds as a JSON integer, without quotes.")
			d.search(raw, 1)
		}
		return true
	case c == '-' || c >= '0' && c <= '9':
		raw, integer, ok := d.scan.Number()
		d.draft.text[f], d.draft.timestampInteger = raw, integer
		d.draft.has |= 1 << f
		return ok
	}
	d.draft.faulty |= 1 << f
	d.problem(InvalidTimestamp, fieldTable[f].Pointer, "The timestamp is not a number.", "")
	return d.walk(1)
}

func (d *Decoder) readValue() bool {
	const f = fieldValue
	if c := d.scan.Peek(); c == '-' || c >= '0' && c <= '9' {
		raw, _, ok := d.scan.Number()
		d.draft.text[f] = raw
		d.draft.has |= 1 << f
		return ok
	}
	d.wrong(f)
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
	d.wrong(f)
	return d.walk(1)
}

// readObject reads identifiers or privacy.
func (d *Decoder) readObject(object field, lookup func(string) field) bool {
	if d.scan.Peek() != '{' {
		d.wrong(object)
		return d.walk(1)
	}
	d.scan.Pos++
	d.draft.has |= 1 << object
	d.names.Open()
	for n := 0; ; n++ {
		name, st := d.scan.Member(n == 0)
		if st != jsonscan.Next {
			d.names.Close()
			return st == jsonscan.End
		}
		d.path[1] = segment{name: name}
		f := lookup(name)
		var ok bool
		switch {
		case f == fieldUnknown:
			place, consent := consentPlace(name)
			if consent || object == fieldPrivacy {
				ok = d.readConsent(name, place, 2)
			} else {
				ok = d.readUnknown(name, 2)
			}
		case !d.first(f, 2):
			ok = d.walk(2)
		case d.scan.Peek() == 'n':
			ok = d.scan.Literal("null")
		case f == fieldGPPSID:
			ok = d.readSIDs()
		default:
			ok = d.readText(f, 2)
		}
		if !ok {
			return false
		}
	}
}

// readUnknown drops a member that is not known, and says so; its value is searched first.
func (d *Decoder) readUnknown(name string, level int) bool {
	d.checkName(name, level)
	d.unknown++
	if level == 1 {
		d.draft.foreign |= foreignMember(name)
	}
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
		return "The member is unknown and was dropped. Did you mean " + near + "?"
	}
	if parent == fieldTable[fieldIdentifiers].Pointer {
		return "The member is unknown and was dropped. Identifiers are email_sha256, ifa, ip and partner_id."
	}
	return "The member is unknown and was dropped."
}

func (d *Decoder) readExt() bool {
	const f = fieldExt
	if d.scan.Peek() == '{' {
		if !d.walk(1) {
			return false
		}
		if d.draft.walked.members > 0 {
			d.draft.has |= 1 << f
		}
		return true
	}
	d.wrong(f)
	return d.walk(1)
}

// readCustomData keeps the object as it came and notes what its rule asks about.
func (d *Decoder) readCustomData() bool {
	const f = fieldCustomData
	if d.scan.Peek() != '{' {
		d.draft.faulty |= 1 << f
		d.problem(InvalidCustomData, fieldTable[f].Pointer, "custom_data is not an object.", "")
		return d.walk(1)
	}
	t := &d.draft
	from := d.scan.Pos
	t.walked = walked{}
	d.nameless = true // custom_data is stored as it came
	ok := d.readCustomMembers()
	d.nameless = false
	if !ok {
		return false
	}
	t.custom = t.walked
	t.text[f] = d.scan.Input[from:d.scan.Pos]
	t.has |= 1 << f
	return true
}
