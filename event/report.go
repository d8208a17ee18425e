package event

// maxReportID is the longest id of a report in bytes, from the contract.
const maxReportID = 256

// reportID is a sender's own id of what an event reports. It is there unless the member is absent, null or blank; the
// text is empty where the value is of a type that cannot be kept.
type reportID struct {
	text  string
	there bool
}

// readReportID reads id or event_id. Its type is no reason to reject the event.
func (d *Decoder) readReportID(f field) bool {
	id, ok := d.reportID(1)
	if id.there {
		d.draft.has |= 1 << f
		d.draft.text[f] = id.text
	}
	return ok
}

// reportID reads the value of a member that may name what is reported. A string is not searched for plaintext.
func (d *Decoder) reportID(level int) (id reportID, ok bool) {
	switch c := d.scan.Peek(); {
	case c == 'n':
		d.draft.walked.nulls = true
		return id, d.scan.Literal("null")
	case c == '"':
		raw, ok := d.scan.Text()
		return reportID{raw, ok && !isBlank(raw)}, ok
	case isNumber(c):
		raw, integer, ok := d.scan.Number()
		if !integer {
			raw = ""
		}
		return reportID{raw, true}, ok
	}
	return reportID{there: true}, d.walk(level)
}

// readCustomID reads the value of a member of custom_data that names what is reported.
func (d *Decoder) readCustomID(into *reportID, level int) bool {
	id, ok := d.reportID(level)
	d.search(id.text, level)
	if len(id.text) > maxReportID {
		id.text = "" // custom_data has a limit of its own
	}
	*into = id
	return ok
}

// customID is where the value of a member of custom_data belongs if it names what is reported, else nil.
func (t *draft) customID(name string) *reportID {
	switch name {
	case "event_id":
		return &t.customEventID
	case "order_id":
		return &t.orderID
	case "transaction_id":
		return &t.transactionID
	}
	return nil
}

// reportID is a member of the event itself as the id of a report.
func (t *draft) reportID(f field) reportID { return reportID{t.text[f], t.is(f)} }

// checkReportIDs fills the two columns that say which rows report the same.
func (d *Decoder) checkReportIDs(t *draft, r *Row) {
	id, eventID := t.reportID(fieldID), t.reportID(fieldEventID)
	r.SenderEventID = firstID(id, eventID, t.customEventID)
	r.OrderID = firstID(t.orderID, t.transactionID)
	if id.there && id.text == "" {
		d.warn(EventIDIgnored, fieldID.pointer(), "id was dropped: it is neither a string nor an integer.")
	}
	switch {
	case eventID.there && eventID.text == "":
		d.warn(EventIDIgnored, fieldEventID.pointer(),
			"event_id was dropped: it is neither a string nor an integer.")
	case eventID.there && id.there && eventID.text != id.text:
		d.warn(EventIDIgnored, fieldEventID.pointer(), "event_id was dropped: it is not the id beside it.")
	}
}

// firstID is the text of the first id that is there.
func firstID(ids ...reportID) string {
	for i := range ids {
		if ids[i].there {
			return ids[i].text
		}
	}
	return ""
}
