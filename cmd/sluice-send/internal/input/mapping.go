package input

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

// Member is a place in an event that a column may fill.
type Member struct {
	Name  string
	Group string // identifiers, privacy, custom_data, or "" for the event itself
	kind  kind
}

var members = map[string]Member{
	"id": {"id", "", text}, "event_id": {"event_id", "", text},
	"data_set_id": {"data_set_id", "", text}, "timestamp": {"timestamp", "", instant},
	"event_type":        {"event_type", "", text},
	"custom_event_name": {"custom_event_name", "", text}, "source": {"source", "", text}, "cp_id": {"cp_id", "", text},
	"cp_name": {"cp_name", "", text}, "referer": {"referer", "", text}, "page_url": {"page_url", "", text},
	"value": {"value", "", number}, "currency_code": {"currency_code", "", text}, "mmt_only": {"mmt_only", "", boolean},
	"schema_version": {"schema_version", "", text}, "custom_data": {"custom_data", "", object},
	"email_sha256": {"email_sha256", "identifiers", text}, "ifa": {"ifa", "identifiers", text},
	"ip": {"ip", "identifiers", text}, "partner_id": {"partner_id", "identifiers", text},
	"gpp_string": {"gpp_string", "privacy", text}, "gpp_sid": {"gpp_sid", "privacy", integers},
	"us_privacy_string": {"us_privacy_string", "privacy", text},
}

// MemberOf finds a field by its name, with or without its group: email_sha256, identifiers.email_sha256,
// custom_data.tier.
func MemberOf(field string) (Member, bool) {
	if name, ok := strings.CutPrefix(field, "custom_data."); ok {
		return Member{name, "custom_data", text}, name != ""
	}
	group, name, dotted := strings.Cut(field, ".")
	if !dotted {
		name = group
	}
	m, ok := members[name]
	return m, ok && (!dotted || m.Group == group)
}

func (m Member) pointer() string {
	if m.Group == "" {
		return "/" + m.Name
	}
	return "/" + m.Group + "/" + m.Name
}

// Mapping says which column of a delimited file fills which member.
type Mapping struct {
	Map     map[string]string `json:"map,omitempty"`  // column → field, as asked for
	Hash    map[string]string `json:"hash,omitempty"` // column → field, hashed on the way
	Set     map[string]string `json:"set,omitempty"`  // field → the same text in every row
	Dataset string            `json:"data_set_id,omitempty"`

	columns   []column // in the order in which they are written, groups together
	width     int      // columns of the file
	Unused    []string `json:"-"` // columns that fill no field
	delimiter byte
}

type column struct {
	Member
	at     int                          // in the record; -1: constant
	value  []byte                       // of a constant
	hash   func(string) (string, error) // nil: as it is
	key    []byte                       // the member's name as JSON, with its colon
	header string                       // of the column; "" for a constant
	label  string                       // names the column or the flag to the sender; never a value
}

// MalformedRow is the code of rows that are no records; the service never sees them, so it is not among its codes.
const MalformedRow event.Code = "MALFORMED_ROW"

// Splitter divides records into fields. It holds the memory for them.
type Splitter struct {
	fields  [][]byte
	scratch []byte
}

// AppendEvent adds a record to b as an event, or says why it cannot become one. Empty cells are left out.
func (m *Mapping) AppendEvent(b, record []byte, s *Splitter) ([]byte, *event.Error) {
	var err error
	s.fields, s.scratch, err = splitRecord(s.fields[:0], s.scratch, record, m.delimiter)
	if err != nil {
		hint := "Write a quote inside a field twice, and put the field into quotes."
		if err == errUTF8 {
			hint = "Save the file as UTF-8."
		}
		return b, &event.Error{Code: MalformedRow, Message: sentence(err), Hint: hint}
	}
	return m.appendEvent(b, s.fields)
}

// sentence is an error in the form of the messages of the rules.
func sentence(err error) string {
	text := err.Error()
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

// Delimiter is what separates columns.
func (m *Mapping) Delimiter() byte { return m.delimiter }

// appendEvent writes the fields of a record as an event.
func (m *Mapping) appendEvent(b []byte, fields [][]byte) ([]byte, *event.Error) {
	if len(fields) != m.width {
		return b, &event.Error{
			Code: MalformedRow, Message: fmt.Sprintf("The row has %d columns, the header %d.", len(fields), m.width),
			Hint: "Quote fields that hold the delimiter.",
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
		if c.Group != open {
			b = switchGroup(b, open, c.Group)
			open = c.Group
		}
		if b[len(b)-1] != '{' {
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
		b = event.AppendString(b, h)
	}
	if open != "" {
		b = append(b, '}')
	}
	return append(b, '}'), nil
}

func switchGroup(b []byte, from, to string) []byte {
	if from != "" {
		b = append(b, '}')
	}
	if b[len(b)-1] != '{' {
		b = append(b, ',')
	}
	return append(event.AppendString(b, to), ':', '{')
}

func hashFault(c *column, err error) *event.Error {
	hint := "Correct the cell, or leave it empty."
	if errors.Is(err, client.ErrAlreadyHashed) {
		hint = "Use --map instead of --hash for this column."
	}
	return &event.Error{
		Code: event.InvalidIdentifier, Field: c.pointer(), Message: "In " + c.label + " " + err.Error() + ".", Hint: hint,
	}
}

// appendCell writes a cell as the JSON its member wants. A cell that is not of that kind goes as a string: the
// validator then rejects it in its own words.
func appendCell(b []byte, k kind, cell []byte) []byte {
	switch k {
	case instant, number:
		if IsNumber(cell) {
			return append(b, cell...)
		}
		if t, err := time.Parse(time.RFC3339, string(cell)); err == nil && k == instant {
			return strconv.AppendInt(b, t.Unix(), 10)
		}
	case boolean:
		if word := strings.ToLower(string(cell)); word == "true" || word == "false" {
			return append(b, word...)
		}
	case object:
		if cell[0] == '{' && json.Valid(cell) {
			return append(b, cell...)
		}
	case integers:
		list := strings.FieldsFunc(strings.Trim(string(cell), "[]"),
			func(r rune) bool { return r == ';' || r == ',' || r == ' ' || r == '|' })
		out := append(b, '[')
		for i, n := range list {
			if !IsNumber([]byte(n)) {
				return event.AppendString(b, cell)
			}
			if i > 0 {
				out = append(out, ',')
			}
			out = append(out, n...)
		}
		return append(out, ']')
	}
	return event.AppendString(b, cell)
}

// IsNumber reports whether b is a JSON number.
func IsNumber(b []byte) bool {
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
