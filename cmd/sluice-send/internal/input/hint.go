package input

import (
	"slices"
	"strings"

	"sluice/event"
)

// Column names the column that fills the member at a pointer, "" if none does.
func (m *Mapping) Column(pointer string) string {
	i := slices.IndexFunc(m.columns, func(c column) bool { return c.pointer() == pointer })
	if i < 0 {
		return ""
	}
	return m.columns[i].header
}

// Hint says how to correct a cell in the words of a delimited file. It is "" where the rule's own hint fits.
func (m *Mapping) Hint(code event.Code, pointer string) string {
	name := pointer[strings.LastIndexByte(pointer, '/')+1:]
	if code == event.MissingField {
		if column := m.Column(pointer); column != "" {
			return "Fill " + label(column) + "."
		}
		if name == "currency_code" {
			return "Fill a column for it, named by --map COLUMN=currency_code, or give --set currency_code=USD."
		}
		return "Name its column by --map COLUMN=" + name + ", or give the same value to all rows by --set " + name + "=…."
	}
	if code == event.MissingIdentifier {
		return "Fill email_sha256, ifa or ip; --hash COLUMN=email_sha256 hashes a column of plain addresses."
	}
	mem, known := MemberOf(strings.ReplaceAll(strings.TrimPrefix(pointer, "/"), "/", "."))
	if !known || code != event.InvalidType && code != event.InvalidTimestamp && code != event.InvalidGPPSID &&
		code != event.InvalidCustomData &&
		code != event.PlaintextPII && code != event.InvalidIdentifier {
		return ""
	}
	switch mem.kind {
	case instant:
		return "Write Unix seconds such as 1794657600, or a time such as 2026-11-14T12:00:00Z."
	case number:
		return "Write a number such as 1234.50: a point, no thousands separator, no currency sign."
	case boolean:
		return "Write true or false."
	case integers:
		return "Write section ids with semicolons between them, such as 7;8."
	case object:
		return `Write a JSON object such as {"order":"A-1"}, with its quotes doubled inside a quoted cell.`
	}
	if code == event.PlaintextPII && (name == "email_sha256" || name == "ip") {
		return "Use --hash COLUMN=" + name + " for a column of plain values."
	}
	return ""
}
