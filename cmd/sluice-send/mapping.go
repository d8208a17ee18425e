package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"sluice/client"
	"sluice/event"
)

// kind says how a cell becomes JSON.
type kind uint8

const (
	text    kind = iota
	instant      // an integer, or an RFC 3339 time
	number
	boolean
	integers // 7 or 7;8 or [7,8]
	object
)

// member is a place in an event that a column may fill.
type member struct {
	name  string
	group string // identifiers, privacy, custom_data, or "" for the event itself
	kind  kind
}

var members = map[string]member{
	"data_set_id": {"data_set_id", "", text}, "timestamp": {"timestamp", "", instant}, "event_type": {"event_type", "", text},
	"custom_event_name": {"custom_event_name", "", text}, "source": {"source", "", text}, "cp_id": {"cp_id", "", text},
	"cp_name": {"cp_name", "", text}, "referer": {"referer", "", text}, "page_url": {"page_url", "", text},
	"value": {"value", "", number}, "currency_code": {"currency_code", "", text}, "mmt_only": {"mmt_only", "", boolean},
	"schema_version": {"schema_version", "", text}, "custom_data": {"custom_data", "", object},
	"email_sha256": {"email_sha256", "identifiers", text}, "ifa": {"ifa", "identifiers", text},
	"ip": {"ip", "identifiers", text}, "partner_id": {"partner_id", "identifiers", text},
	"gpp_string": {"gpp_string", "privacy", text}, "gpp_sid": {"gpp_sid", "privacy", integers},
	"us_privacy_string": {"us_privacy_string", "privacy", text},
}

// memberOf finds a field by its name, with or without its group: email_sha256, identifiers.email_sha256, custom_data.tier.
func memberOf(field string) (member, bool) {
	if name, ok := strings.CutPrefix(field, "custom_data."); ok {
		return member{name, "custom_data", text}, name != ""
	}
	group, name, dotted := strings.Cut(field, ".")
	if !dotted {
		m, ok := members[field]
		return m, ok
	}
	m, ok := members[name]
	return m, ok && m.group == group
}

func (m member) pointer() string {
	if m.group == "" {
		return "/" + m.name
	}
	return "/" + m.group + "/" + m.name
}

// mapping says which column of a delimited file fills which member.
type mapping struct {
	Map     map[string]string `json:"map,omitempty"`  // column → field, as asked for
	Hash    map[string]string `json:"hash,omitempty"` // column → field, hashed on the way
	Set     map[string]string `json:"set,omitempty"`  // field → the same text in every row
	Dataset string            `json:"data_set_id,omitempty"`

	columns   []column // in the order in which they are written, groups together
	width     int      // columns of the file
	unused    []string
	delimiter byte
}

type column struct {
	member
	at    int                          // in the record; -1: constant
	value []byte                       // of a constant
	hash  func(string) (string, error) // nil: as it is
	key   []byte                       // the member's name as JSON, with its colon
	label string                       // names the column to the sender; never a value
}

// rowFault is why a row cannot become an event. It holds no value.
type rowFault struct {
	code    event.Code
	field   string
	message string
	hint    string
}

func (f *rowFault) Error() string { return f.message }

// malformedRow is the code of rows that are no records; the service never sees them, so it is not among its codes.
const malformedRow event.Code = "MALFORMED_ROW"

// appendEvent writes the fields of a record as an event. Empty cells are left out.
func (m *mapping) appendEvent(b []byte, fields [][]byte) ([]byte, *rowFault) {
	if len(fields) != m.width {
		return b, &rowFault{
			malformedRow, "", fmt.Sprintf("The row has %d columns, the header %d.", len(fields), m.width),
			"Quote fields that hold the delimiter.",
		}
	}
	b = append(b, '{')
	open := ""
	for i := range m.columns {
		c := &m.columns[i]
		cell := c.value
		if c.at >= 0 {
			cell = bytes.TrimSpace(fields[c.at])
		}
		if len(cell) == 0 {
			continue
		}
		if c.group != open {
			b = m.switchGroup(b, open, c.group)
			open = c.group
		}
		if last := b[len(b)-1]; last != '{' {
			b = append(b, ',')
		}
		b = append(b, c.key...)
		if c.hash == nil {
			b = appendCell(b, c.kind, cell)
			continue
		}
		h, err := c.hash(string(cell))
		if err != nil {
			return b, hashFault(c, err)
		}
		b = appendString(b, h)
	}
	if open != "" {
		b = append(b, '}')
	}
	return append(b, '}'), nil
}

func (m *mapping) switchGroup(b []byte, from, to string) []byte {
	if from != "" {
		b = append(b, '}')
	}
	if b[len(b)-1] != '{' {
		b = append(b, ',')
	}
	return append(appendString(b, to), ':', '{')
}

func hashFault(c *column, err error) *rowFault {
	hint := "Mend the cell, or leave it empty."
	if errors.Is(err, client.ErrAlreadyHashed) {
		hint = "Use --map instead of --hash for this column."
	}
	return &rowFault{event.InvalidIdentifier, c.pointer(), "In " + c.label + " " + err.Error() + ".", hint}
}

// appendCell writes a cell as the JSON its member wants. A cell that is not of that kind goes as a string: the
// validator then refuses it in its own words.
func appendCell(b []byte, k kind, cell []byte) []byte {
	switch k {
	case instant:
		if isNumber(cell) {
			return append(b, cell...)
		}
		if t, err := time.Parse(time.RFC3339, string(cell)); err == nil {
			return strconv.AppendInt(b, t.Unix(), 10)
		}
	case number:
		if isNumber(cell) {
			return append(b, cell...)
		}
	case boolean:
		if strings.EqualFold(string(cell), "true") {
			return append(b, "true"...)
		}
		if strings.EqualFold(string(cell), "false") {
			return append(b, "false"...)
		}
	case object:
		if cell[0] == '{' && json.Valid(cell) {
			return append(b, cell...)
		}
	case integers:
		list := strings.FieldsFunc(strings.Trim(string(cell), "[]"), func(r rune) bool { return r == ';' || r == ',' || r == ' ' || r == '|' })
		out := append(b, '[')
		for i, n := range list {
			if !isNumber([]byte(n)) {
				return appendString(b, cell)
			}
			if i > 0 {
				out = append(out, ',')
			}
			out = append(out, n...)
		}
		return append(out, ']')
	}
	return appendString(b, cell)
}

// isNumber says whether b is a JSON number.
func isNumber(b []byte) bool {
	if len(b) == 0 || b[0] != '-' && (b[0] < '0' || b[0] > '9') {
		return false
	}
	for _, c := range b {
		if c < '0' || c > '9' {
			return json.Valid(b)
		}
	}
	return b[0] != '0' || len(b) == 1
}

// appendString writes s as a JSON string. s is valid UTF-8.
func appendString[S string | []byte](b []byte, s S) []byte {
	const hexDigits = "0123456789abcdef"
	b = append(b, '"')
	done := 0 // everything before it is written
	for i := range len(s) {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		b = append(b, s[done:i]...)
		done = i + 1
		if c < ' ' {
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		} else {
			b = append(b, '\\', c)
		}
	}
	b = append(b, s[done:]...)
	return append(b, '"')
}
