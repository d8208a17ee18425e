package event

// maxReportID is the longest id of a report in bytes, from the contract.
const maxReportID = 256

// Members of custom_data that name what is reported. They are read as fields, and are not in the table of them.
const (
	customEventID = fieldCount + iota
	customOrderID
	customTransactionID
	draftFields
)

// customID is the field of a member of custom_data.
func customID(name string) field {
	switch name {
	case "event_id":
		return customEventID
	case "order_id":
		return customOrderID
	case "transaction_id":
		return customTransactionID
	}
	return fieldUnknown
}

// readReportID reads the value of a member that may name what is reported. Its type is no reason to reject the event:
// the text is empty where the value is of one that cannot be kept. A string is not searched for plaintext.
func (d *Decoder) readReportID(f field, level int) (ok bool) {
	t := &d.draft
	t.text[f] = ""
	switch c := d.scan.Peek(); {
	case c == 'n':
		t.walked.nulls = true
		return d.scan.Literal("null")
	case c == '"':
		return d.readText(f, level)
	case isNumber(c):
		integer, ok := d.readNumber(f)
		if !integer {
			t.text[f] = ""
		}
		return ok
	}
	t.has |= 1 << f
	return d.walk(level)
}

// readCustomID reads the value of such a member of custom_data.
func (d *Decoder) readCustomID(f field, level int) bool {
	ok := d.readReportID(f, level)
	text := &d.draft.text[f]
	d.search(*text, level)
	if len(*text) > maxReportID {
		*text = "" // custom_data has a limit of its own
	}
	return ok
}

// checkReportIDs fills the two columns that say which rows report the same.
func (d *Decoder) checkReportIDs(t *draft, r *Row) {
	r.SenderEventID = t.first(fieldID, fieldEventID, customEventID)
	r.OrderID = t.first(customOrderID, customTransactionID)
	if t.is(fieldID) && t.text[fieldID] == "" {
		d.warn(EventIDIgnored, fieldID.pointer(), "id was dropped: it is neither a string nor an integer.")
	}
	switch {
	case !t.is(fieldEventID):
	case t.text[fieldEventID] == "":
		d.warn(EventIDIgnored, fieldEventID.pointer(), "event_id was dropped: it is neither a string nor an integer.")
	case t.is(fieldID) && t.text[fieldEventID] != t.text[fieldID]:
		d.warn(EventIDIgnored, fieldEventID.pointer(), "event_id was dropped: it is not the id beside it.")
	}
}

// first is the text of the first field that is there.
func (t *draft) first(fields ...field) string {
	for _, f := range fields {
		if t.is(f) {
			return t.text[f]
		}
	}
	return ""
}
