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
	label string                       // names the column to the sender; never a value
}

// bind fits the mapping to a header and says everything that is wrong with it at once.
func (m *mapping) bind(header []string) error {
	m.width = len(header)
	index := map[string]int{}
	for i, name := range header {
		index[name] = i
	}
	var wrong []string
	taken := map[member]string{}
	used := make([]bool, len(header))
	put := func(c column, field string) {
		if by, twice := taken[c.member]; twice {
			wrong = append(wrong, fmt.Sprintf("%s would be filled twice, by %s and by %s", field, by, c.label))
			return
		}
		taken[c.member] = c.label
		if c.at >= 0 {
			used[c.at] = true
		}
		m.columns = append(m.columns, c)
	}
	named := func(pairs map[string]string, flag string, hash bool) {
		for _, name := range sortedKeys(pairs) {
			field := pairs[name]
			at, there := index[name]
			mem, known := memberOf(field)
			c := column{member: mem, at: at, label: "column " + strconv.Quote(name)}
			switch {
			case !there:
				wrong = append(wrong, fmt.Sprintf("%s names the column %q, which is not in the header", flag, name))
				continue
			case !known:
				wrong = append(wrong, fmt.Sprintf("%s names the field %q, which an event does not have", flag, field))
				continue
			case hash && mem.name == "email_sha256":
				c.hash = client.HashEmail
			case hash && mem.name == "ip":
				c.hash = client.HashIPv4
			case hash:
				wrong = append(wrong, fmt.Sprintf("--hash fills email_sha256 and ip only, not %q", field))
				continue
			}
			put(c, field)
		}
	}
	named(m.Hash, "--hash", true)
	named(m.Map, "--map", false)
	for i, name := range header {
		if mem, known := memberOf(name); known && !used[i] && taken[mem] == "" {
			put(column{member: mem, at: i, label: "column " + strconv.Quote(name)}, name)
		}
	}
	for _, field := range sortedKeys(m.Set) {
		mem, known := memberOf(field)
		if !known {
			wrong = append(wrong, fmt.Sprintf("--set names the field %q, which an event does not have", field))
			continue
		}
		put(column{member: mem, at: -1, value: []byte(m.Set[field]), label: "--set"}, field)
	}
	if dataset := members["data_set_id"]; m.Dataset != "" && taken[dataset] == "" {
		put(column{member: dataset, at: -1, value: []byte(m.Dataset), label: "--dataset"}, "data_set_id")
	}
	for i, name := range header {
		if !used[i] {
			m.unused = append(m.unused, name)
		}
	}
	wrong = append(wrong, m.missing(taken)...)
	for mem := range taken {
		if mem.group == "custom_data" && taken[members["custom_data"]] != "" {
			wrong = append(wrong, "custom_data comes both whole and by its members")
			break
		}
	}
	if len(wrong) > 0 {
		return &fileError{1, strings.Join(wrong, "; ")}
	}
	m.group()
	return nil
}

func (m *mapping) missing(taken map[member]string) (wrong []string) {
	for _, field := range []string{"data_set_id", "timestamp", "event_type"} {
		if taken[members[field]] == "" {
			hint := "--map COLUMN=" + field
			if field != "timestamp" {
				hint += " or --set " + field + "=…"
			}
			wrong = append(wrong, fmt.Sprintf("no column fills %s (%s)", field, hint))
		}
	}
	if taken[members["email_sha256"]] == "" && taken[members["ifa"]] == "" && taken[members["ip"]] == "" {
		hint := ""
		for _, name := range m.unused {
			if lower := strings.ToLower(name); strings.Contains(lower, "mail") {
				hint = fmt.Sprintf(" (--hash %s=email_sha256)", name)
			}
		}
		wrong = append(wrong, "no column fills an identifier: email_sha256, ifa or ip"+hint)
	}
	return wrong
}

// group brings the columns of one group together, so that a row is written in one pass.
func (m *mapping) group() {
	var sorted []column
	for _, g := range []string{"", "identifiers", "privacy", "custom_data"} {
		for _, c := range m.columns {
			if c.group == g {
				sorted = append(sorted, c)
			}
		}
	}
	m.columns = sorted
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
		return b, &rowFault{malformedRow, "", fmt.Sprintf("The row has %d columns, the header %d.", len(fields), m.width),
			"Quote fields that hold the delimiter."}
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
		b = appendString(b, c.name)
		b = append(b, ':')
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
				return appendString(b, string(cell))
			}
			if i > 0 {
				out = append(out, ',')
			}
			out = append(out, n...)
		}
		return append(out, ']')
	}
	return appendString(b, string(cell))
}

// isNumber says whether b is a JSON number.
func isNumber(b []byte) bool {
	return len(b) > 0 && (b[0] == '-' || b[0] >= '0' && b[0] <= '9') && json.Valid(b)
}

// appendString writes s as a JSON string. s is valid UTF-8.
func appendString[S string | []byte](b []byte, s S) []byte {
	const hexDigits = "0123456789abcdef"
	b = append(b, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < ' ':
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}
